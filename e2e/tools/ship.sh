#!/usr/bin/env bash
# ship.sh TARGET ARGUMENT...: `cargo build` of something that is shipped, for x86_64-unknown-linux-gnu, for example. Any
# machine makes the same file of the same source:
#   - the linker, the C compiler and the C library for Linux are those of zig.sh;
#   - a file names no directory of the machine.
# What is linked to glibc runs with 2.31 and later (docs/reference/versions-and-limits.md).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=$1
shift
glibc=2.31

registries=${CARGO_HOME:-$HOME/.cargo}/registry/src
output=${CARGO_TARGET_DIR:-target}
# Before rustc is told where the sources are.
compgen -G "$registries/*" >/dev/null || cargo fetch --locked
commit=$(rustc -vV | sed -n 's/^commit-hash: //p')
flags=("--remap-path-prefix=$PWD=." "--remap-path-prefix=$(realpath -m "$output")=target"
  "--remap-path-prefix=$(rustc --print sysroot)/lib/rustlib/src/rust=/rustc/$commit")
for registry in "$registries"/*; do
  flags+=("--remap-path-prefix=$registry=registry")
done
# From Cargo.toml's release, not from today's date.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0}

if [[ $target == wasm* ]]; then
  # As an argument, because the variable would replace the flags of .cargo/config.toml.
  printf -v list '"%s",' "${flags[@]}"
  exec e2e/tools/rust-target.sh "$target" \
    cargo build --locked --target "$target" --config "target.$target.rustflags=[$list]" "$@"
fi
zig=$(e2e/tools/zig.sh)
PATH=$zig/bin:$PATH
CARGO_ZIGBUILD_ZIG_PATH=$(realpath "$zig/ziglang/zig")
# What Zig compiles of its C libraries.
ZIG_GLOBAL_CACHE_DIR=$(realpath .tools/zig)/cache
CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f'; echo "${flags[*]}")
CARGO_ZIGBUILD_CACHE_DIR=$(realpath .tools/zig)/wrappers
export CARGO_ZIGBUILD_CACHE_DIR CARGO_ZIGBUILD_ZIG_PATH ZIG_GLOBAL_CACHE_DIR CARGO_ENCODED_RUSTFLAGS
exec e2e/tools/rust-target.sh "$target" \
  cargo zigbuild --locked --target "${target/%-gnu/-gnu.$glibc}" "$@"
