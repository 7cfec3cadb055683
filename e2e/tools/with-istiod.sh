#!/usr/bin/env bash
# with-istiod.sh COMMAND...: runs a command with the environment variables that the tests with Istio need: ISTIOD, the
# program pilot-discovery, by default that of istio.sh, and ISTIO_CRDS, a file with the definitions of its kinds. The
# default is that of the Go module istio.io/api with which the program was built.
set -euo pipefail
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

die() { echo "with-istiod: $*" >&2; exit 1; }

ISTIOD=${ISTIOD:-$("$tools/istio.sh")/pilot-discovery}
[[ -x $ISTIOD ]] || die "ISTIOD is $ISTIOD, which is not a program. design/istio-tests.md says how to get one."
ISTIOD=$(realpath "$ISTIOD")

if [[ -z ${ISTIO_CRDS:-} ]]; then
  ask="Give the file: make e2e-istio ISTIOD=FILE ISTIO_CRDS=customresourcedefinitions.gen.yaml"
  command -v go >/dev/null || die "Go is not installed, and the definitions of Istio's kinds cannot be fetched. $ask"
  version=$(go version -m "$ISTIOD" | awk '$1 == "dep" && $2 == "istio.io/api" { print $3 }')
  [[ -n $version ]] ||
    die "$ISTIOD does not say which version of istio.io/api it was built with: its definitions are not known. $ask"
  # Outside of any module, so that no go.mod matters.
  found=$(cd / && GOFLAGS=-mod=mod go mod download -json "istio.io/api@$version") ||
    die "Go could not fetch istio.io/api@$version: $found. $ask"
  ISTIO_CRDS=$(sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p' <<<"$found")/kubernetes/customresourcedefinitions.gen.yaml
fi
[[ -f $ISTIO_CRDS ]] || die "ISTIO_CRDS is $ISTIO_CRDS, which does not exist."
ISTIO_CRDS=$(realpath "$ISTIO_CRDS")
export ISTIOD ISTIO_CRDS
exec "$@"
