#!/usr/bin/env bash
# zig.sh: prints a directory with cargo-zigbuild and, in ziglang/, Zig: a linker and C compiler that has the C libraries
# of all platforms and of former releases. Everything else goes to stderr. They come from the Python package index with
# the digests of zig/requirements.txt, and are kept in .tools of this checkout. Others of this machine are not taken:
# another version makes other files.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
requirements=$root/e2e/tools/zig/requirements.txt

say() { echo "zig: $*" >&2; }
die() { say "$*"; exit 1; }

mkdir -p "$root/.tools/zig"
exec 9>"$root/.tools/zig/lock"
flock 9
kept=$root/.tools/zig/$(uname -m)-$(sha256sum "$requirements" | cut -c -12)
if [[ ! -x $kept/bin/cargo-zigbuild ]]; then
  python3 -m pip --version >/dev/null 2>&1 || die "python3 has no pip (Debian: apt-get install python3-pip)"
  say "getting Zig from the Python package index (a download of 100 MB, half a minute)"
  rm -rf "$kept.tmp"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps --no-compile \
    --only-binary :all: --require-hashes --requirement "$requirements" --target "$kept.tmp" >&2 ||
    die "pip could not install what $requirements names"
  rm -rf "$kept"
  mv "$kept.tmp" "$kept"
fi
echo "$kept"
