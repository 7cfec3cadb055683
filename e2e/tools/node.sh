#!/usr/bin/env bash
# node.sh: prints a directory with the programs of a Kubernetes node and of the control plane's other half: kubelet,
# kube-proxy, kube-scheduler, kube-controller-manager, containerd with its shim and ctr, CoreDNS, pause, and agnhost,
# the application of a page. Everything else goes to stderr. Says first what this machine lacks for a node. Go builds
# them from the modules that e2e/tools/kube/go.sum names. What is built is kept in .tools of this checkout.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
module=$root/e2e/tools/kube

say() { echo "node: $*" >&2; }
die() { say "$*"; exit 1; }

((EUID == 0)) || die "a node needs root: the kubelet mounts volumes, and runc makes cgroups. Run make as root."
PATH=$PATH:/usr/sbin:/sbin
packages=() lacks=()
# needs PROGRAM PACKAGE
needs() { command -v "$1" >/dev/null || { lacks+=("$1"); packages+=("$2"); }; }
needs unshare util-linux
needs ip iproute2
needs runc runc
needs iptables iptables
needs conntrack conntrack
needs python3 python3
# The directory of the CNI plugins in Debian's package, and that of their releases.
[[ -x /usr/lib/cni/ptp || -x /opt/cni/bin/ptp ]] ||
  { lacks+=("the CNI plugins"); packages+=(containernetworking-plugins); }
((${#lacks[@]} == 0)) ||
  die "this machine lacks ${lacks[*]} (Debian: apt-get install --no-install-recommends ${packages[*]})"
grep -qw overlay /proc/filesystems || modprobe overlay 2>/dev/null ||
  die "this kernel has no overlayfs, which containerd needs"
command -v go >/dev/null || die "Go is not installed; it builds the node's programs (https://go.dev/dl)"

version=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' "$module/go.mod")
IFS=. read -r major minor _ <<<"${version#v}"

mkdir -p "$root/.tools/node"
exec 9>"$root/.tools/node/lock"
flock 9

# The output depends on these files.
sources=$(cd "$module" && cat go.mod go.sum {agnhost,coredns,node,pause}/*.go | sha256sum | cut -c -12)
kept=$root/.tools/node/$version-$sources
if [[ ! -x $kept/kubelet ]]; then
  say "building the programs of a node with Kubernetes $version, containerd and CoreDNS with Go"
  say "(a download of 100 MB and 6 minutes on two cores the first time, half a minute from Go's cache)"
  tmp=$kept.tmp
  rm -rf "$tmp"
  mkdir "$tmp"
  # build LDFLAGS OUTPUT PACKAGE...: as kube.sh does, so that both share what Go caches.
  build() {
    (cd "$module" && CGO_ENABLED=0 GOGC=400 go build -mod=readonly -buildvcs=false -trimpath -gcflags=all=-dwarf=false \
      -ldflags "-s -w $1" -o "$2" "${@:3}") >&2 || die "Go could not build it"
  }
  component=k8s.io/component-base/version
  build "-X $component.gitVersion=$version -X $component.gitMajor=$major -X $component.gitMinor=$minor" \
    "$tmp/kubelet" ./node
  # One program, which looks at the name that it is called by.
  for name in kube-proxy kube-scheduler kube-controller-manager; do
    ln "$tmp/kubelet" "$tmp/$name"
  done
  build '' "$tmp/pause" ./pause
  build '' "$tmp/agnhost" ./agnhost
  containerd=github.com/containerd/containerd/v2/cmd
  build '' "$tmp/" "$containerd"/{containerd,containerd-shim-runc-v2,ctr}
  build '' "$tmp/coredns" ./coredns
  rm -rf "$kept"
  mv "$tmp" "$kept"
  say "built in $SECONDS s"
fi
echo "$kept"
