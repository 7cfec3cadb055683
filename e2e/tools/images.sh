#!/usr/bin/env bash
# images.sh [--archives]: writes the images that are shipped into dist/images, from the files in dist, and loads them
# into the first of podman, buildah and docker that works, unless only archives are asked for. They have the names under
# which releases are published. With ARCHES="x86_64 aarch64": of the files in dist/x86_64 and dist/aarch64 (images.py).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=SCRIPTDIR/stamp.sh
. e2e/tools/stamp.sh

say() { echo "images: $*" >&2; }

REGISTRY=$registry REPOSITORY=$repository python3 e2e/tools/images.py dist dist/images "$version"
[[ ${1:-} != --archives ]] || exit 0

for engine in podman buildah docker; do
  # A docker without its daemon, for example, does not work.
  command -v "$engine" >/dev/null && why=$("$engine" info 2>&1 >/dev/null) && break
  say "$engine cannot be used${why:+: ${why##*$'\n'}}"
  engine='' why=
done
if [[ -z $engine ]]; then
  say "The images are in dist/images, but were loaded nowhere: install buildah, podman or docker"
  say "(Debian: apt-get install --no-install-recommends buildah), or push them from there with crane or skopeo."
  exit 1
fi
# The artefact is not among them: it has no layers of files, so no engine can hold it.
for name in limpet limpet-wasm-compat; do
  if [[ $engine == docker ]]; then
    docker load --quiet --input "dist/images/$name.tar"
  else
    # As the archive of an OCI image, whose digest is kept.
    "$engine" tag "$("$engine" pull --quiet "oci-archive:dist/images/$name.tar")" "$registry/$name:$version"
  fi
  say "loaded $registry/$name:$version into $engine"
done
