#!/usr/bin/env bash
# with-definitions.sh COMMAND...: runs a command with the definitions of what only tests need: ISTIO_CRDS and
# ENVOY_GATEWAY_CRDS, and former releases of the Gateway API beside the one of with-kube.sh.
set -euo pipefail
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

for release in v1.2.1 v1.6.1; do
  "$tools/crds.sh" gateway-api "$release" >/dev/null
done
# Already set if a genuine control plane takes part: these are its definitions.
ISTIO_CRDS=${ISTIO_CRDS:-$("$tools/crds.sh" istio)/customresourcedefinitions.gen.yaml}
ENVOY_GATEWAY_CRDS=${ENVOY_GATEWAY_CRDS:-$("$tools/crds.sh" envoy-gateway)}
export ISTIO_CRDS ENVOY_GATEWAY_CRDS
exec "$@"
