#!/usr/bin/env bash
# test-named.sh NAME CARGO TEST...: runs a cargo test command with only the tests whose name contains NAME, and fails
# if there is none: cargo itself treats 0 tests as a success. With an empty NAME it runs all tests.
set -euo pipefail
# Tests that wait for a condition make errors by the thousand. Each would capture a backtrace, if panics are to show
# theirs (RUST_BACKTRACE), and a failed test would print one that says nothing of what failed.
export RUST_LIB_BACKTRACE=${RUST_LIB_BACKTRACE:-0}
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
