#!/usr/bin/env bash
# with-node.sh COMMAND...: runs a command with the environment variables that a node needs: NODE_BIN, its programs,
# HELM, and NODE_IMAGES, the archives of its images. They are made of files of this machine, because no registry is
# asked: the controller's image is the shipped one, and Envoy's has a stock Envoy, under the names that the manifests
# give them. Neither has a shell. Within with-envoy.sh, which names the files.
set -euo pipefail
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
target=$(realpath "${CARGO_TARGET_DIR:-$tools/../../target}")
manifest=$tools/../../controller/deploy/envoy/envoy.yaml

NODE_BIN=$("$tools/node.sh")
HELM=$("$tools/helm.sh")
NODE_IMAGES=$target/node-images
export NODE_BIN HELM NODE_IMAGES
mkdir -p "$NODE_IMAGES"
# It runs in Envoy's image too, as the preStop hook.
if [[ $(ldd "$LIMPET_BIN" 2>/dev/null) == *"=>"* ]]; then
  echo "with-node: LIMPET_BIN=$LIMPET_BIN is not a static program, as e2e/tools/build-command.sh makes" >&2
  exit 1
fi

# image ARCHIVE NAME ARGUMENT...: into a file of its own first, because others may be reading the old one.
image() {
  local archive=$NODE_IMAGES/$1.tar
  python3 "$tools/image.py" "$archive.$$" "${@:2}"
  mv "$archive.$$" "$archive"
}
# named PREFIX [REGISTRY]: the full name of the manifest's image whose name begins so.
named() { sed -n "s|^ *image: \($1.*\)|${2:+$2/}\1|p" "$manifest" | sort -u; }
# shellcheck source=SCRIPTDIR/stamp.sh
registry=$(cd "$tools/../.." && . e2e/tools/stamp.sh && echo "$registry")

image pause limpet.dev/e2e/pause:1 --entrypoint pause "/usr/bin/pause=$NODE_BIN/pause"
image coredns limpet.dev/e2e/coredns:1 --entrypoint coredns "/usr/bin/coredns=$NODE_BIN/coredns"
image agnhost registry.k8s.io/e2e-test-images/agnhost:2.63.0 --entrypoint agnhost "/usr/bin/agnhost=$NODE_BIN/agnhost"
image backend limpet.dev/e2e/backend:1 --entrypoint backend --user 65532:65532 \
  "/usr/bin/backend=$target/debug/backend"
# As `make images` makes it.
shipped=$target/node-shipped
mkdir -p "$shipped"
ln -sf "$LIMPET_BIN" "$shipped/limpet"
ln -sf "$LIMPET_WASM" "$shipped/limpet.wasm"
ln -sf "$LIMPET_MODULE" "$shipped/liblimpet.so"
limpet=$(named "$registry/limpet:")
REGISTRY=$registry python3 "$tools/images.py" "$shipped" "$shipped" "${limpet##*:}" limpet >/dev/null
mv "$shipped/limpet.tar" "$NODE_IMAGES/limpet.tar"
# Nothing but Envoy and its libraries: the preStop hook, which runs there, needs none.
image envoy "$(named envoyproxy/ docker.io)" --entrypoint envoy "/usr/local/bin/envoy=$ENVOY_BIN"
# The same Envoy under another name, for a rollout.
image other-envoy limpet.dev/e2e/envoy:2 --entrypoint envoy "/usr/local/bin/envoy=$ENVOY_BIN"
exec "$@"
