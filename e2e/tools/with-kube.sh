#!/usr/bin/env bash
# with-kube.sh COMMAND...: runs a command with the environment variables that the Kubernetes test bed needs: KUBE_BIN,
# an API server, and GATEWAY_API_CRDS, with the definitions of the newest release.
set -euo pipefail
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

KUBE_BIN=$("$tools/kube.sh")
GATEWAY_API_CRDS=$(dirname "$("$tools/crds.sh" gateway-api)")
export KUBE_BIN GATEWAY_API_CRDS
exec "$@"
