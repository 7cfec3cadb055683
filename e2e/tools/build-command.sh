#!/usr/bin/env bash
# build-command.sh OUTPUT [ARGUMENT...]: builds the limpet command as a static program, with cargo's arguments, and puts
# it at OUTPUT. It runs in an image without any file of an operating system. ARCH is the machine that it is for: x86_64
# or aarch64; by default this one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
output=$1
shift
arch=${ARCH:-$(uname -m)}
target=$arch-unknown-linux-musl
profile=debug
[[ " $* " != *" --release "* ]] || profile=release

# The allocator knows the size of pages when it is compiled, and refuses larger ones: Linux on ARM has up to 64 KiB.
[[ $arch != aarch64 ]] || export JEMALLOC_SYS_WITH_LG_PAGE=16

# Like a release, without symbols: an image and each pod that copies it have several times its size.
e2e/tools/ship.sh "$target" --config 'profile.dev.package.limpet.strip=true' -p limpet --bin limpet "$@"

mkdir -p "$(dirname "$output")"
cp "${CARGO_TARGET_DIR:-target}/$target/$profile/limpet" "$output.tmp"
mv "$output.tmp" "$output"
