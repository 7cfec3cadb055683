#!/usr/bin/env bash
# conformance.sh: prints a directory with the Gateway API's conformance suite, suite.test, its backend, echo-basic, and
# `images`, the names of the images that its manifests want. Everything else goes to stderr. Go builds them, unmodified,
# from the modules that e2e/tools/conformance/go.sum names. persistence.test beside them are the tests of session
# persistence in e2e/tools/conformance/persistence. What is built is kept in .tools of this checkout.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
module=$root/e2e/tools/conformance

say() { echo "conformance: $*" >&2; }
die() { say "$*"; exit 1; }

command -v go >/dev/null || die "Go is not installed; it builds the conformance suite (https://go.dev/dl)"
suite=sigs.k8s.io/gateway-api/conformance
version=$(awk -v module="$suite" '$1 == "require" && $2 == module { print $3 }' "$module/go.mod")

mkdir -p "$root/.tools/conformance"
exec 9>"$root/.tools/conformance/lock"
flock 9
# The output depends on these files.
sources=$(cd "$module" && cat go.mod go.sum suite.go persistence/* | sha256sum | cut -c -12)
kept=$root/.tools/conformance/$version-$sources
if [[ ! -x $kept/suite.test ]]; then
  say "building the suite $version with Go (a download of 30 MB and 2 minutes the first time)"
  tmp=$kept.tmp
  rm -rf "$tmp"
  mkdir "$tmp"
  export CGO_ENABLED=0
  flags=(-mod=readonly -buildvcs=false -trimpath -ldflags "-s -w")
  (cd "$module" && go test -c "${flags[@]}" -o "$tmp/suite.test" "$suite") >&2 || die "Go could not build the suite"
  (cd "$module" && go test -c "${flags[@]}" -o "$tmp/persistence.test" ./persistence) >&2 ||
    die "Go could not build the tests of session persistence"
  (cd "$module" && go build "${flags[@]}" -o "$tmp/echo-basic" "$suite/echo-basic") >&2 ||
    die "Go could not build the suite's backend"
  directory=$(cd "$module" && go list -mod=readonly -m -f '{{.Dir}}' "$suite")
  grep -rhoE 'image: *[^ ]+' "$directory"/{base,tests} | sed 's/^image: *//' | sort -u >"$tmp/images"
  rm -rf "$kept"
  mv "$tmp" "$kept"
fi
echo "$kept"
