#!/usr/bin/env bash
# Builds a dynamic module that is not ours (e2e/other-module) and puts ours beside it, where an Envoy finds both.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
beside=${CARGO_TARGET_DIR:-target}/beside

mkdir -p "$beside"
cc -Wall -Werror -shared -fPIC -o "$beside/libother.so.tmp" e2e/other-module/other.c
cp dist/liblimpet.so "$beside/liblimpet.so.tmp"
for module in other limpet; do
  mv "$beside/lib$module.so.tmp" "$beside/lib$module.so"
done
