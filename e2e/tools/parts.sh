#!/usr/bin/env bash
# parts.sh PART...: runs parts of the tests one after the other, and prints at its end what each took. A part is
# `NAME: ARGUMENT...`, where the arguments are those of make, or `NAME [NEED]: ARGUMENT...`. Where `make NEED` fails,
# this machine lacks something: the part is left out, and the table says for want of what. The first part that fails
# ends it.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
log=$(mktemp)
rows=()
trap 'rm -f "$log"' EXIT

# The sum of what the runs of tests in the log say: `test result: ok. 12 passed; 0 failed; …`.
passed() {
  sed -n 's/^test result: [a-zA-Z]*\. \([0-9]*\) passed.*/\1/p' "$log" | awk '{ sum += $1 } END { print sum + 0 }'
}
# Why each failed test in the log failed, in a few lines: what was printed before may be long.
failures() {
  awk '/^---- .* stdout ----$/ { name = $2; left = 0 }
    /^failures:$/ { name = ""; left = 0 }
    name && (/^Error: / || / panicked at /) { print "\n" name; left = 6 }
    left > 0 && NF { print "  " substr($0, 1, 300); left-- }' "$log"
}
row() { rows+=("$(printf '%-52s %8s %8s  %s' "$@")"); }
table() {
  printf '\n%-52s %8s %8s\n' part seconds tests
  printf '%s\n' "${rows[@]}"
}

tests_total=0
for part in "$@"; do
  name=${part%%: *}
  # With quotes, where an argument has spaces.
  eval "arguments=(${part#*: })"
  if [[ $name == *' ['*']' ]]; then
    need=${name##* [}
    need=${need%]}
    name=${name% [*}
    if ! make "$need" >"$log" 2>&1; then
      row "$name" - - "left out: $(grep -v '^make' "$log" | tail -n 1)"
      continue
    fi
  fi
  start=$SECONDS
  # It ends with this script.
  setpriv --pdeathsig TERM make "${arguments[@]}" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  tests=$(passed)
  tests_total=$((tests_total + tests))
  if ((status)); then
    row "$name" $((SECONDS - start)) "$tests" "FAILED: make ${arguments[*]}"
    # A part that has parts of its own has said it.
    grep -q '^part  *seconds' "$log" || failures
    table
    exit "$status"
  fi
  row "$name" $((SECONDS - start)) "$tests" ""
done
row "all" "$SECONDS" "$tests_total" ""
table
