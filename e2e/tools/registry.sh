#!/usr/bin/env bash
# registry.sh: prints a directory with the programs of the tests of images: registry (CNCF distribution), crane, and
# fetch-envoy-gateway, which fetches a wasm file by Envoy Gateway's own code. With a checkout of istio/istio in ISTIO,
# fetch-istio does so by Istio's. Everything else goes to stderr. Go builds them; what is built is kept in .tools.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tools=$root/e2e/tools
gateway=github.com/envoyproxy/gateway@v1.9.1

say() { echo "registry: $*" >&2; }
die() { say "$*"; exit 1; }

command -v go >/dev/null || die "Go is not installed; it builds the registry of these tests (https://go.dev/dl)"
mkdir -p "$root/.tools/registry"
exec 9>"$root/.tools/registry/lock"
flock 9

sources=$(cd "$tools" && cat registry.sh registry/go.{mod,sum} fetch/*.go | sha256sum | cut -c -12)
kept=$root/.tools/registry/$sources
export CGO_ENABLED=0
build() { go build -mod=readonly -buildvcs=false -trimpath -ldflags '-s -w' "$@" >&2 || die "Go could not build it"; }
# fetcher NAME MODULE OUTPUT: our program in a copy of the module, whose packages are for itself alone.
fetcher() {
  local copy=$3.module
  mkdir -p "$copy"
  # Go's cache is read-only, and a checkout is somebody else's.
  (cd "$2" && find . -type f ! -name '*_test.go' -print0) |
    tar --create --directory "$2" --null --files-from - --mode=u+w | tar --extract --directory "$copy"
  mkdir -p "$copy/cmd/limpet-fetch"
  cp "$tools/fetch/main.go" "$tools/fetch/$1.go" "$copy/cmd/limpet-fetch/"
  (cd "$copy" && build -o "$3" ./cmd/limpet-fetch)
  rm -rf "$copy"
}

if [[ ! -x $kept/registry ]]; then
  say "building a registry and clients of it with Go (a download of 100 MB and 5 minutes on two cores the first time)"
  rm -rf "$kept.tmp"
  mkdir "$kept.tmp"
  (cd "$tools/registry" && build -o "$kept.tmp/" github.com/distribution/distribution/v3/cmd/registry \
    github.com/google/go-containerregistry/cmd/crane)
  # Outside of any module, so that no go.mod matters.
  found=$(cd / && GOFLAGS=-mod=mod go mod download -json "$gateway") || die "Go could not fetch $gateway: $found"
  fetcher envoy-gateway "$(sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p' <<<"$found")" "$kept.tmp/fetch-envoy-gateway"
  rm -rf "$kept"
  mv "$kept.tmp" "$kept"
fi
if [[ -n ${ISTIO:-} ]]; then
  [[ -f $ISTIO/pkg/wasm/imagefetcher.go ]] || die "ISTIO=$ISTIO is no checkout of istio/istio"
  fetcher istio "$(realpath "$ISTIO")" "$kept/fetch-istio"
fi
echo "$kept"
