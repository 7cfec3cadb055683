#!/usr/bin/env bash
# actionlint.sh: checks the workflows of GitHub with actionlint, which Go builds into .tools of this checkout.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=1.7.7

if [[ $(.tools/bin/actionlint -version 2>/dev/null | head -n 1) != "v$version" ]]; then
  command -v go >/dev/null || { echo "Go is not installed; it builds actionlint (https://go.dev/dl)"; exit 1; }
  echo "Building actionlint $version into .tools (20 seconds, once)"
  GOBIN=$PWD/.tools/bin go install "github.com/rhysd/actionlint/cmd/actionlint@v$version"
fi
.tools/bin/actionlint
echo "actionlint finds nothing"
