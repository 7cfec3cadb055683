#!/usr/bin/env bash
# helm.sh [3]: prints the path of the Helm that the tests run, which has kubectl beside it, or with 3 that of the newest
# Helm 3. Everything else goes to stderr. Go builds them from the modules that e2e/tools/kube/go.sum names, so that all
# machines have the same ones. They are kept in .tools of this checkout.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
module=$root/e2e/tools/kube
path=helm.sh/helm/v4
[[ ${1:-} != 3 ]] || path=helm.sh/helm/v3

say() { echo "helm: $*" >&2; }
die() { say "$*"; exit 1; }

command -v go >/dev/null || die "Go is not installed; it builds Helm (https://go.dev/dl)"
version_of() { awk -v path="$1" '$1 == path { print $2; exit }' "$module/go.mod"; }
version=$(version_of "$path")

mkdir -p "$root/.tools/helm"
exec 9>"$root/.tools/helm/lock"
flock 9

# The output depends on these files.
sources=$(cd "$module" && cat go.mod go.sum kubectl/*.go | sha256sum | cut -c -12)
kept=$root/.tools/helm/$version-$sources
if [[ ! -x $kept/helm ]]; then
  say "building Helm $version with Go (a download of 60 MB and 3 minutes on two cores the first time)"
  tmp=$kept.tmp
  rm -rf "$tmp"
  mkdir "$tmp"
  # build LDFLAGS PACKAGE: as kube.sh does, so that both share what Go caches.
  build() {
    (cd "$module" && CGO_ENABLED=0 GOGC=400 go build -mod=readonly -buildvcs=false -trimpath -gcflags=all=-dwarf=false \
      -ldflags "-s -w $1" -o "$tmp/" "$2") >&2 || die "Go could not build it"
  }
  build "-X $path/internal/version.version=$version" "$path/cmd/helm"
  if [[ ${1:-} != 3 ]]; then
    build "-X k8s.io/component-base/version.gitVersion=$(version_of k8s.io/kubernetes)" ./kubectl
  fi
  rm -rf "$kept"
  mv "$tmp" "$kept"
fi
echo "$kept/helm"
