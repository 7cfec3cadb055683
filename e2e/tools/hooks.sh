#!/usr/bin/env bash
# Installs the git hook that runs e2e/tools/pre-commit.sh before a commit, for this checkout and its worktrees. A hook
# of somebody else stays as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

wanted='#!/bin/sh
# Installed by `make hooks`. A checkout without the script, of an older commit, is not checked.
root=$(git rev-parse --show-toplevel) && script=$root/e2e/tools/pre-commit.sh
[ ! -x "$script" ] || exec "$script"'

hooks=$(git rev-parse --git-path hooks)
hook=$hooks/pre-commit
if [[ -e $hook || -L $hook ]]; then
  if [[ $(<"$hook") == "$wanted" && -x $hook ]]; then
    echo "The pre-commit hook is installed already: $hook"
    exit
  fi
  if ! grep -q '^# Installed by `make hooks`' "$hook" 2>/dev/null; then
    echo "There is another pre-commit hook, which stays as it is: $hook" >&2
    echo "To have both, let it call e2e/tools/pre-commit.sh of this checkout." >&2
    exit 1
  fi
fi
mkdir -p "$hooks"
printf '%s\n' "$wanted" >"$hook.tmp"
chmod +x "$hook.tmp"
mv "$hook.tmp" "$hook"
echo "Installed $hook"
echo "Before each commit it checks the format, and runs clippy on the crates with staged changes."
echo "To commit without: git commit --no-verify. To remove it: rm $hook"
