#!/usr/bin/env bash
# test-named.sh NAME CARGO TEST...: runs a cargo test command with only the tests whose name contains NAME, and fails
# if there is none: cargo itself treats 0 tests as a success. With an empty NAME it runs all tests.
set -euo pipefail
name=$1
shift
[[ -n $name ]] || exec "$@"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$@" "$name" | tee "$log"
if ! grep -Eq '^running [1-9][0-9]* tests?$' "$log"; then
  echo "test-named: no test has a name that contains \"$name\"" >&2
  exit 1
fi
