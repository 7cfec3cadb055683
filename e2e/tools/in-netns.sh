#!/usr/bin/env bash
# in-netns.sh COMMAND...: runs a command in a network namespace of its own, in which every address of 10.66.0.0/16 is
# this machine and nothing else can be reached. A process namespace ends what the command leaves running. Its temporary
# files are removed. Others join with `nsenter` and the arguments in LIMPET_NAMESPACES. Works for root, and for users
# who may make user namespaces.
set -euo pipefail

say() { echo "in-netns: $*" >&2; }

PATH=$PATH:/usr/sbin:/sbin
for program in unshare ip; do
  command -v "$program" >/dev/null ||
    { say "there is no $program (Debian: apt-get install util-linux iproute2)"; exit 1; }
done

join=--net
namespaces=(--net --pid --fork --kill-child --mount-proc)
# Root needs no user namespace, which some containers refuse. All others need one.
if ! { ((EUID == 0)) && unshare "${namespaces[@]}" true 2>/dev/null; }; then
  join="--user --net --preserve-credentials"
  namespaces=(--user --map-root-user "${namespaces[@]}")
  if ! why=$(unshare "${namespaces[@]}" true 2>&1); then
    say "$why"
    say "This machine does not let its users make namespaces. Settings that decide it: sysctl user.max_user_namespaces,"
    say "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns; in a container,"
    say "docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined"
    exit 1
  fi
fi

tmp=$(mktemp -d "${TMPDIR:-/tmp}/limpet-netns-XXXXXX")
child=
clean_up() {
  trap '' INT TERM HUP
  [[ -z $child ]] || { kill -KILL "$child"; wait "$child"; } 2>/dev/null || true
  # The last processes may still be ending, and writing.
  for _ in {1..100}; do
    rm -rf "$tmp" 2>/dev/null && break
    sleep 0.1
  done
}
trap clean_up EXIT
# `unshare` passes no signal on. With it everything ends.
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# In the background, so that the traps above work meanwhile. What bash runs there ignores Ctrl-C unless told otherwise.
# shellcheck disable=SC2016 # for the inner shells
TMPDIR=$tmp LIMPET_NAMESPACES=$join \
  sh -c 'export LIMPET_NAMESPACES="--target $$ $LIMPET_NAMESPACES" &&
  exec env --default-signal=INT,QUIT unshare "$@"' in-netns "${namespaces[@]}" \
  sh -c 'ip link set lo up && ip route add local 10.66.0.0/16 dev lo && "$@"' in-netns "$@" <&0 &
child=$!
status=0
wait "$child" || status=$?
child=
exit "$status"
