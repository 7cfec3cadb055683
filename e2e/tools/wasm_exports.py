#!/usr/bin/env python3
"""Prints the names of the functions that a .wasm file exports, sorted, one per line."""

import sys


def leb128(data, pos):
    """An unsigned LEB128 number at pos, and the position after it."""
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, pos


def exported_functions(data):
    """Names in the export section (id 7) whose kind is function (0)."""
    if data[:8] != b"\0asm\1\0\0\0":
        raise ValueError("not a WebAssembly 1.0 binary")
    pos = 8
    while pos < len(data):
        section = data[pos]
        size, pos = leb128(data, pos + 1)
        if section == 7:
            count, pos = leb128(data, pos)
            for _ in range(count):
                length, pos = leb128(data, pos)
                name, kind = data[pos : pos + length].decode(), data[pos + length]
                _, pos = leb128(data, pos + length + 1)
                if kind == 0:
                    yield name
            return
        pos += size


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        print("\n".join(sorted(exported_functions(file.read()))))
