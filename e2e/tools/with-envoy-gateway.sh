#!/usr/bin/env bash
# with-envoy-gateway.sh COMMAND...: runs a command with the environment variables that the tests with Envoy Gateway
# need: ENVOY_GATEWAY, the binary, and ENVOY_GATEWAY_CRDS, a directory with the custom resource definitions of its
# release.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
module=github.com/envoyproxy/gateway
newest=v1.9.1

say() { echo "with-envoy-gateway: $*" >&2; }
die() { say "$*"; exit 1; }

how() {
  say "$*"
  say "These tests run a genuine Envoy Gateway, of which there is no binary to fetch. Build one (Go 1.26, 5 minutes):"
  say "  CGO_ENABLED=0 go install $module/cmd/envoy-gateway@$newest"
  say "Then name it: make e2e-envoy-gateway ENVOY_GATEWAY=\$(go env GOPATH)/bin/envoy-gateway"
  exit 1
}

[[ -n ${ENVOY_GATEWAY:-} ]] || how "ENVOY_GATEWAY is not set"
[[ -f $ENVOY_GATEWAY && -x $ENVOY_GATEWAY ]] || how "ENVOY_GATEWAY=$ENVOY_GATEWAY is not a program"
command -v go >/dev/null || die "Go is not installed; it says which release the binary is, and fetches its definitions"
version=$(go version -m "$ENVOY_GATEWAY" | awk -v module="$module" '$1 == "mod" && $2 == module { print $3 }')

kept=$("$root/e2e/tools/crds.sh" envoy-gateway "$version") ||
  how "$ENVOY_GATEWAY is Envoy Gateway '$version', whose definitions are not known"
ENVOY_GATEWAY=$(realpath "$ENVOY_GATEWAY")
export ENVOY_GATEWAY ENVOY_GATEWAY_CRDS=$kept
exec "$@"
