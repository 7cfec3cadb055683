#!/usr/bin/env bash
# rust-target.sh TARGET COMMAND...: runs a cargo command that needs a target: wasm32-wasip1, or that of a static
# program, x86_64-unknown-linux-musl. The ways to get it, in order:
#   1. the toolchain has the target, or `rustup target add` adds it;
#   2. if rustup is missing or cannot reach its server: cargo builds the target's standard library together with the
#      program. Its source is that of the same Rust version in Debian's rust-src. The C library is Debian's wasi-libc
#      for wasm; for Linux the command brings one (ship.sh). Packages are unpacked below .tools; nothing is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=$1
shift

say() { echo "target $target: $*" >&2; }
die() { say "$*"; exit 1; }

has_target() {
  compgen -G "$(rustc --print target-libdir --target "$target")/libstd-*.rlib" >/dev/null
}

# Unpacks rust-src and wasi-libc for Rust version $2 into the directory $1.
fetch_sources() {
  local tmp=$1.tmp mirror suite package version
  command -v apt-get >/dev/null || { say "there is no apt-get to fetch the library's source"; return 1; }
  # The machine's own Debian mirror, but with separate package lists: the version is likely to be newer than Debian's.
  # shellcheck disable=SC2016 # apt expands it
  mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -E '/debian(/|\.list)?$' | sort -u | head -n 1) ||
    { say "apt has no Debian mirror configured"; return 1; }
  rm -rf "$tmp"
  mkdir -p "$tmp"/{lists,cache/archives}/partial "$tmp/root"
  local apt=(-o Dir::Etc::sourcelist="$PWD/$tmp/sources.list" -o Dir::Etc::sourceparts=-
    -o Dir::State::lists="$PWD/$tmp/lists" -o Dir::Cache="$PWD/$tmp/cache" -o APT::Sandbox::User=root
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o Acquire::Retries=2)
  for suite in trixie-backports trixie sid forky; do
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$tmp/sources.list"
    say "looking for the source of Rust $2 in $suite"
    apt-get "${apt[@]}" update >&2 || continue
    for package in rust-src rust-web-src; do
      version=$(apt-cache "${apt[@]}" madison "$package" | awk -v want="$2" '$3 ~ "^"want"[+-]" { print $3; exit }')
      [[ -n $version ]] || continue
      (cd "$tmp" && apt-get "${apt[@]}" download "$package=$version" wasi-libc >&2) || return 1
      for deb in "$tmp"/*.deb; do dpkg -x "$deb" "$tmp/root" || return 1; done
      mv "$tmp/root" "$1" && rm -rf "$tmp"
      return
    done
  done
  rm -rf "$tmp"
  say "Debian has no source package of Rust $2"
  return 1
}

release=$(rustc --version | awk '{ print $2 }')
root=.tools/rust-src/$release
if ! has_target && [[ ! -d $root ]] && command -v rustup >/dev/null; then
  say "adding $target with rustup (a download of 20 MB, some seconds)"
  RUST_BACKTRACE=0 timeout 180 rustup target add "$target" >&2 || say "rustup could not add it"
fi

if ! has_target; then
  mkdir -p .tools/rust-src
  exec 9>.tools/rust-src/lock
  flock 9
  if [[ ! -d $root ]]; then
    say "building the target's standard library from Debian's source instead"
    say "(a download of 50 MB, then 20 to 60 s with the first build)"
    fetch_sources "$root" "$release" ||
      die "neither rustup nor Debian has $target (reasons above). Try \`rustup target add $target\`."
  fi
  exec 9>&-
  library=$(compgen -G "$PWD/$root/usr/src/*/library") || die "no standard library source in $root"
  # -Zbuild-std from the environment works for build and clippy. The odd variable is cargo's own and says where the
  # source is. Without it, the source would have to be linked into the shared toolchain.
  export RUSTC_BOOTSTRAP=1 CARGO_UNSTABLE_BUILD_STD=std,panic_abort __CARGO_TESTS_ONLY_SRC_ROOT=$library
  if [[ $target == wasm32-wasip1 ]]; then
    export CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS="-Lnative=$PWD/$root/usr/lib/wasm32-wasi"
  else
    CARGO_UNSTABLE_BUILD_STD=std,panic_unwind
  fi
fi

exec "$@"
