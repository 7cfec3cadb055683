#!/usr/bin/env bash
# with-istiod.sh COMMAND...: runs a command with what the tests with Istio ask for in its environment: ISTIOD, the program pilot-discovery, which
# is not fetched here (docs/reference/istio.md says how to get one), and ISTIO_CRDS, a file with the definitions of its kinds. Where that is not given, it is
# of the Go module istio.io/api that the program was built with.
set -euo pipefail

die() { echo "with-istiod: $*" >&2; exit 1; }

[[ -n ${ISTIOD:-} ]] || die "ISTIOD is not set: make e2e-istio ISTIOD=FILE, where FILE is Istio's pilot-discovery. docs/reference/istio.md says how to get one."
[[ -x $ISTIOD ]] || die "ISTIOD is $ISTIOD, which is no program. docs/reference/istio.md says how to get one."
ISTIOD=$(realpath "$ISTIOD")

if [[ -z ${ISTIO_CRDS:-} ]]; then
  ask="Give the file: make e2e-istio ISTIOD=FILE ISTIO_CRDS=customresourcedefinitions.gen.yaml"
  command -v go >/dev/null || die "Go is not installed, so the definitions of Istio's kinds can not be fetched. $ask"
  version=$(go version -m "$ISTIOD" | awk '$1 == "dep" && $2 == "istio.io/api" { print $3 }')
  [[ -n $version ]] || die "$ISTIOD does not say with which version of istio.io/api it was built, so the definitions of its kinds are not known. $ask"
  # Outside of any module, so that no go.mod has a say.
  found=$(cd / && GOFLAGS=-mod=mod go mod download -json "istio.io/api@$version") || die "Go could not fetch istio.io/api@$version: $found. $ask"
  ISTIO_CRDS=$(sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p' <<<"$found")/kubernetes/customresourcedefinitions.gen.yaml
fi
[[ -f $ISTIO_CRDS ]] || die "ISTIO_CRDS is $ISTIO_CRDS, which is not there."
ISTIO_CRDS=$(realpath "$ISTIO_CRDS")
export ISTIOD ISTIO_CRDS
exec "$@"
