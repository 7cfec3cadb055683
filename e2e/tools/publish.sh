#!/usr/bin/env bash
# publish.sh [REGISTRY]: pushes the images and the chart of RELEASE, by default dist/release, to a registry, by default
# Cargo.toml's. Prints each by its digest with the name of its SBOM, for sign.sh. A tag with the same content is left; a
# tag with other content is an error. INSECURE=1 is for a registry without TLS.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=SCRIPTDIR/stamp.sh
. e2e/tools/stamp.sh
registry=${1:-$registry}
release=${RELEASE:-dist/release}

crane=${OCI_BIN:-$(e2e/tools/registry.sh)}/crane
helm=${HELM:-$(e2e/tools/helm.sh)}
insecure=() plain=()
[[ -z ${INSECURE:-} ]] || insecure=(--insecure) plain=(--plain-http)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

say() { echo "publish: $*" >&2; }
die() { say "$*"; exit 1; }
# found REFERENCE: its digest, or nothing if there is no such tag. A push reports other failures.
found() { "$crane" digest "${insecure[@]}" "$1" 2>/dev/null || true; }
# push LAYOUT REFERENCE: prints the digest.
push() {
  local wanted there
  mkdir "$scratch/layout"
  tar --extract --file "$1" --directory "$scratch/layout"
  wanted=$(sed 's/.*"digest": "\([^"]*\)".*/\1/' "$scratch/layout/index.json")
  there=$(found "$2")
  [[ -z $there || $there == "$wanted" ]] || die "$2 is there with other content: $there"
  [[ -n $there ]] || "$crane" push "${insecure[@]}" "$scratch/layout" "$2" >/dev/null
  rm -rf "$scratch/layout"
  echo "$wanted"
}

for image in limpet limpet-wasm limpet-wasm-compat; do
  digest=$(push "$release/$image-$version.oci.tar" "$registry/$image:$version")
  say "$registry/$image:$version"
  echo "$registry/$image@$digest $image-$version.oci.cdx.json"
done

chart=$registry/charts/limpet
archive=$release/limpet-chart-$version.tgz
# The manifest has the time of the push. The archive's digest is in it.
if [[ -n $(found "$chart:$version") ]]; then
  "$crane" manifest "${insecure[@]}" "$chart:$version" | grep -q "sha256:$(sha256sum <"$archive" | cut -d ' ' -f 1)" ||
    die "$chart:$version is there with other content"
else
  "$helm" push "${plain[@]}" "$archive" "oci://$registry/charts" >"$scratch/said" 2>&1 || die "$(<"$scratch/said")"
fi
say "$chart:$version"
echo "$chart@$(found "$chart:$version") limpet-chart-$version.cdx.json"

# The chart's publisher, for Artifact Hub. It may change, unlike a version.
python3 e2e/tools/artifacthub.py controller/deploy/artifacthub-repo.yml "$scratch/artifacthub.tar"
mkdir "$scratch/publisher"
tar --extract --file "$scratch/artifacthub.tar" --directory "$scratch/publisher"
"$crane" push "${insecure[@]}" "$scratch/publisher" "$chart:artifacthub.io" >/dev/null
say "$chart:artifacthub.io"
