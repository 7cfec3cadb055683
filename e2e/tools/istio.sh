#!/usr/bin/env bash
# istio.sh: prints a directory with Istio: its control plane, pilot-discovery; the agent of its proxies, pilot-agent,
# with the bootstrap that it fills in for Envoy (envoy_bootstrap.json); and the Helm charts of both, charts/base and
# charts/istiod. Everything else goes to stderr. Go builds the programs from the module that go.sum names in
# e2e/tools/istio, which has all the rest, too. What is built is kept in .tools of this checkout.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
module=$root/e2e/tools/istio
istio=istio.io/istio

say() { echo "istio: $*" >&2; }
die() { say "$*"; exit 1; }

command -v go >/dev/null || die "Go is not installed; it builds Istio (https://go.dev/dl)"
version=$(awk -v module="$istio" '$1 == module { print $2; exit }' "$module/go.mod")

mkdir -p "$root/.tools/istio-programs"
exec 9>"$root/.tools/istio-programs/lock"
flock 9

# The output depends on these files.
sources=$(cd "$root/e2e/tools" && cat istio.sh istio/go.{mod,sum} | sha256sum | cut -c -12)
kept=$root/.tools/istio-programs/$version-$sources
if [[ ! -x $kept/pilot-agent ]]; then
  say "building pilot-discovery and pilot-agent of Istio $version with Go"
  say "(a download of 150 MB and 8 minutes on two cores the first time)"
  tmp=$kept.tmp
  rm -rf "$tmp"
  mkdir -p "$tmp/charts"
  (cd "$module" && CGO_ENABLED=0 GOGC=400 go build -mod=readonly -buildvcs=false -trimpath -gcflags=all=-dwarf=false \
    -ldflags '-s -w' -o "$tmp/" "$istio"/pilot/cmd/{pilot-discovery,pilot-agent}) >&2 || die "Go could not build it"
  source=$(cd "$module" && go list -mod=readonly -m -f '{{.Dir}}' "$istio")
  cp "$source/tools/packaging/common/envoy_bootstrap.json" "$tmp/"
  # Go's cache is read-only.
  cp --recursive --no-preserve=mode "$source/manifests/charts/base" "$tmp/charts/base"
  cp --recursive --no-preserve=mode "$source/manifests/charts/istio-control/istio-discovery" "$tmp/charts/istiod"
  rm -rf "$kept"
  mv "$tmp" "$kept"
  say "built in $SECONDS s"
fi
echo "$kept"
