#!/usr/bin/env bash
# control-plane-crds.sh istio|envoy-gateway [VERSION]: prints the directory with the custom resource definitions that come with a release of that
# control plane (everything else goes to stderr). They are in a Go module of it, which comes from the Go module proxy, or from GitHub where that is
# what GOPROXY says, and is what the digest below says. Kept in .tools of this checkout.
set -euo pipefail
usage="usage: control-plane-crds.sh istio|envoy-gateway [VERSION]"
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

die() { echo "control-plane-crds: $*" >&2; exit 1; }

case ${1:?$usage} in
  istio) module=istio.io/api newest=v1.31.1 size="3 MB" ;;
  envoy-gateway) module=github.com/envoyproxy/gateway newest=v1.9.1 size="10 MB" ;;
  *) die "$usage" ;;
esac
version=${2:-$newest}
kept=$root/.tools/$1/$version

# As go.sum has it.
case $module@$version in
  istio.io/api@v1.31.1) digest=h1:5Yb5ihcz4YQsCkciusK7DnFpBMwRB6EFWeUKH1Atuyk= ;;
  github.com/envoyproxy/gateway@v1.9.1) digest=h1:vAVp6/AlBXJ1aOhp1mxL7fNEzVEfjADUguUhm2wzxQY= ;;
  *) die "no digest is pinned for $module@$version" ;;
esac

mkdir -p "$root/.tools/$1"
exec 9>"$root/.tools/$1/lock"
flock 9
if [[ ! -d $kept ]]; then
  command -v go >/dev/null || die "Go is not installed; it fetches the module $module"
  echo "control-plane-crds: getting the definitions of $1 $version (a download of $size, some seconds)" >&2
  # As gateway-api-crds.sh does it, for the same reasons.
  found=$(cd / && GOTOOLCHAIN=local GOFLAGS=-mod=mod go mod download -json "$module@$version") || true
  field() { sed -n "s/^\t\"$1\": \"\(.*\)\",*$/\1/p" <<<"$found"; }
  [[ -f $(field Zip) ]] || die "Go could not fetch $module@$version: $found"
  [[ $(field Sum) == "$digest" ]] || die "$module@$version has the digest $(field Sum), not the pinned $digest: nothing kept"
  tmp=$kept.tmp
  rm -rf "$tmp"
  mkdir -p "$tmp/definitions"
  python3 -m zipfile -e "$(field Zip)" "$tmp/module"
  unpacked=$tmp/module/$module@$version
  case $1 in
    istio) mv "$unpacked/kubernetes/customresourcedefinitions.gen.yaml" "$tmp/definitions/" ;;
    envoy-gateway) mv "$unpacked/charts/gateway-helm/charts/crds/crds"/{gatewayapi-crds.yaml,generated/*.yaml} "$tmp/definitions/" ;;
  esac
  mv "$tmp/definitions" "$kept"
  rm -rf "$tmp"
fi
echo "$kept"
