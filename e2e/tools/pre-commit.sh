#!/usr/bin/env bash
# What the git hook of `make hooks` runs before a commit: the format of the whole workspace, and clippy on the crates
# that have staged changes. Both see the files as they are in the checkout, staged or not. `make check` checks the
# rest.
# pre-commit.sh --test (`make quick`): takes the crates with any uncommitted changes, and also runs their host tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if [[ ${1:-} == --test ]]; then
  changed=$(git diff HEAD --name-only && git ls-files --others --exclude-standard)
else
  changed=$(git diff --cached --name-only)
fi
grep -Eq '(\.rs|Cargo\.toml|Cargo\.lock|clippy\.toml|rustfmt\.toml)$' <<<"$changed" || exit 0

echo "pre-commit: format"
cargo fmt --all --check

# The members of the workspace that changed files belong to.
mapfile -t crates < <(cargo metadata --locked --no-deps --format-version 1 | python3 -c '
import json, os, sys

metadata = json.load(sys.stdin)
root = metadata["workspace_root"]
names = {
    os.path.relpath(os.path.dirname(package["manifest_path"]), root): package["name"]
    for package in metadata["packages"]
}
changed = set()
for path in sys.argv[1].splitlines():
    if not path.endswith((".rs", ".toml")):
        continue
    while (path := os.path.dirname(path)) and path not in names:
        pass
    changed.update(names[path] for path in [path] if path)
print(*sorted(changed), sep="\n", end="\n" if changed else "")
' "$changed")
((${#crates[@]})) || exit 0
echo "pre-commit: clippy on ${crates[*]}"
cargo clippy --locked "${crates[@]/#/--package=}" --all-targets --all-features -- -D warnings
# Some tests wait.
[[ ${1:-} != --test ]] || RUST_TEST_THREADS=4 cargo test --locked "${crates[@]/#/--package=}" --all-features
