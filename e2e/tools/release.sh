#!/usr/bin/env bash
# release.sh: writes what is released into dist/release, from the files in dist and the images in dist/images: archives
# of the command and of the module for each of ARCHES, by default this machine's, and of the wasm file, the images as
# OCI layouts, the Helm chart, an SBOM (CycloneDX) of each of these, a manifest for krew, and SHA256SUMS of all. Made of
# the same commit, the files are the same.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=SCRIPTDIR/stamp.sh
. e2e/tools/stamp.sh
# Names sort as in C, whatever the language of the machine is.
export LC_ALL=C
release=dist/release
ARCHES=${ARCHES:-$(uname -m)}
export ARCHES

rm -rf "$release"
mkdir -p "$release"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# archive OUTPUT DIRECTORY ENTRY...: the same bytes for the same files, whoever owns them and whatever their times are.
archive() {
  tar --create --directory "$2" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --mode=u+w,go-w,a+rX --format=gnu "${@:3}" | gzip -9 --no-name >"$release/$1"
}
# program NAME FILE: an archive of one file, with the licence.
program() {
  mkdir "$scratch/$1"
  cp "dist/$2" LICENSE "$scratch/$1/"
  archive "$1.tar.gz" "$scratch" "$1"
}
for arch in $ARCHES; do
  program "limpet-$version-linux-$arch" "$arch/limpet"
  program "limpet-module-$version-linux-$arch" "$arch/liblimpet.so"
done
program "limpet-wasm-$version" limpet.wasm

for image in limpet limpet-wasm limpet-wasm-compat; do
  cp "dist/images/$image.tar" "$release/$image-$version.oci.tar"
done

# As `helm package` does: the folder is named after the chart.
mkdir "$scratch/chart"
cp -rL controller/deploy/chart "$scratch/chart/limpet"
archive "limpet-chart-$version.tgz" "$scratch/chart" limpet

e2e/tools/sbom.sh "$release" "$version"

# The manifest has the digests of archives, so it comes last.
krew=$(<e2e/tools/krew.yaml)
krew=${krew//VERSION/$version}
krew=${krew//REPOSITORY/$repository}
for arch in $ARCHES; do
  sum=$(sha256sum <"$release/limpet-$version-linux-$arch.tar.gz")
  krew=${krew//DIGEST_$arch/${sum%% *}}
done
# Only with all that it names.
[[ $krew == *DIGEST_* ]] || echo "$krew" >"$release/limpet-krew-$version.yaml"

(cd "$release" && sha256sum -- * >"$scratch/sums" && mv "$scratch/sums" SHA256SUMS)
