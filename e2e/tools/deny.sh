#!/usr/bin/env bash
# Checks the dependencies against deny.toml: licences, banned crates and sources, and advisories if their database can
# be reached.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=0.20.2

deny=$(command -v cargo-deny) || deny=.tools/bin/cargo-deny
if [[ ! -x $deny ]]; then
  echo "Building cargo-deny $version into .tools (1 to 2 minutes, once)"
  # Not optimised: to check takes seconds in any case, and an optimised build takes minutes more.
  cargo install --locked --debug --root .tools "cargo-deny@$version"
fi
# `cargo tree --invert` says in fewer lines where a duplicate comes from.
"$deny" --locked check --hide-inclusion-graph licenses bans sources
if why=$(timeout 60 "$deny" fetch db 2>&1); then
  "$deny" --locked check --disable-fetch advisories
else
  grep '^fatal' <<<"$why" || true
  echo "Advisories were NOT checked: the advisory database could not be reached."
fi
