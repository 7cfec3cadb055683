#!/usr/bin/env python3
"""Writes the images that are shipped, as archives that container engines and registry clients read.

    images.py DIST OUTPUT VERSION [NAME...]

DIST has limpet, limpet.wasm and liblimpet.so of this machine. With ARCHES="x86_64 aarch64", limpet and liblimpet.so
are in DIST/x86_64 and DIST/aarch64, and an image of them is an index of one for each. In OUTPUT there are then these, or
those that are named:
    limpet.tar              the command and both builds of the filter, and nothing else
    limpet-wasm.tar         the wasm file as an OCI artefact
    limpet-wasm-compat.tar  the wasm file as an image of one layer, for registries and tools that take images only
Istio and Envoy Gateway take either of the latter. SOURCE_DATE_EPOCH and SOURCE_REVISION say when and of what, and
REGISTRY where they are published.
"""

import os
import sys
from datetime import datetime, timezone

import oci

# Istio's form of an image of a wasm file, and Envoy Gateway's: https://github.com/solo-io/wasm/tree/master/spec
WASM_CONFIG = "application/vnd.module.wasm.config.v1+json"
WASM_LAYER = "application/vnd.module.wasm.content.layer.v1+wasm"
# What both forms have of the ABI that the filter speaks.
RUNTIME = {"type": "envoy_proxy", "abiVersions": ["0.2.1"], "config": {"root_ids": []}}

WASM_FILE = "Limpet's filter for Envoy, as wasm"


class Shipped:
    def __init__(self, dist, output, version):
        self.dist, self.output, self.version = dist, output, version
        self.registry = os.environ.get("REGISTRY", "docker.io/library")
        arches = os.environ.get("ARCHES", "").split()
        # Programs by the architecture that images name.
        self.programs = {oci.architecture(arch): os.path.join(dist, arch) for arch in arches} or {
            oci.architecture(): dist
        }
        self.epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
        self.created = datetime.fromtimestamp(self.epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

    def archive(self, name):
        return os.path.join(self.output, f"{name}.tar")

    def name(self, name):
        return f"{self.registry}/{name}:{self.version}"

    def labels(self, title, description):
        about = {
            "title": title,
            "description": description,
            "version": self.version,
            "licenses": "Apache-2.0",
            "created": self.created,
            "revision": os.environ.get("SOURCE_REVISION", ""),
            # Registries show the page of the code by it.
            "source": os.environ.get("REPOSITORY", ""),
        }
        return {f"org.opencontainers.image.{name}": value for name, value in about.items() if value}

    def image(self, name, layers, config, labels):
        """An image of a layer (path: file and mode) for each architecture."""
        layout = oci.Layout()
        config = config | {"Labels": labels}
        images = []
        for architecture, files in layers.items():
            layer = oci.Layer(self.epoch)
            for path, (file, mode) in sorted(files.items()):
                layer.file(path, file, mode)
            images.append(
                layout.image(layer.tar(), config, architecture, annotations=labels, created=self.created)
            )
        described = images[0] if len(images) == 1 else layout.index(images, labels)
        described.pop("platform", None)
        layout.write(self.archive(name), self.name(name), described)
        return described["digest"]

    def limpet(self):
        layers = {
            architecture: {
                "limpet": (os.path.join(programs, "limpet"), 0o755),
                "usr/share/limpet/limpet.wasm": (os.path.join(self.dist, "limpet.wasm"), 0o644),
                "usr/share/limpet/liblimpet.so": (os.path.join(programs, "liblimpet.so"), 0o755),
            }
            for architecture, programs in self.programs.items()
        }
        config = {"Entrypoint": ["/limpet"], "User": "65532:65532", "WorkingDir": "/"}
        about = "Session persistence for Envoy: the limpet command and both builds of the filter"
        return self.image("limpet", layers, config, self.labels("limpet", about))

    def wasm(self):
        labels = self.labels("limpet-wasm", WASM_FILE)
        layout = oci.Layout()
        # Registries know this type, unlike one of our own. There is nothing to say in it.
        config = {"architecture": "wasm", "os": "wasip1", "config": {"Labels": labels}, "created": self.created}
        with open(os.path.join(self.dist, "limpet.wasm"), "rb") as opened:
            wasm = opened.read()
        title = "org.opencontainers.image.title"
        layers = [
            layout.blob(WASM_CONFIG, RUNTIME, annotations={title: "runtime-config.json"}),
            layout.blob(WASM_LAYER, wasm, annotations={title: "plugin.wasm"}),
        ]
        diffs = {"rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]}}
        manifest = layout.manifest(layout.blob(oci.CONFIG, config | diffs), layers, labels)
        layout.write(self.archive("limpet-wasm"), self.name("limpet-wasm"), manifest)
        return manifest["digest"]

    def wasm_compat(self):
        labels = self.labels("limpet-wasm-compat", WASM_FILE)
        # The same for all machines. Fetchers of wasm files ask for no platform.
        files = {"plugin.wasm": (os.path.join(self.dist, "limpet.wasm"), 0o644)}
        return self.image("limpet-wasm-compat", {next(iter(self.programs)): files}, {}, labels)


def main():
    if len(sys.argv) < 4:
        sys.exit("usage: images.py DIST OUTPUT VERSION [NAME...]")
    shipped = Shipped(*sys.argv[1:4])
    os.makedirs(shipped.output, exist_ok=True)
    writers = {
        "limpet": shipped.limpet,
        "limpet-wasm": shipped.wasm,
        "limpet-wasm-compat": shipped.wasm_compat,
    }
    for name in sys.argv[4:] or writers:
        write = writers[name]
        print(f"{name}:{shipped.version} {write()} {os.path.getsize(shipped.archive(name))} bytes")


main()
