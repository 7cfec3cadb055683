#!/usr/bin/env bash
# Builds the filter into dist/limpet.wasm.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=wasm32-wasip1
built=${CARGO_TARGET_DIR:-target}/$target/wasm/limpet_proxy_wasm.wasm

echo "Building the wasm filter (about 1 minute the first time)" >&2
build() { e2e/tools/ship.sh "$target" -p limpet-proxy-wasm --profile wasm; }
exports_differ() { ! diff e2e/tools/wasm-exports.txt <(python3 e2e/tools/wasm_exports.py "$built") >&2; }

build
if exports_differ; then
  # Cargo does not know that the linker reads wasm-exports.txt.
  echo "The list of exports changed: linking again" >&2
  cargo clean -p limpet-proxy-wasm --profile wasm --target "$target"
  build
  if exports_differ; then
    echo "$built does not export what e2e/tools/wasm-exports.txt lists (<: listed, >: exported)" >&2
    exit 1
  fi
fi

# Renamed into place, so an Envoy that starts meanwhile reads the old file or the new one, and not half of it.
mkdir -p dist
cp "$built" dist/limpet.wasm.tmp
mv dist/limpet.wasm.tmp dist/limpet.wasm
