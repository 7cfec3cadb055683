#!/usr/bin/env bash
# in-node.sh COMMAND...: runs a command on a machine within this machine, as which a Kubernetes node can run: it has
# its own processes, mounts and network, a cgroup of its own (LIMPET_CGROUP), and empty /run, /var/lib and /var/log. As
# in in-netns.sh, every address of 10.66.0.0/16 is this machine, and others join with `nsenter` and the arguments in
# LIMPET_NAMESPACES. Whatever the command leaves running ends with it, containers too; no mount, link, cgroup or file
# stays. Works for root only.
set -euo pipefail

say() { echo "in-node: $*" >&2; }

((EUID == 0)) || { say "this needs root"; exit 1; }
PATH=$PATH:/usr/sbin:/sbin

if [[ ${1:-} == --inside ]]; then
  shift
  mount -t tmpfs -o mode=755 tmpfs /run
  for directory in lib log; do
    mkdir "$TMPDIR/$directory"
    mount --bind "$TMPDIR/$directory" "/var/$directory"
  done
  # The kubelet demands settings of the whole machine. It finds what it demands, and this machine keeps its own.
  demand() {
    local file=$TMPDIR/${1//\//.}
    echo "$2" >"$file"
    mount --bind "$file" "/proc/sys/$1"
  }
  demand vm/overcommit_memory 1
  demand vm/panic_on_oom 0
  demand kernel/panic 10
  demand kernel/panic_on_oops 1
  demand kernel/keys/root_maxkeys 1000000
  demand kernel/keys/root_maxbytes 25000000
  ip link set lo up
  ip route add local 10.66.0.0/16 dev lo
  # The node's own address, which must be one of a link, and a default route, which addresses of Services need.
  ip link add node type bridge
  ip address add 10.66.255.254/32 dev node
  ip link set node up
  ip route add default dev node
  echo 1 >/proc/sys/net/ipv4/ip_forward
  exec "$@"
fi

tmp=$(mktemp -d "${TMPDIR:-/tmp}/limpet-node-XXXXXX")
cgroup=/${tmp##*/}
# One hierarchy, or one for each controller.
if [[ -f /sys/fs/cgroup/cgroup.controllers ]]; then
  hierarchies=(/sys/fs/cgroup)
else
  mapfile -t hierarchies < <(awk '$3 ~ /^cgroup2?$/ && $2 ~ "^/sys/fs/cgroup/" { print $2 }' /proc/mounts)
fi

child=
clean_up() {
  trap '' INT TERM HUP
  [[ -z $child ]] || { kill -KILL "$child"; wait "$child"; } 2>/dev/null || true
  local hierarchy
  for hierarchy in "${hierarchies[@]}"; do
    # The last processes may still be ending.
    for _ in {1..100}; do
      [[ -d $hierarchy$cgroup ]] || break
      find "$hierarchy$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null && break
      sleep 0.1
    done
    [[ ! -d $hierarchy$cgroup ]] || say "the cgroup $hierarchy$cgroup cannot be removed"
  done
  rm -rf "$tmp"
}
trap clean_up EXIT
# `unshare` passes no signal on. With it everything ends. Where this runs in the background of a script, Ctrl-C is
# ignored, and no trap of bash changes that: SIGTERM works there.
trap 'exit 130' INT
trap 'exit 143' TERM HUP

groups=()
for hierarchy in "${hierarchies[@]}"; do
  mkdir "$hierarchy$cgroup"
  # A new group of this hierarchy has no CPUs and no memory until it is told which.
  for file in cpuset.cpus cpuset.mems; do
    [[ ! -f $hierarchy$cgroup/$file ]] || cat "$hierarchy/$file" >"$hierarchy$cgroup/$file" 2>/dev/null || true
  done
  # A group weighs as much as a single process beside it, unless told otherwise. The node's own processes are in it,
  # too.
  for share in cpu.shares=10240 cpu.weight=1000; do
    file=$hierarchy$cgroup/${share%=*}
    [[ -f $file ]] || continue
    echo "${share#*=}" >"$file"
    mkdir "$hierarchy$cgroup/machine"
    groups+=("$hierarchy$cgroup/machine/cgroup.procs")
  done
done

# In the background, so that the traps above work meanwhile. What bash runs there ignores Ctrl-C unless told otherwise.
# shellcheck disable=SC2016 # for the inner shell
TMPDIR=$tmp LIMPET_CGROUP=$cgroup GROUPS_OF_NODE=${groups[*]} \
  sh -c 'for group in $GROUPS_OF_NODE; do echo $$ >"$group"; done
  export LIMPET_NAMESPACES="--target $$ --net" && exec env --default-signal=INT,QUIT unshare "$@"' in-node \
  --mount --net --pid --fork --kill-child --mount-proc "$(realpath "${BASH_SOURCE[0]}")" --inside "$@" <&0 &
child=$!
status=0
wait "$child" || status=$?
child=
exit "$status"
