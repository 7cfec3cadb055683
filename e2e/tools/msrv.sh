#!/usr/bin/env bash
# msrv.sh [--dependencies]: checks the `rust-version` in Cargo.toml:
#   1. no dependency needs a newer Rust;
#   2. unless --dependencies is given, the Rust of that version compiles what is shipped: the command and both builds of
#      the filter. Where it is not installed and rustup cannot download it, this is left out with a message. Clippy's
#      lint incompatible_msrv finds newer parts of std in all of the workspace.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

say() { echo "msrv: $*" >&2; }
die() { say "$*"; exit 1; }
# value FILE KEY: the first string that KEY has in a TOML file.
value() { sed -n "s/^$2 = \"\([^\"]*\)\".*/\1/p" "$1" | head -n 1; }

oldest=$(value Cargo.toml rust-version)
[[ $oldest ]] || die "Cargo.toml has no rust-version"

# For the platforms that deny.toml names, too.
cargo metadata --locked --format-version 1 --all-features --filter-platform x86_64-unknown-linux-gnu \
  --filter-platform aarch64-unknown-linux-gnu --filter-platform wasm32-wasip1 | python3 -c '
import json, sys

def version(text):
    return tuple(int(part) for part in (text + ".0.0").split("-")[0].split(".")[:3])

oldest = sys.argv[1]
metadata = json.load(sys.stdin)
used = {node["id"] for node in metadata["resolve"]["nodes"]}
newer = [
    "{name} {version} needs Rust {rust_version}".format(**package)
    for package in metadata["packages"]
    if package["id"] in used and package["rust_version"] and version(package["rust_version"]) > version(oldest)
]
if newer:
    sys.exit("msrv: the rust-version in Cargo.toml is {}, but:\n  {}".format(oldest, "\n  ".join(newer)))
' "$oldest"

[[ ${1:-} != --dependencies ]] || exit 0

# 1.89 would be the newest patch of 1.89.
toolchain=$oldest
[[ $toolchain == *.*.* ]] || toolchain+=.0
has_toolchain() { rustup run "$toolchain" rustc --version >/dev/null 2>&1; }
if ! command -v rustup >/dev/null; then
  say "rustup is not installed: Rust $toolchain did NOT compile anything."
  exit
fi
if ! has_toolchain; then
  say "getting Rust $toolchain with rustup (a download of 80 MB, some seconds)"
  RUST_BACKTRACE=0 timeout 120 rustup toolchain install "$toolchain" --profile minimal --no-self-update >&2 || true
fi
if ! has_toolchain; then
  say "rustup could not download Rust $toolchain: it did NOT compile anything."
  exit
fi
say "compiling what is shipped with Rust $toolchain (1 minute the first time)"
# To compile the C of jemalloc would take half of the time. Nothing is linked, so any file will do in its place.
export JEMALLOC_OVERRIDE=$PWD/Cargo.toml
# A directory of its own: the two versions would otherwise replace each other's output.
rustup run "$toolchain" cargo check --locked -p limpet -p limpet-proxy-wasm -p limpet-dynamic-module \
  --target-dir "${CARGO_TARGET_DIR:-target}/msrv"
