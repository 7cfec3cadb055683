#!/usr/bin/env bash
# cosign.sh: prints the path of the cosign that the tests run. Everything else goes to stderr. Go builds it from the
# modules that go.sum names in e2e/tools/cosign, so that all machines have the same one. It is kept in .tools of this
# checkout.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
module=$root/e2e/tools/cosign

say() { echo "cosign: $*" >&2; }
die() { say "$*"; exit 1; }

command -v go >/dev/null || die "Go is not installed; it builds cosign (https://go.dev/dl)"
version=$(awk '$1 == "github.com/sigstore/cosign/v3" { print $2; exit }' "$module/go.mod")

mkdir -p "$root/.tools/cosign"
exec 9>"$root/.tools/cosign/lock"
flock 9

# The output depends on these files.
sources=$(cd "$module" && cat go.mod go.sum | sha256sum | cut -c -12)
kept=$root/.tools/cosign/$version-$sources
if [[ ! -x $kept/cosign ]]; then
  say "building cosign $version with Go (a download of 150 MB and 5 minutes on two cores the first time)"
  rm -rf "$kept.tmp"
  mkdir "$kept.tmp"
  (cd "$module" && CGO_ENABLED=0 GOGC=400 go build -mod=readonly -buildvcs=false -trimpath -gcflags=all=-dwarf=false \
    -ldflags "-s -w -X sigs.k8s.io/release-utils/version.gitVersion=$version" \
    -o "$kept.tmp/" github.com/sigstore/cosign/v3/cmd/cosign) >&2 || die "Go could not build it"
  rm -rf "$kept"
  mv "$kept.tmp" "$kept"
fi
echo "$kept/cosign"
