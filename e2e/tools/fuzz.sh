#!/usr/bin/env bash
# fuzz.sh RUNS [TARGET...]: runs targets of filter/fuzz with libFuzzer, RUNS times each, and writes what reaches new
# code into the corpus, minimised. A crash ends it, with its input in filter/fuzz/artifacts. Prints a line for each
# target: executions, executions per second, edges, inputs kept.
#
# libFuzzer needs unstable flags of rustc, which RUSTC_BOOTSTRAP turns on in the installed one. Without a sanitizer,
# because nothing here is unsafe code: twice as fast.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=0.13.2
(($# >= 1)) || { sed -n '2,4s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2; }
crate=filter/fuzz runs=$1
shift

fuzz=$(command -v cargo-fuzz) || fuzz=$PWD/.tools/bin/cargo-fuzz
if [[ ! -x $fuzz ]]; then
  echo "Building cargo-fuzz $version into .tools (a minute, once)" >&2
  cargo install --locked --root .tools "cargo-fuzz@$version"
fi
# The names of functions for what is found. Debug assertions find what a release build ignores.
export RUSTC_BOOTSTRAP=1 CARGO_PROFILE_RELEASE_STRIP=false CARGO_PROFILE_RELEASE_DEBUG=1
options=(--fuzz-dir "$crate" --debug-assertions --sanitizer none)
"$fuzz" build "${options[@]}" any >&2
targets=("$@")
((${#targets[@]})) || mapfile -t targets < <(ls "$crate/corpus")

for target in "${targets[@]}"; do
  export LIMPET_FUZZ_TARGET=$target
  seeds=$crate/corpus/$target found=target/fuzz/$target log=target/fuzz/$target.log
  mkdir -p "$found"
  if ! "$fuzz" run "${options[@]}" any "$PWD/$found" "$PWD/$seeds" -- \
    "-runs=$runs" -max_len=8192 -rss_limit_mb=4096 -print_final_stats=1 >"$log" 2>&1; then
    tail -40 "$log" >&2
    echo "fuzz: $target fails; its input is in $crate/artifacts/any" >&2
    exit 1
  fi
  # The seeds that tests name stay; of what was found, only what adds to them.
  before=$(find "$seeds" -type f | wc -l)
  "$fuzz" run "${options[@]}" any "$PWD/$seeds" "$PWD/$found" -- -set_cover_merge=1 -max_len=1024 >>"$log" 2>&1
  stat() { sed -n "s/^stat::$1: *//p" "$log" | head -1; }
  edges=$(grep -o 'cov: [0-9]*' "$log" | tail -1)
  echo "$target: $(stat number_of_executed_units) executions, $(stat average_exec_per_sec) a second, $edges," \
    "$before inputs before and $(find "$seeds" -type f | wc -l) after"
done
