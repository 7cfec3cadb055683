#!/usr/bin/env bash
# prometheus.sh: prints a directory with prometheus and promtool, which the dashboard and the alerts are tested with.
# Everything else goes to stderr. Go builds them from the modules that e2e/tools/prometheus/go.sum names, so that all
# machines have the same ones. They are kept in .tools of this checkout.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
module=$root/e2e/tools/prometheus
path=github.com/prometheus/prometheus

say() { echo "prometheus: $*" >&2; }
die() { say "$*"; exit 1; }

command -v go >/dev/null || die "Go is not installed; it builds Prometheus (https://go.dev/dl)"
version=$(awk -v path="$path" '$1 == path { print $2; exit }' "$module/go.mod")

mkdir -p "$root/.tools/prometheus"
exec 9>"$root/.tools/prometheus/lock"
flock 9

# The output depends on these files.
sources=$(cd "$module" && cat go.mod go.sum | sha256sum | cut -c -12)
kept=$root/.tools/prometheus/$version-$sources
if [[ ! -x $kept/promtool ]]; then
  say "building Prometheus $version with Go (some minutes the first time, seconds from Go's cache)"
  tmp=$kept.tmp
  rm -rf "$tmp"
  mkdir "$tmp"
  # Without the clients of clouds that tell what to scrape: the tests name it in a file. The pages of Prometheus are not
  # part of its module.
  ldflags="-s -w -X github.com/prometheus/common/version.Version=$version"
  (cd "$module" && CGO_ENABLED=0 GOGC=400 nice go build -mod=readonly -buildvcs=false -trimpath -p 1 \
    -tags remove_all_sd -gcflags=all=-dwarf=false -ldflags "$ldflags" \
    -o "$tmp/" "$path/cmd/prometheus" "$path/cmd/promtool") >&2 || die "Go could not build it"
  rm -rf "$kept"
  mv "$tmp" "$kept"
fi
echo "$kept"
