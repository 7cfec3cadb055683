#!/usr/bin/env bash
# test-named.sh NAMES CARGO TEST...: runs a cargo test command with only the tests whose name contains one of NAMES,
# which spaces part, and fails if there is none: cargo itself treats 0 tests as a success. With empty NAMES it runs all
# tests.
set -euo pipefail
# Tests that wait for a condition make errors by the thousand. Each would capture a backtrace, if panics are to show
# theirs (RUST_BACKTRACE), and a failed test would print one that says nothing of what failed.
export RUST_LIB_BACKTRACE=${RUST_LIB_BACKTRACE:-0}
read -ra names <<<"$1"
shift
((${#names[@]})) || exec "$@"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
[[ " $* " == *' -- '* ]] || set -- "$@" --
# As after `exec`, a signal that ends this script ends cargo.
setpriv --pdeathsig TERM "$@" "${names[@]}" | tee "$log"
if ! grep -Eq '^running [1-9][0-9]* tests?$' "$log"; then
  echo "test-named: no test has a name that contains one of: ${names[*]}" >&2
  exit 1
fi
