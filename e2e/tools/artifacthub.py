#!/usr/bin/env python3
"""Writes artifacthub-repo.yml as an OCI image layout, for the tag `artifacthub.io` of the chart's repository.

    artifacthub.py FILE ARCHIVE
"""

import sys

import oci

# https://artifacthub.io/docs/topics/repositories/helm-charts/#oci-support
CONFIG = "application/vnd.cncf.artifacthub.config.v1+yaml"
LAYER = "application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml"


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: artifacthub.py FILE ARCHIVE")
    file, archive = sys.argv[1:]
    with open(file, "rb") as opened:
        content = opened.read()
    layout = oci.Layout()
    title = {"org.opencontainers.image.title": "artifacthub-repo.yml"}
    layers = [layout.blob(LAYER, content, annotations=title)]
    manifest = layout.manifest(layout.blob(CONFIG, b"{}"), layers, {})
    layout.write(archive, "limpet:artifacthub.io", manifest)


main()
