#!/usr/bin/env bash
# kube.sh: prints a directory with etcd, kube-apiserver and kube-controllers. Everything else goes to stderr. The ways
# to get the first two, in order:
#   1. $KUBEBUILDER_ASSETS has them;
#   2. setup-envtest, if it is installed and reaches its server;
#   3. Go builds them from the modules of Kubernetes and etcd that e2e/tools/kube/go.sum names.
# kube-controllers, the part of Kubernetes' own controllers that the tests need, is always built. What is built is kept
# in .tools of this checkout.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
module=$root/e2e/tools/kube

say() { echo "kube: $*" >&2; }
die() { say "$*"; exit 1; }
has_servers() { [[ -x $1/etcd && -x $1/kube-apiserver ]]; }

command -v go >/dev/null ||
  die "Go is not installed; it builds Kubernetes' controllers, and the API server if none can be fetched"
version=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' "$module/go.mod")
IFS=. read -r major minor _ <<<"${version#v}"

mkdir -p "$root/.tools/kube"
exec 9>"$root/.tools/kube/lock"
flock 9

servers=${KUBEBUILDER_ASSETS:-}
if [[ -n $servers ]]; then
  has_servers "$servers" || die "KUBEBUILDER_ASSETS=$servers has no etcd or no kube-apiserver"
  servers=$(realpath "$servers")
elif command -v setup-envtest >/dev/null; then
  say "getting Kubernetes $major.$minor with setup-envtest (a download of 100 MB the first time)"
  servers=$(timeout 300 setup-envtest use "$major.$minor.x" --bin-dir "$root/.tools/kube" -p path) &&
    has_servers "$servers" || { say "setup-envtest could not get it"; servers=; }
fi

# The output depends on these files.
sources=$(cd "$module" && cat go.mod go.sum ./*.go controllers/*.go | sha256sum | cut -c -12)
if [[ -n $servers ]]; then
  tags=controllers_only what="Kubernetes' controllers" minutes="2 minutes"
else
  tags='' what="etcd, kube-apiserver and Kubernetes' controllers" minutes="4 minutes"
fi
kept=$root/.tools/kube/$version${tags:+-$tags}-$sources
if [[ ! -x $kept/kube-controllers ]]; then
  say "building $what $version with Go"
  say "(a download of 100 MB and $minutes on two cores the first time, seconds from Go's cache)"
  tmp=$kept.tmp
  rm -rf "$tmp"
  mkdir "$tmp"
  component=k8s.io/component-base/version
  # Without debug information the build is faster. Less garbage collection in the compiler saves an eighth of its time.
  flags="-s -w -X $component.gitVersion=$version -X $component.gitMajor=$major -X $component.gitMinor=$minor"
  (cd "$module" && CGO_ENABLED=0 GOGC=400 go build -mod=readonly -buildvcs=false -trimpath -tags "$tags" \
    -gcflags=all=-dwarf=false -ldflags "$flags" -o "$tmp/kube-controllers" .) >&2 || die "Go could not build it"
  if [[ -z $servers ]]; then
    # One program, which looks at the name that it is called by.
    ln "$tmp/kube-controllers" "$tmp/etcd"
    ln "$tmp/kube-controllers" "$tmp/kube-apiserver"
  fi
  rm -rf "$kept"
  mv "$tmp" "$kept"
fi
if [[ -n $servers ]]; then
  ln -sfn "$servers/etcd" "$servers/kube-apiserver" "$kept/"
fi
echo "$kept"
