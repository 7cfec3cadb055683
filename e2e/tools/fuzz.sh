#!/usr/bin/env bash
# fuzz.sh FOLDER RUNS [TARGET...]: runs fuzz targets of a crate (filter/fuzz, controller/fuzz) with libFuzzer, RUNS
# times each, and writes what reaches new code into the crate's corpus, minimised. A crash ends it, with its input in
# the crate's artifacts. Prints a line for each target: executions, executions per second, edges, inputs kept.
#
# libFuzzer and the sanitizers need unstable flags of rustc, which RUSTC_BOOTSTRAP turns on in the installed one.
# SANITIZER=none is for crates without unsafe code: twice as fast.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=0.13.2
(($# >= 2)) || { sed -n '2,4s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2; }
crate=$1 runs=$2
shift 2

fuzz=$(command -v cargo-fuzz) || fuzz=$PWD/.tools/bin/cargo-fuzz
if [[ ! -x $fuzz ]]; then
  echo "Building cargo-fuzz $version into .tools (a minute, once)" >&2
  cargo install --locked --root .tools "cargo-fuzz@$version"
fi
export RUSTC_BOOTSTRAP=1
options=(--fuzz-dir "$crate" --features libfuzzer --sanitizer "${SANITIZER:-address}")
targets=("$@")
((${#targets[@]})) || mapfile -t targets < <("$fuzz" list --fuzz-dir "$crate")
for target in "${targets[@]}"; do "$fuzz" build "${options[@]}" "$target" >&2; done

for target in "${targets[@]}"; do
  seeds=$crate/corpus/$target found=$crate/target/found/$target log=$crate/target/found/$target.log
  mkdir -p "$found"
  if ! "$fuzz" run "${options[@]}" "$target" "$PWD/$found" "$PWD/$seeds" -- \
    "-runs=$runs" -max_len=8192 -rss_limit_mb=4096 -print_final_stats=1 >"$log" 2>&1; then
    tail -40 "$log" >&2
    echo "fuzz: $target fails; its input is in $crate/artifacts/$target" >&2
    exit 1
  fi
  # The seeds that tests name stay; of what was found, only what adds to them.
  before=$(find "$seeds" -type f | wc -l)
  "$fuzz" run "${options[@]}" "$target" "$PWD/$seeds" "$PWD/$found" -- -set_cover_merge=1 -max_len=1024 >>"$log" 2>&1
  stat() { sed -n "s/^stat::$1: *//p" "$log" | head -1; }
  edges=$(grep -o 'cov: [0-9]*' "$log" | tail -1)
  echo "$target: $(stat number_of_executed_units) executions, $(stat average_exec_per_sec) a second, $edges," \
    "$before inputs before and $(find "$seeds" -type f | wc -l) after"
done
