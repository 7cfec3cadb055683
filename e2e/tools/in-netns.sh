#!/usr/bin/env bash
# in-netns.sh COMMAND...: runs a command where every address of 10.66.0.0/16 is this machine, and nothing else is reached: in a network
# namespace of its own. What the command leaves running ends with it, by a namespace of processes, and what it leaves in the directory for
# temporary files is removed. LIMPET_NAMESPACES is what others join by `nsenter`. Works for root, and for users who may make user namespaces.
set -euo pipefail

say() { echo "in-netns: $*" >&2; }

PATH=$PATH:/usr/sbin:/sbin
for program in unshare ip; do
  command -v "$program" >/dev/null || { say "there is no $program (Debian: apt-get install util-linux iproute2)"; exit 1; }
done

join=--net
namespaces=(--net --pid --fork --kill-child --mount-proc)
# Root may go without a user namespace, which some containers refuse; everybody else needs one.
if ! { ((EUID == 0)) && unshare "${namespaces[@]}" true 2>/dev/null; }; then
  join="--user --net --preserve-credentials"
  namespaces=(--user --map-root-user "${namespaces[@]}")
  if ! why=$(unshare "${namespaces[@]}" true 2>&1); then
    say "$why"
    say "This machine lets its users make no namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone,"
    say "kernel.apparmor_restrict_unprivileged_userns; docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined)."
    exit 1
  fi
fi

tmp=$(mktemp -d "${TMPDIR:-/tmp}/limpet-netns-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
status=0
# shellcheck disable=SC2016 # for the inner shells
TMPDIR=$tmp LIMPET_NAMESPACES=$join sh -c 'export LIMPET_NAMESPACES="--target $$ $LIMPET_NAMESPACES" && exec unshare "$@"' in-netns \
  "${namespaces[@]}" sh -c 'ip link set lo up && ip route add local 10.66.0.0/16 dev lo && "$@"' in-netns "$@" || status=$?
exit "$status"
