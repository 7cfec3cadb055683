#!/usr/bin/env bash
# Builds the filter into dist/liblimpet.so, Envoy's dynamic module.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=$(uname -m)-unknown-linux-gnu

echo "Building the dynamic module (about 1 minute the first time)" >&2
e2e/tools/ship.sh "$target" -p limpet-dynamic-module --profile module

# Renamed into place, so an Envoy that has the old file mapped keeps it.
mkdir -p dist
cp "${CARGO_TARGET_DIR:-target}/$target/module/liblimpet.so" dist/liblimpet.so.tmp
mv dist/liblimpet.so.tmp dist/liblimpet.so
