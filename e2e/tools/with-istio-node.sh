#!/usr/bin/env bash
# with-istio-node.sh COMMAND...: runs a command with the environment variables that the tests of Istio on a node need:
# ISTIO_PROGRAMS, whose charts they install; OCI_BIN, a registry; LIMPET_IMAGES, the images of the wasm file that they
# push there; and NODE_IMAGES, with Istio's images besides those of with-node.sh. They have what Istio's Dockerfiles put
# there, but for a stock Envoy in the place of Istio's. Within with-envoy.sh and with-node.sh.
set -euo pipefail
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
target=$(realpath "${CARGO_TARGET_DIR:-$tools/../../target}")

ISTIO_PROGRAMS=$("$tools/istio.sh")
OCI_BIN=$("$tools/registry.sh")
LIMPET_IMAGES=$target/wasm-images
export ISTIO_PROGRAMS OCI_BIN LIMPET_IMAGES
mkdir -p "$target/wasm-dist"
cp "$LIMPET_WASM" "$target/wasm-dist/limpet.wasm"
python3 "$tools/images.py" "$target/wasm-dist" "$LIMPET_IMAGES" test limpet-wasm limpet-wasm-compat >&2

images=$NODE_IMAGES-istio
rm -rf "$images"
mkdir "$images"
ln -s "$NODE_IMAGES"/*.tar "$images/"
# image NAME ARGUMENT...
image() { python3 "$tools/image.py" "$images/istio-$1.tar" "limpet.dev/e2e/istio/$1:1" "${@:2}"; }

image pilot --entrypoint pilot-discovery --user 1337:1337 \
  "/usr/local/bin/pilot-discovery=$ISTIO_PROGRAMS/pilot-discovery"
# The agent writes a sidecar's rules with them. Each is one program that looks at its name; what it knows of packets is
# in libraries that it finds by their names.
PATH=$PATH:/usr/sbin:/sbin
iptables=()
for program in {ip,ip6}tables{,-save,-restore}; do
  iptables+=("/usr/bin/$program=$(realpath "$(command -v "$program")")")
done
for library in /usr/lib/*/xtables/*.so /usr/lib/xtables/*.so; do
  [[ ! -f $library ]] || iptables+=("$library=$library")
done
image proxyv2 --entrypoint pilot-agent "/usr/local/bin/pilot-agent=$ISTIO_PROGRAMS/pilot-agent" \
  "/usr/local/bin/envoy=$ENVOY_BIN" \
  "/var/lib/istio/envoy/envoy_bootstrap_tmpl.json=$ISTIO_PROGRAMS/envoy_bootstrap.json" "${iptables[@]}"
NODE_IMAGES=$images
export NODE_IMAGES
exec "$@"
