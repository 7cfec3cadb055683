#!/usr/bin/env bash
# haproxy.sh: prints the path of an HAProxy, for the comparison tests; all else goes to stderr. The ways, in order:
#   1. $HAPROXY;
#   2. the installed one;
#   3. Debian's package with the libraries that this machine lacks, unpacked into .tools of this checkout. Nothing is
#      installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

say() { echo "haproxy: $*" >&2; }
die() { say "$*"; exit 1; }
runs() { "$1" -v >/dev/null 2>&1; }

if [[ -n ${HAPROXY:-} ]]; then
  runs "$HAPROXY" || die "HAPROXY=$HAPROXY does not run"
  realpath "$HAPROXY"
  exit
fi
# Debian has it in /usr/sbin, which is not in every user's PATH.
if installed=$(PATH=$PATH:/usr/local/sbin:/usr/sbin command -v haproxy); then
  runs "$installed" || die "$installed does not run"
  echo "$installed"
  exit
fi

mkdir -p .tools
exec 9>.tools/haproxy.lock
flock 9
kept=$PWD/.tools/haproxy
if ! runs "$kept/haproxy"; then
  command -v apt-get >/dev/null ||
    die "HAProxy is not installed, and there is no apt-get to fetch Debian's package: install it, or set HAPROXY"
  say "getting Debian's haproxy into .tools (a download of 2 MB, or 12 MB with package lists; some seconds)"
  tmp=$kept.tmp
  rm -rf "$tmp"
  mkdir -p "$tmp"/{debs,lists/partial,cache/archives/partial}
  trap 'rm -rf "$tmp"' EXIT

  apt=(-o APT::Sandbox::User=root -o Dir::Cache="$tmp/cache" -o Acquire::Retries=2)
  # The simulation names the package, and the packages that it needs and that this machine lacks.
  download() {
    local packages
    packages=$(apt-get "${apt[@]}" -s --no-install-recommends install haproxy |
      awk '/^Inst / { gsub(/[()]/, ""); print $2 "=" $3 }') && [[ $packages == *haproxy=* ]] || return 1
    # shellcheck disable=SC2086 # one word each
    (cd "$tmp/debs" && apt-get "${apt[@]}" download $packages) >&2
  }
  if ! download; then
    say "the machine's package lists are missing or too old: fetching separate ones"
    apt+=(-o Dir::State::lists="$tmp/lists" -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false)
    if ! apt-get "${apt[@]}" update >&2 || ! download; then
      die "apt-get could not bring Debian's haproxy (reason above): install HAProxy, or set HAPROXY"
    fi
  fi
  for deb in "$tmp"/debs/*.deb; do dpkg -x "$deb" "$tmp"; done
  rm -rf "$tmp"/{debs,lists,cache}
  cat >"$tmp/haproxy" <<'END'
#!/bin/sh
root=$(dirname "$(realpath "$0")")
LD_LIBRARY_PATH=$(echo "$root"/usr/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
exec "$root/usr/sbin/haproxy" "$@"
END
  chmod +x "$tmp/haproxy"
  runs "$tmp/haproxy" || die "Debian's haproxy does not run here: $("$tmp/haproxy" -v 2>&1 | head -n 3)"
  rm -rf "$kept"
  mv "$tmp" "$kept"
fi
echo "$kept/haproxy"
