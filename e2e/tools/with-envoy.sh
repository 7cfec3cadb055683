#!/usr/bin/env bash
# with-envoy.sh VERSION COMMAND...: runs a command with the environment variables that the harness needs. It gets
# SIGTERM when its parent ends, so that it does not outlive a make that is killed.
set -euo pipefail
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dist=$tools/../../dist

ENVOY_BIN=$("$tools/envoy.sh" "$1")
LIMPET_WASM=$(realpath "$dist/limpet.wasm")
LIMPET_MODULE=$(realpath "$dist/liblimpet.so")
LIMPET_BIN=$(realpath "${LIMPET_BIN:-$dist/limpet}")
# Not in dist, because it is not shipped. Only the end-to-end tests need it.
LIMPET_PANICKING_MODULE=$(realpath -m "${CARGO_TARGET_DIR:-$tools/../../target}/panicking/liblimpet.so")
LIMPET_BESIDE_OTHER=$(realpath -m "${CARGO_TARGET_DIR:-$tools/../../target}/beside/liblimpet.so")
export LIMPET_BESIDE_OTHER ENVOY_BIN LIMPET_WASM LIMPET_MODULE LIMPET_BIN LIMPET_PANICKING_MODULE
shift
exec setpriv --pdeathsig TERM "$@"
