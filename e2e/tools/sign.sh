#!/usr/bin/env bash
# sign.sh [ARGUMENT...] <PUBLISHED: signs with cosign and its arguments: what publish.sh printed, each with its SBOM as
# an attestation, and SHA256SUMS of RELEASE, by default dist/release. Without a key, cosign asks for the identity of the
# workflow or the person.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
release=${RELEASE:-dist/release}
cosign=${COSIGN:-$(e2e/tools/cosign.sh)}

while read -r reference sbom; do
  # An image of several architectures, with each of its images.
  "$cosign" sign --yes --recursive "$@" "$reference"
  "$cosign" attest --yes "$@" --type cyclonedx --predicate "$release/$sbom" "$reference"
done
"$cosign" sign-blob --yes "$@" --bundle "$release/SHA256SUMS.sigstore.json" "$release/SHA256SUMS" >/dev/null
