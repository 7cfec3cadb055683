#!/usr/bin/env bash
# with-conformance.sh COMMAND...: runs a command with the environment variables that the Gateway API's conformance suite
# needs on a node: CONFORMANCE, the program; CONFORMANCE_CRDS, the definitions of its release; PERSISTENCE and
# PERSISTENCE_CRDS, the same of the tests of session persistence; and NODE_IMAGES, with the images that its manifests
# name besides those of with-node.sh, in which it runs.
set -euo pipefail
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

kept=$("$tools/conformance.sh")
version=${kept##*/}
CONFORMANCE=$kept/suite.test
CONFORMANCE_CRDS=$("$tools/crds.sh" gateway-api "${version%-*}")/experimental
PERSISTENCE=$kept/persistence.test
PERSISTENCE_CRDS=$("$tools/crds.sh" gateway-api)/experimental
images=$NODE_IMAGES-conformance
rm -rf "$images"
mkdir "$images"
ln -s "$NODE_IMAGES"/*.tar "$images/"
while read -r name; do
  case $name in
    */echo-basic:*) entrypoint=echo-basic program=$kept/echo-basic ;;
    */coredns:*) entrypoint=coredns program=$NODE_BIN/coredns ;;
    *) echo "conformance: nothing here makes the image $name" >&2; exit 1 ;;
  esac
  python3 "$tools/image.py" "$images/${name//\//-}.tar" "$name" --entrypoint "$entrypoint" \
    "/usr/bin/$entrypoint=$program"
done <"$kept/images"
NODE_IMAGES=$images
export CONFORMANCE CONFORMANCE_CRDS PERSISTENCE PERSISTENCE_CRDS NODE_IMAGES
exec "$@"
