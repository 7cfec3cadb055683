#!/usr/bin/env python3
"""Writes a container image of files of this machine, as an archive for `ctr images import`.

    image.py ARCHIVE NAME [--entrypoint PROGRAM] [--user USER] PATH=FILE...

PATH is the file's path in the image. Of programs, the libraries that they are linked to come with them. No base image
is needed, and no container engine.
"""

import argparse
import os
import re
import subprocess
import sys

import oci

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
    made = oci.Layer()
    made.directory("tmp", 0o1777)
    for name in MERGED:
        made.directory(f"usr/{name}")
        made.link(name, f"usr/{name}")
    for path, file in sorted(files.items()):
        made.file(path, file, 0o755 if os.access(file, os.X_OK) else 0o644)
    return made.tar()


def main():
    parser = argparse.ArgumentParser(prog="image.py")
    parser.add_argument("archive")
    parser.add_argument("name")
    parser.add_argument("--entrypoint")
    parser.add_argument("--user", default="")
    parser.add_argument("files", nargs="+", metavar="PATH=FILE")
    asked = parser.parse_args()
    files = {}
    for pair in asked.files:
        path, _, file = pair.partition("=")
        files[in_image(path)] = file
    for program in list(files.values()):
        for library in libraries(program):
            files[in_image(library)] = library
    config = {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"], "User": asked.user}
    if asked.entrypoint:
        config["Entrypoint"] = [asked.entrypoint]
    # Compression would take longer than it saves.
    oci.write_image(asked.archive, asked.name, layer(files), config, compress=False)


main()
