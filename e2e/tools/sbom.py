#!/usr/bin/env python3
"""Writes the SBOM (CycloneDX) of each file of a release beside it.

    sbom.py RELEASE VERSION ARCHES CRATES DIST

CRATES has what cargo-cyclonedx says of each program: `limpet.wasm.json`, and for each of ARCHES, such as "x86_64
aarch64", `x86_64/limpet.json` and `x86_64/liblimpet.so.json`. The programs are in DIST in the same way. RUST,
RUST_COMMIT, ZIG and MUSL are versions of what is linked in besides crates.
SOURCE_DATE_EPOCH says when.
"""

import hashlib
import io
import json
import os
import re
import sys
import tarfile
from datetime import datetime, timezone

TOOL = {"vendor": "Limpet", "name": "sbom.py"}
CHART = "controller/deploy/chart"
LLVM = "Apache-2.0 WITH LLVM-exception"


def native():
    """What is linked in besides crates. Zig makes all of it but Rust's own libraries."""
    rust, commit, zig = os.environ["RUST"], os.environ["RUST_COMMIT"], os.environ["ZIG"]

    def library(name, version, licence, about, source=None):
        purl = f"pkg:generic/{name}@{version}" + (f"?vcs_url={source}" if source else "")
        return {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": version,
            "description": about,
            "scope": "required",
            "licenses": [{"expression": licence}],
            "purl": purl,
        }

    source = f"git%2Bhttps://github.com/rust-lang/rust%40{commit}"
    std = library("rust-std", rust, "MIT OR Apache-2.0", "Rust's standard library, with the crates in it", source)
    runtime = library("zig-compiler-rt", zig, "MIT", "The compiler's runtime, as Zig has it")
    unwind = library("llvm-libunwind", f"zig-{zig}", LLVM, "LLVM's unwinder, as Zig has it")
    musl = library("musl", os.environ["MUSL"], "MIT", "The C library")
    jemalloc = library("jemalloc", os.environ["JEMALLOC"], "BSD-2-Clause", "The allocator, in tikv-jemalloc-sys")
    libc = library("zig-libc", zig, "MIT", "The functions of the C library that Zig has itself")
    start = library("glibc-nonshared", f"zig-{zig}", "LGPL-2.1-or-later", "The static part of glibc, as Zig has it")
    wasi = library("wasi-libc", f"rust-{rust}", f"{LLVM} OR Apache-2.0 OR MIT", "The C library for WASI, as Rust has it")
    # By the name of the program, without its architecture.
    return {
        "limpet": [std, jemalloc, musl, libc, runtime, unwind],
        "liblimpet.so": [std, start, runtime, unwind],
        "limpet.wasm": [std, wasi],
    }


class Bom:
    """An SBOM: what it is about, the components by their references, and what depends on what."""

    def __init__(self, root, components=(), dependencies=()):
        self.root = root
        self.components = {component["bom-ref"]: component for component in components}
        self.dependencies = {}
        for dependency in dependencies:
            self.depends(dependency["ref"], dependency.get("dependsOn", []))

    def depends(self, reference, on):
        self.dependencies.setdefault(reference, set()).update(on)

    def add(self, component, of):
        self.components[component["bom-ref"]] = component
        self.depends(of, [component["bom-ref"]])

    def include(self, other, of):
        """Adds what another SBOM is about, with everything in it."""
        self.components |= other.components
        for reference, on in other.dependencies.items():
            self.depends(reference, on)
        self.add(other.root, of)

    def write(self, file):
        epoch = int(os.environ["SOURCE_DATE_EPOCH"])
        everything = {self.root["bom-ref"], *self.components}
        document = {
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": {
                "timestamp": datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "tools": [TOOL],
                "component": self.root,
            },
            "components": [component for _, component in sorted(self.components.items())],
            "dependencies": [
                {"ref": reference, "dependsOn": sorted(self.dependencies.get(reference, ()))}
                for reference in sorted(everything)
            ],
        }
        with open(file, "w", encoding="utf-8") as opened:
            json.dump(document, opened, indent=2)
            opened.write("\n")


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def hashes(digest):
    return [{"alg": "SHA-256", "content": digest}]


def read(*path):
    with open(os.path.join(*path), "rb") as opened:
        return opened.read()


def program(name, crates, dist):
    """`name`: `limpet.wasm`, or `x86_64/limpet`."""
    arch, _, file = name.rpartition("/")
    text = read(crates, f"{name}.json").decode()
    if arch:
        # An image has the program of each architecture, by references of their own.
        reference = json.loads(text)["metadata"]["component"]["bom-ref"]
        text = text.replace(f'"{reference}', f'"{arch} {reference}')
    said = json.loads(text)
    root = said["metadata"]["component"]
    root["hashes"] = hashes(sha256(read(dist, name)))
    bom = Bom(root, said["components"], said["dependencies"])
    for library in native()[file]:
        bom.add(library, root["bom-ref"])
    return bom


def layout(archive):
    """The digest of an image, and the files in it by their paths; of an index, by architecture and path."""
    with tarfile.open(archive) as opened:
        blobs = {member.name: opened.extractfile(member).read() for member in opened if member.isfile()}

        def blob(descriptor):
            return blobs["blobs/" + descriptor["digest"].replace(":", "/")]

        descriptor = json.loads(blobs["index.json"])["manifests"][0]
        content = json.loads(blob(descriptor))
        images = [("", content)]
        if "manifests" in content:
            images = [(image["platform"]["architecture"], json.loads(blob(image))) for image in content["manifests"]]
        files = {}
        for architecture, manifest in images:
            for layer in manifest["layers"]:
                title = layer.get("annotations", {}).get("org.opencontainers.image.title")
                if title:
                    files[architecture, title] = blob(layer)
                    continue
                with tarfile.open(fileobj=io.BytesIO(blob(layer))) as inner:
                    for member in inner:
                        if member.isfile():
                            files[architecture, member.name] = inner.extractfile(member).read()
    return descriptor["digest"], files


def image(name, version, archive, programs):
    """Of an image, what its layers have, and of a program among these all that is in the program."""
    digest, files = layout(archive)
    reference = f"pkg:oci/{name}@{digest.replace(':', '%3A')}?tag={version}"
    root = {
        "type": "container",
        "bom-ref": reference,
        "name": name,
        "version": version,
        "hashes": hashes(digest.removeprefix("sha256:")),
        "licenses": [{"expression": "Apache-2.0"}],
        "purl": reference,
    }
    bom = Bom(root)
    known = {program.root["hashes"][0]["content"]: program for program in programs}
    for (architecture, path), content in sorted(files.items()):
        found = sha256(content)
        file = {"type": "file", "bom-ref": f"file:/{path}", "name": f"/{path}", "hashes": hashes(found)}
        if architecture:
            file["bom-ref"] += f"?arch={architecture}"
            file["properties"] = [{"name": "limpet:architecture", "value": architecture}]
        bom.add(file, reference)
        if found in known:
            bom.include(known[found], file["bom-ref"])
    return bom


def chart(version):
    """Of the chart, the images that it runs if nobody says otherwise."""
    repository = re.search(r"^image:\n(?:.*\n)*?  repository: (\S+)$", read(CHART, "values.yaml").decode(), re.M)[1]
    envoy = re.search(r'envoy_image: "([^"]+)"', read("controller/outputs/src/envoy/managed.rs").decode())[1]
    root = {
        "type": "application",
        "bom-ref": f"pkg:helm/limpet@{version}",
        "name": "limpet",
        "version": version,
        "description": "The Helm chart",
        "licenses": [{"expression": "Apache-2.0"}],
        "purl": f"pkg:helm/limpet@{version}",
    }
    bom = Bom(root)
    for reference in f"{repository}:{version}", envoy:
        name, tag = reference.rsplit(":", 1)
        purl = f"pkg:docker/{name}@{tag}"
        bom.add(
            {"type": "container", "bom-ref": purl, "name": name, "version": tag, "scope": "required", "purl": purl},
            root["bom-ref"],
        )
    return bom


def main():
    if len(sys.argv) != 6:
        sys.exit("usage: sbom.py RELEASE VERSION ARCHES CRATES DIST")
    release, version, arches, crates, dist = sys.argv[1:]
    names = {"limpet.wasm": f"limpet-wasm-{version}"}
    for arch in arches.split():
        names[f"{arch}/limpet"] = f"limpet-{version}-linux-{arch}"
        names[f"{arch}/liblimpet.so"] = f"limpet-module-{version}-linux-{arch}"
    programs = {name: program(name, crates, dist) for name in names}
    boms = {names[name]: bom for name, bom in programs.items()}
    for name in "limpet", "limpet-wasm", "limpet-wasm-compat":
        archive = os.path.join(release, f"{name}-{version}.oci.tar")
        boms[f"{name}-{version}.oci"] = image(name, version, archive, programs.values())
    boms[f"limpet-chart-{version}"] = chart(version)
    for name, bom in boms.items():
        bom.write(os.path.join(release, f"{name}.cdx.json"))


main()
