#!/usr/bin/env bash
# sbom.sh DIRECTORY VERSION: writes the SBOM (CycloneDX) of each file of a release for ARCHES beside it (sbom.py). Of
# programs, the crates that are compiled into them for their targets are what cargo-cyclonedx says, which is built into
# .tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
directory=$(realpath "$1")
version=$2
tool=0.5.9

cyclonedx=.tools/bin/cargo-cyclonedx
if [[ $("$cyclonedx" cyclonedx --version 2>/dev/null) != *" $tool" ]]; then
  echo "Building cargo-cyclonedx $tool into .tools (2 minutes, once)" >&2
  cargo install --quiet --locked --root .tools "cargo-cyclonedx@$tool"
fi
cyclonedx=$(realpath "$cyclonedx")

# It writes beside each Cargo.toml, so it gets a copy of them.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z -- Cargo.toml Cargo.lock rust-toolchain.toml '*/Cargo.toml' '*.rs' |
  tar --create --null --files-from - | tar --extract --directory "$copy"
# crates PROGRAM CRATE TARGET
crates() {
  (cd "$copy" && "$cyclonedx" cyclonedx --quiet --manifest-path "$2/Cargo.toml" --format json --spec-version 1.5 \
    --target "$3" --no-build-deps --override-filename sbom)
  # Paths are those of the repository.
  mkdir -p "$copy/$(dirname "$1")"
  sed "s|$copy|/limpet|g" "$copy/$2/sbom.json" >"$copy/$1.json"
}
for arch in $ARCHES; do
  crates "$arch/limpet" controller "$arch-unknown-linux-musl"
  crates "$arch/liblimpet.so" filter/dynamic-module "$arch-unknown-linux-gnu"
done
crates limpet.wasm filter/proxy-wasm wasm32-wasip1

zig=$(e2e/tools/zig.sh)/ziglang
RUST=$(rustc -vV | sed -n 's/^release: //p')
RUST_COMMIT=$(rustc -vV | sed -n 's/^commit-hash: //p')
ZIG=$("$zig/zig" version)
MUSL=$(sed -n 's/^#define VERSION "\(.*\)"/\1/p' "$zig/lib/libc/musl/src/internal/version.h")
JEMALLOC=$(sed -n '/^name = "tikv-jemalloc-sys"$/ { n; s/.*+\([0-9.]*\)-.*/\1/p }' Cargo.lock)
export RUST RUST_COMMIT ZIG MUSL JEMALLOC
python3 e2e/tools/sbom.py "$directory" "$version" "$ARCHES" "$copy" dist
