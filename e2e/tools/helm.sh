#!/usr/bin/env bash
# helm.sh: prints the path of the Helm that the tests run. Everything else goes to stderr. Go builds it from the modules
# that go.sum names in e2e/tools/helm, so that all machines have the same one. It is kept in .tools of this checkout.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
module=$root/e2e/tools/helm

say() { echo "helm: $*" >&2; }
die() { say "$*"; exit 1; }

command -v go >/dev/null || die "Go is not installed; it builds Helm (https://go.dev/dl)"
version=$(awk '$1 == "helm.sh/helm/v4" { print $2; exit }' "$module/go.mod")

mkdir -p "$root/.tools/helm"
exec 9>"$root/.tools/helm/lock"
flock 9

# The output depends on these files.
sources=$(cd "$module" && cat go.mod go.sum | sha256sum | cut -c -12)
kept=$root/.tools/helm/$version-$sources
if [[ ! -x $kept/helm ]]; then
  say "building Helm $version with Go (a download of 60 MB and 3 minutes on two cores the first time)"
  tmp=$kept.tmp
  rm -rf "$tmp"
  mkdir "$tmp"
  (cd "$module" && CGO_ENABLED=0 GOGC=400 go build -mod=readonly -buildvcs=false -trimpath -gcflags=all=-dwarf=false \
    -ldflags "-s -w -X helm.sh/helm/v4/internal/version.version=$version" -o "$tmp/helm" helm.sh/helm/v4/cmd/helm) >&2 ||
    die "Go could not build it"
  rm -rf "$kept"
  mv "$tmp" "$kept"
fi
echo "$kept/helm"
