"""Writes container images and other OCI artefacts. The same content makes the same bytes.

No container engine and no base image is needed. An archive is an OCI image layout in a tar file; what `docker load`
looks for is in it, too.
"""

import gzip
import hashlib
import io
import json
import os
import tarfile

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def architecture(machine=None):
    """The architecture of a machine, by default of this one, as images name it."""
    return {"x86_64": "amd64", "aarch64": "arm64"}[machine or os.uname().machine]


class Layer:
    """The tar file of a layer. Everything in it belongs to root and has the time `mtime`."""

    def __init__(self, mtime=0):
        self.content = io.BytesIO()
        self.archive = tarfile.open(fileobj=self.content, mode="w", format=tarfile.PAX_FORMAT)
        self.directories = set()
        self.mtime = mtime

    def _add(self, path, mode, data=None, **attributes):
        info = tarfile.TarInfo(path)
        info.mode, info.mtime = mode, self.mtime
        for name, value in attributes.items():
            setattr(info, name, value)
        self.archive.addfile(info, data)

    def directory(self, path, mode=0o755):
        """Adds a directory and those above it, unless it is there."""
        if not path or path in self.directories:
            return
        self.directory(os.path.dirname(path))
        self.directories.add(path)
        self._add(path, mode, type=tarfile.DIRTYPE)

    def link(self, path, target):
        self._add(path, 0o777, type=tarfile.SYMTYPE, linkname=target)

    def file(self, path, file, mode):
        """Adds a file of this machine at a path without a leading slash."""
        self.directory(os.path.dirname(path))
        with open(file, "rb") as opened:
            self._add(path, mode, opened, size=os.path.getsize(file))

    def tar(self):
        self.archive.close()
        return self.content.getvalue()


class Layout:
    """An OCI image layout of one image, or of one index of an image for several platforms."""

    def __init__(self):
        self.blobs = {}

    def blob(self, media_type, content, **fields):
        """Adds content, bytes or what becomes JSON. Returns its descriptor."""
        if not isinstance(content, bytes):
            content = json.dumps(content, sort_keys=True).encode()
        self.blobs[digest(content)] = content
        return {"mediaType": media_type, "digest": digest(content), "size": len(content)} | fields

    def layer(self, tar, compress=True):
        """Adds a layer. Returns its descriptor."""
        if not compress:
            return self.blob(LAYER, tar)
        return self.blob(LAYER + "+gzip", gzip.compress(tar, compresslevel=9, mtime=0))

    def manifest(self, config, layers, annotations):
        fields = {"annotations": annotations} if annotations else {}
        content = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers} | fields
        return self.blob(MANIFEST, content)

    def image(self, tar, config, architecture, compress=True, annotations=None, **fields):
        """Adds an image of one layer. Returns its descriptor, with its platform."""
        content = {
            "architecture": architecture,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [digest(tar)]},
        }
        described = self.blob(CONFIG, content | fields)
        manifest = self.manifest(described, [self.layer(tar, compress)], annotations)
        return manifest | {"platform": {"architecture": architecture, "os": "linux"}}

    def index(self, images, annotations):
        """Adds an index of images for several platforms. Returns its descriptor."""
        fields = {"annotations": annotations} if annotations else {}
        return self.blob(INDEX, {"schemaVersion": 2, "mediaType": INDEX, "manifests": images} | fields)

    def write(self, archive, name, manifest):
        """Writes the archive of an image that is named `name`: a repository and a tag."""
        names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
        index = {"schemaVersion": 2, "manifests": [manifest | {"annotations": names}]}
        path = {digest: "blobs/" + digest.replace(":", "/") for digest in self.blobs}
        content = json.loads(self.blobs[manifest["digest"]])
        with tarfile.open(archive, "w") as out:

            def add(file, data):
                info = tarfile.TarInfo(file)
                info.size, info.mode = len(data), 0o644
                out.addfile(info, io.BytesIO(data))

            add("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
            add("index.json", json.dumps(index).encode())
            # An index has none.
            layers = content.get("layers", [{"mediaType": ""}])
            if all(layer["mediaType"].startswith(LAYER) for layer in layers):
                for_docker = {
                    "Config": path[content["config"]["digest"]],
                    "RepoTags": [name],
                    "Layers": [path[layer["digest"]] for layer in layers],
                }
                add("manifest.json", json.dumps([for_docker]).encode())
            for blob, data in sorted(self.blobs.items()):
                add(path[blob], data)


def write_image(archive, name, tar, config, compress=True):
    """Writes an image of one layer for this machine. Returns its digest."""
    layout = Layout()
    manifest = layout.image(tar, config, architecture(), compress)
    del manifest["platform"]
    layout.write(archive, name, manifest)
    return manifest["digest"]
