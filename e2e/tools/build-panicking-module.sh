#!/usr/bin/env bash
# Builds the dynamic module that panics on demand (e2e/panicking-module), as the shipped one is built. It is for tests
# only, so it is not in dist.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=${CARGO_TARGET_DIR:-target}

echo "Building the dynamic module that panics, for the tests (10 seconds after the other one)" >&2
cargo build --locked -p limpet-panicking-module --profile module

mkdir -p "$target/panicking"
cp "$target/module/liblimpet_panicking.so" "$target/panicking/liblimpet.so.tmp"
mv "$target/panicking/liblimpet.so.tmp" "$target/panicking/liblimpet.so"
