#!/usr/bin/env bash
# helm.sh: prints the path of the Helm that the tests run, which has kubectl beside it. Everything else goes to stderr.
# Go builds both from the modules that go.sum names in e2e/tools/helm, so that all machines have the same ones. They are
# kept in .tools of this checkout.
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
sources=$(cd "$module" && cat go.mod go.sum kubectl/*.go | sha256sum | cut -c -12)
kept=$root/.tools/helm/$version-$sources
if [[ ! -x $kept/helm ]]; then
  say "building Helm $version and kubectl with Go (a download of 60 MB and 3 minutes on two cores the first time)"
  tmp=$kept.tmp
  rm -rf "$tmp"
  mkdir "$tmp"
  # build LDFLAGS PACKAGE
  build() {
    (cd "$module" && CGO_ENABLED=0 GOGC=400 go build -mod=readonly -buildvcs=false -trimpath -gcflags=all=-dwarf=false \
      -ldflags "-s -w $1" -o "$tmp/" "$2") >&2 || die "Go could not build it"
  }
  build "-X helm.sh/helm/v4/internal/version.version=$version" helm.sh/helm/v4/cmd/helm
  kubectl=$(cd "$module" && go list -m -f '{{.Version}}' k8s.io/kubectl)
  build "-X k8s.io/component-base/version.gitVersion=${kubectl/v0/v1}" ./kubectl
  rm -rf "$kept"
  mv "$tmp" "$kept"
fi
echo "$kept/helm"
