#!/usr/bin/env bash
# Builds the dynamic module that panics on demand (e2e/panicking-module), as the shipped one is built. It is for tests
# only, so it is not in dist.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
output=${CARGO_TARGET_DIR:-target}
target=$(uname -m)-unknown-linux-gnu

echo "Building the dynamic module that panics, for the tests (10 seconds after the other one)" >&2
e2e/tools/ship.sh "$target" -p limpet-panicking-module --profile module

mkdir -p "$output/panicking"
cp "$output/$target/module/liblimpet_panicking.so" "$output/panicking/liblimpet.so.tmp"
mv "$output/panicking/liblimpet.so.tmp" "$output/panicking/liblimpet.so"
