#!/usr/bin/env python3
"""A second implementation of the wrapped keyring, written from docs/reference/keyring.md alone.

It checks the vectors in this folder and needs only the standard library of Python:
    python3 filter/core/tests/verify_keyring_vectors.py
It fails if an answer differs from the vectors.
"""

import hmac
import json
import sys

from verify_vectors import (
    VECTORS,
    Refused,
    base64url_decode,
    base64url_encode,
    hkdf_sha256,
    outcome,
    report,
    spoil_word,
)

VERSION = 0x81
HEAD, TAG, ENTRY = 2, 16, 34
STATES = ["signing", "verifying", "retiring", "revoked"]
NO_KEY = bytes(32)


def tag_of(secret, head, clear):
    return hmac.digest(hkdf_sha256(secret, b"limpet keyring v1 mac"), head + clear, "sha256")[:TAG]


def cipher(secret, tag, data):
    """Encrypts and decrypts: both are the same exclusive or."""
    key = hkdf_sha256(secret, b"limpet keyring v1 encipher")
    blocks = range((len(data) + 31) // 32)
    stream = b"".join(hmac.digest(key, tag + block.to_bytes(4, "big"), "sha256") for block in blocks)
    return bytes(left ^ right for left, right in zip(data, stream))


def wrap(entries, key_id, secret):
    """`entries`: (id, state, key) in any order. The key of a revoked one is `NO_KEY`."""
    clear = b"".join(bytes([id, STATES.index(state)]) + key for id, state, key in sorted(entries))
    head = bytes([VERSION, key_id])
    tag = tag_of(secret, head, clear)
    return base64url_encode(head + tag + cipher(secret, tag, clear))


def unwrap(text, key_encryption_keys):
    raw = base64url_decode(text)
    entries, rest = divmod(len(raw) - HEAD - TAG, ENTRY)
    if not 1 <= entries <= 256 or rest or raw[0] != VERSION:
        raise Refused("malformed")
    head, tag, body = raw[:HEAD], raw[HEAD : HEAD + TAG], raw[HEAD + TAG :]
    if head[1] not in key_encryption_keys:
        raise Refused("unknown_key")
    secret = key_encryption_keys[head[1]]
    clear = cipher(secret, tag, body)
    if not hmac.compare_digest(tag, tag_of(secret, head, clear)):
        raise Refused("bad_signature")
    opened = []
    for at in range(0, len(clear), ENTRY):
        id, state, key = clear[at], clear[at + 1], clear[at + 2 : at + ENTRY]
        if state >= len(STATES) or opened and opened[-1][0] >= id:
            raise Refused("unknown_entries")
        if STATES[state] == "revoked" and key != NO_KEY:
            raise Refused("unknown_entries")
        opened.append((id, STATES[state], key))
    return opened


# The vectors


def key_encryption_keys_of(entry):
    return {entry["keyId"]: bytes.fromhex(entry["secret"])}


def entries_of(entry):
    return [(key["id"], key["state"], bytes.fromhex(key.get("secret", NO_KEY.hex()))) for key in entry["keys"]]


def check_valid(entry):
    problems = []
    keys = entries_of(entry)
    wrapped = wrap(keys, entry["keyId"], bytes.fromhex(entry["secret"]))
    if wrapped != entry["text"]:
        problems.append(f"wraps to {wrapped}, expected {entry['text']}")
    try:
        opened = unwrap(entry["text"], key_encryption_keys_of(entry))
    except Refused as refused:
        return problems + [f"refused: {refused}"]
    if opened != sorted(keys):
        problems.append(f"opens to {opened}, expected {sorted(keys)}")
    return problems


def check_refused(entry):
    got = outcome(lambda: unwrap(entry["text"], key_encryption_keys_of(entry)))
    return [] if got == entry["refusal"] else [f"{got}, expected {entry['refusal']}"]


# The self-check: unless this script finds wrong expectations, it proves nothing.


def spoil_valid(entry):
    last = entry["text"][-1:]
    yield "text", entry["text"][:-1] + ("A" if last != "A" else "E")
    yield "text", entry["text"] + "A"
    yield "keyId", entry["keyId"] ^ 1
    yield "secret", f"{int(entry['secret'], 16) ^ 1:064x}"
    first, rest = entry["keys"][0], entry["keys"][1:]
    free = min(set(range(256)) - {key["id"] for key in entry["keys"]}, default=first["id"])
    if free != first["id"]:
        yield "keys", [first | {"id": free}] + rest
    yield "keys", [first | {"state": STATES[STATES.index(first["state"]) - 1]}] + rest
    yield "keys", [first | {"secret": f"{int(first.get('secret', '0'), 16) ^ 1:064x}"}] + rest
    yield "keys", rest


def main():
    keyrings = json.loads((VECTORS / "keyring-v1.json").read_text())
    refusals = ["ok", "malformed", "unknown_key", "bad_signature", "unknown_entries"]
    return report(
        [
            ("wrapped", keyrings["valid"], check_valid, spoil_valid),
            ("refused", keyrings["refused"], check_refused, spoil_word("refusal", refusals)),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
