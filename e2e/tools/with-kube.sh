#!/usr/bin/env bash
# with-kube.sh COMMAND...: runs a command with the environment variables that the Kubernetes test bed needs.
set -euo pipefail
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

KUBE_BIN=$("$tools/kube.sh")
for release in v1.2.1 v1.6.1 v1.7.0; do
  GATEWAY_API_CRDS=$(dirname "$("$tools/crds.sh" gateway-api "$release")")
done
# Already set if a genuine control plane takes part: these are its definitions.
ISTIO_CRDS=${ISTIO_CRDS:-$("$tools/crds.sh" istio)/customresourcedefinitions.gen.yaml}
ENVOY_GATEWAY_CRDS=${ENVOY_GATEWAY_CRDS:-$("$tools/crds.sh" envoy-gateway)}
export KUBE_BIN GATEWAY_API_CRDS ISTIO_CRDS ENVOY_GATEWAY_CRDS
exec "$@"
