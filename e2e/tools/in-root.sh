#!/usr/bin/env bash
# in-root.sh ROOT COMMAND...: runs a command as in a container, with the files of the directory ROOT in front of those
# of this machine. Works only within in-netns.sh, whose user may mount. The mounts are not visible outside and end with
# the command.
set -euo pipefail

if [[ ${1:-} != --mount ]]; then
  PATH=$PATH:/usr/sbin:/sbin
  exec unshare --mount --propagation private bash "$0" --mount "$@"
fi
root=$2
shift 2

# lay DIRECTORY: adds what this machine has in a directory to what ROOT has there.
lay() {
  local entry
  for entry in "$1"/* "$1"/.[!.]*; do
    if [[ -L $entry ]]; then
      [[ -e $root$entry || -L $root$entry ]] || cp -P "$entry" "$root$entry"
    elif [[ -d $entry ]]; then
      if [[ -d $root$entry ]]; then
        lay "$entry"
      else
        mkdir "$root$entry"
        mount --rbind "$entry" "$root$entry"
      fi
    elif [[ -e $entry && ! -e $root$entry ]]; then
      : >"$root$entry"
      mount --bind "$entry" "$root$entry"
    fi
  done
}
lay ""

exec chroot "$root" "$@"
