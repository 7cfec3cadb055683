#!/usr/bin/env bash
# build-command.sh OUTPUT [ARGUMENT...]: builds the limpet command as a static program, with cargo's arguments, and puts
# it at OUTPUT. It runs in an image without any file of an operating system.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
output=$1
shift
target=$(uname -m)-unknown-linux-musl
profile=debug
[[ " $* " != *" --release "* ]] || profile=release

# Like a release, without symbols: an image and each pod that copies it have several times its size.
e2e/tools/ship.sh "$target" --config 'profile.dev.package.limpet.strip=true' -p limpet --bin limpet "$@"

mkdir -p "$(dirname "$output")"
cp "${CARGO_TARGET_DIR:-target}/$target/$profile/limpet" "$output.tmp"
mv "$output.tmp" "$output"
