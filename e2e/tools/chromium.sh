#!/usr/bin/env bash
# chromium.sh chromium|chromedriver: prints the path of the browser, or of the program that drives it. Everything else
# goes to stderr. The ways, in order: $CHROMIUM and $CHROMEDRIVER; the installed programs. Nothing is fetched or
# installed: a browser is 440 MB that nothing else here needs, so it says how to get one.
set -euo pipefail

say() { echo "chromium: $*" >&2; }
die() { say "$*"; exit 1; }

# program VARIABLE NAME...: the program that the variable names, else the first one of these names.
program() {
  local given=${!1:-} name
  shift
  if [[ -n $given ]]; then
    [[ -x $given ]] || die "$given is not a program"
    realpath "$given"
    return
  fi
  for name in "$@"; do
    command -v "$name" && return
  done
  die "this machine has no $1. Debian: apt-get install --no-install-recommends chromium chromium-driver" \
    "(133 MB to fetch, 440 MB on disk). Or set CHROMIUM and CHROMEDRIVER to programs of one version."
}
# major PROGRAM: the first number of its version.
major() { "$1" --version 2>/dev/null | sed -n 's/^[^0-9]*\([0-9]\{1,\}\)\..*/\1/p' | head -n 1; }

browser=$(program CHROMIUM chromium chromium-browser google-chrome)
driver=$(program CHROMEDRIVER chromedriver)
versions=("$(major "$browser")" "$(major "$driver")")
[[ -n ${versions[0]} ]] || die "$browser does not run: $("$browser" --version 2>&1 | head -n 3)"
[[ -n ${versions[1]} ]] || die "$driver does not run: $("$driver" --version 2>&1 | head -n 3)"
[[ ${versions[0]} == "${versions[1]}" ]] ||
  die "$browser has the version ${versions[0]}, and $driver ${versions[1]}: the same was expected"
case ${1:-} in
chromium) echo "$browser" ;;
chromedriver) echo "$driver" ;;
*) die "expected chromium or chromedriver, found \"${1:-}\"" ;;
esac
