#!/usr/bin/env bash
# Checks the dependencies against deny.toml: licences, banned crates and sources, and advisories if their database can
# be reached.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=0.20.2

deny=$(command -v cargo-deny) || deny=.tools/bin/cargo-deny
if [[ ! -x $deny ]]; then
  echo "Building cargo-deny $version into .tools (3 to 4 minutes, once)"
  cargo install --locked --root .tools "cargo-deny@$version"
fi
# `cargo tree --invert` says in fewer lines where a duplicate comes from.
"$deny" --locked check --hide-inclusion-graph licenses bans sources
if why=$(timeout 60 "$deny" fetch db 2>&1); then
  "$deny" --locked check --disable-fetch advisories
else
  grep '^fatal' <<<"$why" || true
  echo "Advisories were NOT checked: the advisory database could not be reached."
fi
