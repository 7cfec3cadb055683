#!/usr/bin/env bash
# sbom.sh DIRECTORY VERSION: writes the SBOM (CycloneDX) of each program that is shipped: the crates that are compiled
# into it, for its target. cargo-cyclonedx is built into .tools unless it is installed.
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
# sbom NAME CRATE TARGET
sbom() {
  (cd "$copy" && "$cyclonedx" cyclonedx --quiet --manifest-path "$2/Cargo.toml" --format json --spec-version 1.5 \
    --target "$3" --no-build-deps --override-filename sbom)
  # Paths are those of the repository.
  sed "s|$copy|/limpet|g" "$copy/$2/sbom.json" >"$directory/$1.cdx.json"
}
sbom "limpet-$version-linux-$(uname -m)" controller "$(uname -m)-unknown-linux-musl"
sbom "limpet-module-$version-linux-$(uname -m)" filter/dynamic-module "$(uname -m)-unknown-linux-gnu"
sbom "limpet-wasm-$version" filter/proxy-wasm wasm32-wasip1
