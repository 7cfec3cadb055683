#!/usr/bin/env bash
# with-kube.sh COMMAND...: runs a command with what the Kubernetes test bed asks for in its environment.
set -euo pipefail
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

KUBE_BIN=$("$tools/kube.sh")
for release in v1.2.1 v1.6.1 v1.7.0; do
  GATEWAY_API_CRDS=$(dirname "$("$tools/gateway-api-crds.sh" "$release")")
done
export KUBE_BIN GATEWAY_API_CRDS
exec "$@"
