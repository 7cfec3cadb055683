#!/usr/bin/env bash
# with-envoy.sh VERSION COMMAND...: runs a command with what the harness asks for in its environment.
set -euo pipefail
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dist=$tools/../../dist

ENVOY_BIN=$("$tools/envoy.sh" "$1")
LIMPET_WASM=$(realpath "$dist/limpet.wasm")
LIMPET_MODULE=$(realpath "$dist/liblimpet.so")
LIMPET_BIN=$(realpath "${LIMPET_BIN:-$dist/limpet}")
# Nothing to ship, so not in dist. Only the end-to-end tests need it.
LIMPET_PANICKING_MODULE=$(realpath -m "${CARGO_TARGET_DIR:-$tools/../../target}/panicking/liblimpet.so")
export ENVOY_BIN LIMPET_WASM LIMPET_MODULE LIMPET_BIN LIMPET_PANICKING_MODULE
shift
exec "$@"
