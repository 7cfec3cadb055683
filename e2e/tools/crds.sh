#!/usr/bin/env bash
# crds.sh gateway-api|istio|envoy-gateway|cert-manager|prometheus-operator [VERSION]: prints the directory with the
# custom resource definitions of that release. Everything else goes to stderr. The definitions come from a Go module of
# the project, which Go fetches as GOPROXY says and which must have the digest below. They are kept in .tools of this
# checkout.
set -euo pipefail
usage="usage: crds.sh gateway-api|istio|envoy-gateway|cert-manager|prometheus-operator [VERSION]"
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

die() { echo "crds: $*" >&2; exit 1; }

# The module, the newest release that is pinned here, and the place of the definitions in it. Those of the Gateway API
# are in standard/ and experimental/, a file for each kind.
case ${1:?$usage} in
  gateway-api)
    module=sigs.k8s.io/gateway-api newest=v1.7.0 size="2 to 5 MB"
    files=(config/crd/standard config/crd/experimental) ;;
  istio)
    module=istio.io/api newest=v1.31.1 size="3 MB"
    files=(kubernetes/customresourcedefinitions.gen.yaml) ;;
  envoy-gateway)
    crds=charts/gateway-helm/charts/crds/crds
    module=github.com/envoyproxy/gateway newest=v1.9.1 size="10 MB"
    files=("$crds/gatewayapi-crds.yaml" "$crds/generated/*.yaml") ;;
  cert-manager)
    module=github.com/cert-manager/cert-manager newest=v1.21.2 size="4 MB"
    files=("deploy/crds/*.yaml") ;;
  prometheus-operator)
    module=github.com/prometheus-operator/prometheus-operator newest=v0.85.0 size="15 MB"
    files=("example/prometheus-operator-crd/*monitors.yaml") ;;
  *) die "$usage" ;;
esac
version=${2:-$newest}
kept=$root/.tools/$1/$version

# As go.sum has it.
case $module@$version in
  sigs.k8s.io/gateway-api@v1.2.1) digest=h1:fZZ/+RyRb+Y5tGkwxFKuYuSRQHu9dZtbjenblleOLHM= ;;
  sigs.k8s.io/gateway-api@v1.6.1) digest=h1:mock6phZbI6rvZerwrVNk7hVNymQgHo+6sJ81Ia7ftY= ;;
  sigs.k8s.io/gateway-api@v1.6.3) digest=h1:lKpJa5bGlraC/QeACvCpsHLdmO6y0iKfzVl6gzaFEYc= ;;
  sigs.k8s.io/gateway-api@v1.7.0) digest=h1:duVnm7nO6oXfMMUWfcDoBph47CYR/ME3NGxccOVglaY= ;;
  istio.io/api@v1.31.1) digest=h1:5Yb5ihcz4YQsCkciusK7DnFpBMwRB6EFWeUKH1Atuyk= ;;
  github.com/envoyproxy/gateway@v1.9.1) digest=h1:vAVp6/AlBXJ1aOhp1mxL7fNEzVEfjADUguUhm2wzxQY= ;;
  github.com/cert-manager/cert-manager@v1.21.2) digest=h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68= ;;
  github.com/prometheus-operator/prometheus-operator@v0.85.0)
    digest=h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s= ;;
  *) die "no digest is pinned for $module@$version" ;;
esac

mkdir -p "$root/.tools/$1"
exec 9>"$root/.tools/$1/lock"
flock 9
if [[ ! -d $kept ]]; then
  command -v go >/dev/null || die "Go is not installed; it fetches the module $module"
  echo "crds: getting the definitions of $1 $version (a download of $size, some seconds)" >&2
  # Outside of any module, so that no go.mod matters. If the module is made for a newer Go, Go fails after it has named
  # the file. To unpack it, this Go is enough.
  found=$(cd / && GOTOOLCHAIN=local GOFLAGS=-mod=mod go mod download -json "$module@$version") || true
  field() { sed -n "s/^\t\"$1\": \"\(.*\)\",*$/\1/p" <<<"$found"; }
  [[ -f $(field Zip) ]] || die "Go could not fetch $module@$version: $found"
  [[ $(field Sum) == "$digest" ]] ||
    die "$module@$version has the digest $(field Sum), not the pinned $digest: nothing kept"
  tmp=$kept.tmp
  rm -rf "$tmp"
  mkdir -p "$tmp/definitions"
  python3 -m zipfile -e "$(field Zip)" "$tmp/module"
  (
    cd "$tmp/module/$module@$version"
    # Unquoted, because these are patterns. The names have no spaces.
    # shellcheck disable=SC2068
    mv ${files[@]} "$tmp/definitions/"
  )
  mv "$tmp/definitions" "$kept"
  rm -rf "$tmp"
fi
echo "$kept"
