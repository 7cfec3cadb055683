#!/usr/bin/env bash
# func-e.sh: prints the path of func-e: the installed one, or else one that Go builds into .tools of this checkout.
set -euo pipefail
version=v1.6.0

say() { echo "func-e: $*" >&2; }
die() { say "$*"; exit 1; }

bin=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/.tools/bin

if installed=$(command -v func-e); then
  echo "$installed"
  exit
fi
if [[ ! -x $bin/func-e ]]; then
  command -v go >/dev/null || die "neither func-e nor Go is installed (Go 1.21 or newer can build it)"
  say "building $version with Go (about a minute the first time)"
  # go install renames into place, so parallel calls do no harm.
  GOBIN=$bin go install -v "github.com/tetratelabs/func-e/cmd/func-e@$version" >&2 || die "Go could not build it"
fi
echo "$bin/func-e"
