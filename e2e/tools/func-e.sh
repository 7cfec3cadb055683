#!/usr/bin/env bash
# func-e.sh: prints the path of a func-e: the installed one, else one built with Go into .tools of this checkout.
set -euo pipefail
version=v1.6.0
bin=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/.tools/bin

if installed=$(command -v func-e); then
  echo "$installed"
  exit
fi
if [[ ! -x $bin/func-e ]]; then
  command -v go >/dev/null || { echo "func-e: neither func-e nor Go is installed (Go 1.21 or newer can build it)" >&2; exit 1; }
  echo "func-e: building $version with Go (about a minute the first time)" >&2
  # go install renames into place, so parallel calls do no harm. -x would list every command: -v names the packages.
  GOBIN=$bin go install -v "github.com/tetratelabs/func-e/cmd/func-e@$version" >&2 || { echo "func-e: Go could not build it" >&2; exit 1; }
fi
echo "$bin/func-e"
