#!/usr/bin/env bash
# asan.sh [TEST]: runs the end-to-end tests of the dynamic module on a stock Envoy, with a module that AddressSanitizer
# watches. First it shows that a mistake would be seen: a module that reads a stream after it freed it.
#
# rustc has the instrumentation as an unstable flag, which RUSTC_BOOTSTRAP turns on in the installed one, and brings the
# sanitizer's runtime as a static library for programs. Envoy is not ours to link, so the runtime becomes a shared
# library that the module needs. What Envoy itself does is not watched, but what the module does with Envoy's memory is
# no worse than without: reads and writes of the module, its heap and its stacks are checked. Linux on x86-64 only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
test=${1:-} version=${ENVOY_VERSION:-1.40.0} triple=x86_64-unknown-linux-gnu
target=$PWD/${CARGO_TARGET_DIR:-target}/asan
modules=$target/modules reports=$target/reports

runtime() {
  local archive objects=$target/runtime
  archive=$(rustc --print sysroot)/lib/rustlib/$triple/lib/librustc-stable_rt.asan.a
  rm -rf "$objects" && mkdir -p "$objects" "$modules/ours" "$modules/panicking" "$modules/beside" "$modules/broken"
  (cd "$objects" && ar x "$archive")
  # It would make the runtime start before the program, which a library cannot. Nor can it start twice, so it stays
  # when Envoy lets go of a module.
  rm "$objects"/asan_preinit*.o
  cc -shared -Wl,-z,nodelete -o "$modules/liblimpet_asan.so" "$objects"/*.o -lpthread -ldl -lm -lrt -lgcc_s
  cc -Wall -Werror -O2 -fPIC -c -o "$target/malloc.o" e2e/tools/asan/malloc.c
}

# build MANIFEST CRATE FILE DIRECTORY CACHE: builds a module with the instrumentation. Cargo takes crates of two copies
# of the sources for the same, so each copy has a cache of its own.
build() {
  local wrap=-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free,--wrap=posix_memalign
  RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address -Clink-arg=$target/malloc.o -Clink-arg=$wrap \
    -Clink-arg=-L$modules -Clink-arg=-llimpet_asan -Clink-arg=-Wl,-rpath,$modules" \
    cargo build --locked --manifest-path "$1" -p "$2" --target "$triple" --target-dir "$target/$5" \
    --config profile.dev.debug=1 --config profile.dev.opt-level=1
  cp "$target/$5/$triple/debug/$3" "$modules/$4/liblimpet.so"
}

# tests DIRECTORY NAME: the tests of this name, with the module in the directory. Where addresses are random, the
# runtime may find no room and run the program again: an Envoy that has told its admin address already. Where they are
# not, the allocator of the Envoy that is too old for the module always has the room that the runtime needs.
tests() {
  FUNC_E=$(e2e/tools/func-e.sh) HAPROXY=$(e2e/tools/haproxy.sh) ENVOY_TOO_OLD=$(e2e/tools/envoy.sh 1.37.0) \
    LIMPET_BIN=${LIMPET_BIN:-${CARGO_TARGET_DIR:-target}/debug/limpet} LIMPET_FILTER=module \
    e2e/tools/with-envoy.sh "$version" env "LIMPET_MODULE=$modules/$1/liblimpet.so" \
    "LIMPET_PANICKING_MODULE=$modules/panicking/liblimpet.so" "LIMPET_BESIDE_OTHER=$modules/beside/liblimpet.so" \
    "ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0:detect_stack_use_after_return=1:log_path=$reports/asan" \
    e2e/tools/test-named.sh "$2" setarch -R cargo test --locked -p limpet-e2e --test e2e -- \
    --skip an_envoy_that_is_too_old_refuses_the_module_and_says_why --skip no_key_is_left_in_envoys_memory
}

# A copy of the sources whose module reads a stream after it is destroyed.
break_it() {
  local copy=$target/broken
  rm -rf "$copy" && mkdir -p "$copy"
  git ls-files -z | xargs -0 cp -a --parents -t "$copy"
  # The last line of the hook http_filter_destroy frees the stream.
  sed -i '/fn envoy_dynamic_module_on_http_filter_destroy/,/^}/ s/^}/    unsafe { stream.cast::<u8>().read_volatile() };\n}/' \
    "$copy/filter/dynamic-module/src/abi.rs"
  build "$copy/Cargo.toml" limpet-dynamic-module liblimpet.so broken build-broken
}

runtime
rm -rf "$reports" && mkdir -p "$reports"
echo "Building a module that uses freed memory (2 minutes the first time)"
break_it
if tests broken no_header_of_a_client_steers >"$target/broken.log" 2>&1 || ! grep -l heap-use-after-free "$reports"/asan.*; then
  echo "asan: use of freed memory was not seen; $target/broken.log has the test's output" >&2
  exit 1
fi
rm "$reports"/asan.*

echo "Building the modules (a minute)"
build Cargo.toml limpet-dynamic-module liblimpet.so ours build
build Cargo.toml limpet-panicking-module liblimpet_panicking.so panicking build
e2e/tools/build-other-module.sh
cp "$modules/ours/liblimpet.so" "${target%/asan}/beside/libother.so" "$modules/beside/"
failed=0
tests ours "$test" || failed=1
if compgen -G "$reports/asan.*" >/dev/null; then
  echo "asan: found in $reports:" >&2
  grep -h "ERROR: AddressSanitizer" "$reports"/asan.* >&2
  exit 1
fi
echo "AddressSanitizer reports nothing."
exit "$failed"
