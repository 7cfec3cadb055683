#!/usr/bin/env python3
"""Writes a container image of files of this machine, as an archive for `ctr images import`.

    image.py ARCHIVE NAME [--entrypoint PROGRAM] [--user USER] [--libraries-of PROGRAM] PATH=FILE...

PATH is the file's path in the image. Of programs, the libraries that they are linked to come with them; with
--libraries-of, also those of a program that gets there by a volume. No base image is needed, and no container engine.
"""

import argparse
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile

# In an image as on a machine, whatever the layout of this machine is.
MERGED = ("bin", "sbin", "lib", "lib64")


def libraries(file):
    """The libraries of a program by the paths that it has them at. A static program has none."""
    with open(file, "rb") as opened:
        if opened.read(4) != b"\x7fELF":
            return []
    said = subprocess.run(["ldd", file], capture_output=True, text=True, check=False)
    missing = re.findall(r"^\s*(\S+) => not found", said.stdout, re.MULTILINE)
    if missing:
        sys.exit(f"image: {file} needs {', '.join(missing)}, which this machine lacks")
    return re.findall(r"(/\S+) \(0x", said.stdout)


def in_image(path):
    """The path without its leading slash, and with the directories that are links followed."""
    path = os.path.normpath(path).lstrip("/")
    return f"usr/{path}" if path.split("/")[0] in MERGED else path


def layer(files):
    """A layer with these files (their path in the image: their path here)."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        directories = set()

        def add(info, mode, data=None):
            info.mode, info.uid, info.gid, info.mtime = mode, 0, 0, 0
            archive.addfile(info, data)

        def add_directory(path, mode=0o755):
            if not path or path in directories:
                return
            add_directory(os.path.dirname(path))
            directories.add(path)
            info = tarfile.TarInfo(path)
            info.type = tarfile.DIRTYPE
            add(info, mode)

        add_directory("tmp", 0o1777)
        for name in MERGED:
            add_directory(f"usr/{name}")
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, f"usr/{name}"
            add(info, 0o777)
        for path, file in sorted(files.items()):
            add_directory(os.path.dirname(path))
            info = tarfile.TarInfo(path)
            info.size = os.path.getsize(file)
            with open(file, "rb") as opened:
                add(info, 0o755 if os.access(file, os.X_OK) else 0o644, opened)
    return content.getvalue()


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def write(archive, name, files, config):
    """Writes an OCI image layout, with the annotation by which containerd names the image."""
    blobs = {}

    def blob(kind, content):
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        blobs[digest(content)] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": digest(content), "size": len(content)}

    tar = layer(files)
    image = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine],
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [digest(tar)]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("config.v1+json", image),
        "layers": [blob("layer.v1.tar", tar)],
    }
    entry = blob("manifest.v1+json", manifest) | {"annotations": {"io.containerd.image.name": name}}
    index = {"schemaVersion": 2, "manifests": [entry]}
    with tarfile.open(archive, "w") as out:
        def add(path, content):
            info = tarfile.TarInfo(path)
            info.size = len(content)
            out.addfile(info, io.BytesIO(content))

        add("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        add("index.json", json.dumps(index).encode())
        for name_of_blob, content in blobs.items():
            add("blobs/" + name_of_blob.replace(":", "/"), content)


def main():
    parser = argparse.ArgumentParser(prog="image.py")
    parser.add_argument("archive")
    parser.add_argument("name")
    parser.add_argument("--entrypoint")
    parser.add_argument("--user", default="")
    parser.add_argument("--libraries-of", metavar="PROGRAM", action="append", default=[])
    parser.add_argument("files", nargs="+", metavar="PATH=FILE")
    asked = parser.parse_args()
    files = {}
    for pair in asked.files:
        path, _, file = pair.partition("=")
        files[in_image(path)] = file
    for program in [*files.values(), *asked.libraries_of]:
        for library in libraries(program):
            files[in_image(library)] = library
    config = {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"], "User": asked.user}
    if asked.entrypoint:
        config["Entrypoint"] = [asked.entrypoint]
    write(asked.archive, asked.name, files, config)


main()
