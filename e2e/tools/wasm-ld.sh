#!/usr/bin/env bash
# Linker of the wasm filter: rust-lld without the `--export NAME` of hooks that wasm-exports.txt does not list. The SDK
# defines every hook; those that are not exported are dropped as dead code. For a host, a missing hook is one that does
# nothing (a missing proxy_on_done: one that returns true).
set -euo pipefail
keep=$(<"$(dirname "${BASH_SOURCE[0]}")/wasm-exports.txt")

args=()
while (($#)); do
  if [[ $1 == --export && $2 == proxy_* && $'\n'$keep$'\n' != *$'\n'"$2"$'\n'* ]]; then
    shift 2
  else
    args+=("$1")
    shift
  fi
done
# rustc puts its own rust-lld on the PATH of the linker it calls.
exec rust-lld "${args[@]}"
