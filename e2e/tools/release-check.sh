#!/usr/bin/env bash
# release-check.sh: makes the release of the last commit twice, in two directories of different names, and compares the
# digests. The two share what was fetched, and nothing that was built.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

scratch=$(mktemp -d "${TMPDIR:-/tmp}/limpet-release-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
for checkout in "$scratch/first" "$scratch/a/second/one"; do
  git clone --quiet "$root" "$checkout"
  mkdir -p "$root/.tools"
  ln -s "$root/.tools" "$checkout/.tools"
  echo "Making a release in $checkout (10 minutes on two cores)"
  # Where a CARGO_TARGET_DIR is set, the second would find what the first built.
  env -u CARGO_TARGET_DIR make -C "$checkout" --no-print-directory release
  rm -rf "$checkout/target"
done
if ! diff "$scratch/first/dist/release/SHA256SUMS" "$scratch/a/second/one/dist/release/SHA256SUMS"; then
  echo "The digests differ (<: the first directory, >: the second)"
  exit 1
fi
cat "$scratch/first/dist/release/SHA256SUMS"
echo "Both directories have these digests"
