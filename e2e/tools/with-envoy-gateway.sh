#!/usr/bin/env bash
# with-envoy-gateway.sh COMMAND...: runs a command with what the tests with Envoy Gateway ask for in its environment: the binary that
# ENVOY_GATEWAY names, and ENVOY_GATEWAY_CRDS, a directory with the custom resource definitions of its release. They are in Envoy Gateway's Go
# module, which comes from the Go module proxy and is what the digest below says. Kept in .tools of this checkout.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
module=github.com/envoyproxy/gateway
newest=v1.9.1

say() { echo "with-envoy-gateway: $*" >&2; }
die() { say "$*"; exit 1; }

how() {
  say "$*"
  say "These tests run a genuine Envoy Gateway, and a binary of it is nowhere to be fetched. Build one (Go 1.26, 5 minutes):"
  say "  CGO_ENABLED=0 go install $module/cmd/envoy-gateway@$newest"
  say "and name it: make e2e-envoy-gateway ENVOY_GATEWAY=\$(go env GOPATH)/bin/envoy-gateway"
  exit 1
}

[[ -n ${ENVOY_GATEWAY:-} ]] || how "ENVOY_GATEWAY is not set"
[[ -f $ENVOY_GATEWAY && -x $ENVOY_GATEWAY ]] || how "ENVOY_GATEWAY=$ENVOY_GATEWAY is no program"
command -v go >/dev/null || die "Go is not installed; it tells which release the binary is, and fetches its definitions"
version=$(go version -m "$ENVOY_GATEWAY" | awk -v module="$module" '$1 == "mod" && $2 == module { print $3 }')

# As go.sum has it.
case $version in
  v1.9.1) digest=h1:vAVp6/AlBXJ1aOhp1mxL7fNEzVEfjADUguUhm2wzxQY= ;;
  *) how "$ENVOY_GATEWAY is Envoy Gateway '$version', for which no digest is pinned" ;;
esac

kept=$root/.tools/envoy-gateway/$version
mkdir -p "$root/.tools/envoy-gateway"
exec 9>"$root/.tools/envoy-gateway/lock"
flock 9
if [[ ! -d $kept ]]; then
  say "getting the definitions of Envoy Gateway $version (a download of 10 MB, some seconds)"
  # As gateway-api-crds.sh does it, for the same reasons.
  found=$(cd / && GOTOOLCHAIN=local GOFLAGS=-mod=mod go mod download -json "$module@$version") || true
  field() { sed -n "s/^\t\"$1\": \"\(.*\)\",*$/\1/p" <<<"$found"; }
  [[ -f $(field Zip) ]] || die "Go could not fetch $module@$version: $found"
  [[ $(field Sum) == "$digest" ]] || die "$module@$version has the digest $(field Sum), not the pinned $digest: nothing kept"
  tmp=$kept.tmp
  rm -rf "$tmp"
  mkdir -p "$tmp/definitions"
  python3 -m zipfile -e "$(field Zip)" "$tmp/module"
  crds=$tmp/module/$module@$version/charts/gateway-helm/charts/crds/crds
  mv "$crds/gatewayapi-crds.yaml" "$crds"/generated/*.yaml "$tmp/definitions/"
  mv "$tmp/definitions" "$kept"
  rm -rf "$tmp"
fi
exec 9>&-
ENVOY_GATEWAY=$(realpath "$ENVOY_GATEWAY")
export ENVOY_GATEWAY ENVOY_GATEWAY_CRDS=$kept
exec "$@"
