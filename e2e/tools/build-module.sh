#!/usr/bin/env bash
# build-module.sh [OUTPUT]: builds the filter as Envoy's dynamic module, and puts it at OUTPUT, by default
# dist/liblimpet.so. ARCH is the machine that it is for: x86_64 or aarch64; by default this one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
output=${1:-dist/liblimpet.so}
target=${ARCH:-$(uname -m)}-unknown-linux-gnu

echo "Building the dynamic module (about 1 minute the first time)" >&2
e2e/tools/ship.sh "$target" -p limpet-dynamic-module --profile module

# Renamed into place, so an Envoy that has the old file mapped keeps it.
mkdir -p "$(dirname "$output")"
cp "${CARGO_TARGET_DIR:-target}/$target/module/liblimpet.so" "$output.tmp"
mv "$output.tmp" "$output"
