#!/usr/bin/env bash
# release-check.sh: makes the release of the last commit twice, and compares the digests. The second time, everything
# that a path could come from is elsewhere: the checkout, the sources of crates, Zig. The two share what was fetched,
# and nothing that was built.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

scratch=$(mktemp -d "${TMPDIR:-/tmp}/limpet-release-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
first=$scratch/first second=$scratch/a/second/one
cargo=${CARGO_HOME:-$HOME/.cargo}
mkdir -p "$root/.tools"

# make_release CHECKOUT CARGO_HOME. Where a CARGO_TARGET_DIR is set, the second would find what the first built.
make_release() {
  echo "Making a release in $1 (20 minutes on two cores)"
  env -u CARGO_TARGET_DIR CARGO_HOME="$2" make -C "$1" --no-print-directory release
  rm -rf "$1/target"
}

git clone --quiet "$root" "$first"
ln -s "$root/.tools" "$first/.tools"
make_release "$first" "$cargo"

git clone --quiet "$root" "$second"
mkdir -p "$second/.tools/zig" "$scratch/cargo"
for tool in "$root/.tools"/*; do
  [[ $tool == */zig ]] || ln -s "$tool" "$second/.tools/"
done
# Without its cache: Zig compiles its C libraries again.
cp -a "$("$root/e2e/tools/zig.sh")" "$second/.tools/zig/"
for entry in config.toml registry; do
  [[ ! -e $cargo/$entry ]] || cp -a "$cargo/$entry" "$scratch/cargo/"
done
make_release "$second" "$scratch/cargo"

if ! diff "$first/dist/release/SHA256SUMS" "$second/dist/release/SHA256SUMS"; then
  echo "The digests differ (<: the first directory, >: the second)"
  exit 1
fi
cat "$first/dist/release/SHA256SUMS"
echo "Both directories have these digests"
