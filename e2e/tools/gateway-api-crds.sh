#!/usr/bin/env bash
# gateway-api-crds.sh VERSION: prints the directory with the Gateway API's custom resource definitions of that version (everything else goes
# to stderr): standard/ and experimental/, a file for each kind. They are in the Go module of the Gateway API, which comes from the Go module
# proxy, or from GitHub where that is what GOPROXY says, and is what the digest below says. Kept in .tools of this checkout.
set -euo pipefail
version=${1:?usage: gateway-api-crds.sh VERSION}
module=sigs.k8s.io/gateway-api
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
kept=$root/.tools/gateway-api/$version

die() { echo "gateway-api-crds: $*" >&2; exit 1; }

# As go.sum has it.
case $version in
  v1.2.1) digest=h1:fZZ/+RyRb+Y5tGkwxFKuYuSRQHu9dZtbjenblleOLHM= ;;
  v1.6.1) digest=h1:mock6phZbI6rvZerwrVNk7hVNymQgHo+6sJ81Ia7ftY= ;;
  v1.7.0) digest=h1:duVnm7nO6oXfMMUWfcDoBph47CYR/ME3NGxccOVglaY= ;;
  *) die "no digest is pinned for version $version" ;;
esac

mkdir -p "$root/.tools/gateway-api"
exec 9>"$root/.tools/gateway-api/lock"
flock 9
if [[ ! -d $kept ]]; then
  command -v go >/dev/null || die "Go is not installed; it fetches the module $module"
  echo "gateway-api-crds: getting $version (a download of 2 to 5 MB, some seconds)" >&2
  # Outside of any module, so that no go.mod has a say. Go then tells where the file is and fails all the same, if the module is made for a
  # newer Go, which is not needed to unpack it.
  found=$(cd / && GOTOOLCHAIN=local GOFLAGS=-mod=mod go mod download -json "$module@$version") || true
  field() { sed -n "s/^\t\"$1\": \"\(.*\)\",*$/\1/p" <<<"$found"; }
  [[ -f $(field Zip) ]] || die "Go could not fetch $module@$version: $found"
  [[ $(field Sum) == "$digest" ]] || die "$module@$version has the digest $(field Sum), not the pinned $digest: nothing kept"
  tmp=$kept.tmp
  rm -rf "$tmp"
  python3 -m zipfile -e "$(field Zip)" "$tmp"
  mv "$tmp/$module@$version/config/crd" "$tmp/crd"
  mv "$tmp/crd" "$kept"
  rm -rf "$tmp"
fi
echo "$kept"
