#!/usr/bin/env python3
"""A second implementation of the token, written from docs/reference/token.md alone.

It checks the vectors in this folder and needs only the standard library of Python:
    python3 filter/core/tests/verify_vectors.py
It fails if an answer differs from the vectors.
"""

import copy
import hashlib
import hmac
import ipaddress
import json
import pathlib
import string
import sys
from dataclasses import dataclass

VECTORS = pathlib.Path(__file__).resolve().parent / "vectors"

FORMS = {0x10: "sealed", 0x11: "signed"}
FORM_BYTES = {name: byte for byte, name in FORMS.items()}
ALPHABET = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
HEAD, TAG = 2, 16
PAYLOAD_V4, PAYLOAD_V6 = 27, 39
KIND_IPV4, KIND_IPV6 = 0, 1


class Refused(Exception):
    """The token is not honoured; its text is the reason."""


# Text


def base64url_decode(text):
    """RFC 4648 section 5 without padding, bit by bit, because libraries are too lenient."""
    bits, count, out = 0, 0, bytearray()
    for character in text:
        value = ALPHABET.find(character)
        if value < 0:
            raise Refused("malformed")
        bits, count = bits << 6 | value, count + 6
        if count >= 8:
            count -= 8
            out.append(bits >> count)
            bits &= (1 << count) - 1
    if bits or count == 6:
        raise Refused("malformed")
    return bytes(out)


def base64url_encode(data):
    bits = "".join(f"{byte:08b}" for byte in data)
    bits += "0" * (-len(bits) % 6)
    return "".join(ALPHABET[int(bits[at : at + 6], 2)] for at in range(0, len(bits), 6))


# Keys, tag and sealing


def hkdf_sha256(secret, info, length=32):
    """RFC 5869 without a salt."""
    pseudorandom = hmac.digest(bytes(32), secret, "sha256")
    out, block, counter = b"", b"", 1
    while len(out) < length:
        block = hmac.digest(pseudorandom, block + info + bytes([counter]), "sha256")
        out, counter = out + block, counter + 1
    return out[:length]


@dataclass
class Realm:
    """Where a token is valid: what its tag covers besides its own bytes."""

    scope: str
    mode: str
    session_name: str

    def associated_data(self, head):
        fields = (self.scope, self.mode, self.session_name)
        encoded = (field.encode() for field in fields)
        return head + b"".join(len(field).to_bytes(2, "big") + field for field in encoded)


def tag_of(secret, realm, head, clear):
    mac_key = hkdf_sha256(secret, b"limpet token v1 mac")
    return hmac.digest(mac_key, realm.associated_data(head) + clear, "sha256")[:TAG]


def cipher(secret, tag, data):
    """Encrypts and decrypts: both are the same exclusive or."""
    key = hkdf_sha256(secret, b"limpet token v1 encipher")
    stream = b"".join(
        hmac.digest(key, tag + block.to_bytes(4, "big"), "sha256") for block in range((len(data) + 31) // 32)
    )
    return bytes(left ^ right for left, right in zip(data, stream))


# Payload


@dataclass
class Claims:
    host: str
    destination: bytes
    issued_at: int
    last_seen: int
    nonce: bytes


def host_to_bytes(host):
    address, _, port = host.rpartition(":")
    address = ipaddress.ip_address(address.strip("[]"))
    return address.packed, int(port).to_bytes(2, "big")


def destination_of(cluster):
    return hashlib.sha256(cluster.partition("#")[0].encode()).digest()[:4]


def encode_payload(claims):
    address, port = host_to_bytes(claims.host)
    kind = KIND_IPV6 if len(address) == 16 else KIND_IPV4
    times = claims.issued_at.to_bytes(6, "big") + claims.last_seen.to_bytes(6, "big")
    return bytes([kind]) + address + port + claims.destination + times + claims.nonce


def decode_payload(clear):
    """Only called for payloads that the tag has authenticated."""
    kind, v6 = clear[0], len(clear) == PAYLOAD_V6
    if kind != (KIND_IPV6 if v6 else KIND_IPV4):
        raise Refused("malformed")
    rest = clear[1:]
    address, rest = (rest[:16], rest[16:]) if v6 else (rest[:4], rest[4:])
    port = int.from_bytes(rest[:2], "big")
    # An address has several spellings, so do not compare its text.
    host = f"[{ipaddress.IPv6Address(address)}]:{port}" if v6 else f"{ipaddress.IPv4Address(address)}:{port}"
    return Claims(
        host=host,
        destination=rest[2:6],
        issued_at=int.from_bytes(rest[6:12], "big"),
        last_seen=int.from_bytes(rest[12:18], "big"),
        nonce=rest[18:22],
    )


# The token


def seal(keyring, key_id, form, realm, claims):
    head, clear = bytes([FORM_BYTES[form], key_id]), encode_payload(claims)
    tag = tag_of(keyring[key_id], realm, head, clear)
    body = cipher(keyring[key_id], tag, clear) if form == "sealed" else clear
    return base64url_encode(head + tag + body)


def open_token(keyring, realm, text):
    """Steps 1 to 3 of "Verification". Returns form, key id and claims."""
    if len(text) not in (60, 76):
        raise Refused("malformed")
    raw = base64url_decode(text)
    if raw[0] not in FORMS:
        raise Refused("malformed")
    form, key_id = FORMS[raw[0]], raw[1]
    if key_id not in keyring:
        raise Refused("unknown_key")
    head, tag, body = raw[:HEAD], raw[HEAD : HEAD + TAG], raw[HEAD + TAG :]
    clear = cipher(keyring[key_id], tag, body) if form == "sealed" else body
    if not hmac.compare_digest(tag, tag_of(keyring[key_id], realm, head, clear)):
        raise Refused("bad_signature")
    return form, key_id, decode_payload(clear)


@dataclass
class Rules:
    """The limits of a policy and the configuration for times, in milliseconds. None: not configured."""

    absolute_timeout: int | None
    idle_timeout: int | None
    max_idle: int
    clock_skew: int
    not_before: int | None = None

    def idle_bound(self):
        """None where the absolute timeout serves: a token is seen no earlier than issued, so it ends first."""
        if self.idle_timeout is None and self.absolute_timeout is not None:
            return None
        return self.max_idle if self.idle_timeout is None else self.idle_timeout


def check_times(rules, claims, now):
    """Steps 4 to 7 of "Verification". Counted in tenths, so that 1.1 times is exact."""
    if rules.absolute_timeout is not None and now - claims.issued_at >= rules.absolute_timeout:
        raise Refused("expired")
    if rules.idle_bound() is not None and 10 * (now - claims.last_seen) > 11 * rules.idle_bound():
        raise Refused("idle")
    if max(claims.issued_at, claims.last_seen) > now + rules.clock_skew:
        raise Refused("from_the_future")
    if rules.not_before is not None and rules.not_before > claims.issued_at:
        raise Refused("fenced")


def renewal_due(rules, claims, now):
    """Where the application moved the session, its backend has answered now."""
    if claims.last_seen < claims.issued_at:
        return True
    return rules.idle_bound() is not None and 10 * (now - claims.last_seen) > rules.idle_bound()


# The vectors


def same_host(left, right):
    return host_to_bytes(left) == host_to_bytes(right)


def realm_of(entry):
    return Realm(entry["scope"], entry["mode"], entry["sessionName"])


def keyring_of(entry):
    return {entry["keyId"]: bytes.fromhex(entry["secret"])}


def outcome(attempt):
    """"ok", or the reason of the refusal."""
    try:
        attempt()
    except Refused as refused:
        return str(refused)
    return "ok"


def check_valid(entry):
    problems = []
    claims = Claims(
        host=entry["host"],
        destination=bytes.fromhex(entry["destination"]),
        issued_at=entry["issuedAt"],
        last_seen=entry["lastSeen"],
        nonce=bytes.fromhex(entry["nonce"]),
    )
    if destination_of(entry["cluster"]) != claims.destination:
        problems.append("the destination is not that of the cluster")
    sealed = seal(keyring_of(entry), entry["keyId"], entry["form"], realm_of(entry), claims)
    if sealed != entry["token"]:
        problems.append(f"seals to {sealed}, expected {entry['token']}")
    try:
        form, key_id, opened = open_token(keyring_of(entry), realm_of(entry), entry["token"])
    except Refused as refused:
        return problems + [f"refused: {refused}"]
    if (form, key_id) != (entry["form"], entry["keyId"]):
        problems.append(f"opens as {form} under key {key_id}")
    if not same_host(opened.host, claims.host):
        problems.append(f"opens to the host {opened.host}")
    opened.host = claims.host
    if opened != claims:
        problems.append(f"opens to {opened}, expected {claims}")
    return problems


def check_refused(entry):
    got = outcome(lambda: open_token(keyring_of(entry), realm_of(entry), entry["token"]))
    return [] if got == entry["refusal"] else [f"{got}, expected {entry['refusal']}"]


def check_time(entry):
    rules = Rules(
        absolute_timeout=entry.get("absoluteTimeout"),
        idle_timeout=entry.get("idleTimeout"),
        max_idle=entry["maxIdle"],
        clock_skew=entry["clockSkew"],
        not_before=entry.get("notBefore"),
    )
    claims = Claims("192.0.2.1:80", bytes(4), entry["issuedAt"], entry["lastSeen"], bytes(4))
    got = outcome(lambda: check_times(rules, claims, entry["now"]))
    if got == "ok" and renewal_due(rules, claims, entry["now"]):
        got = "renewed"
    return [] if got == entry["outcome"] else [f"{got}, expected {entry['outcome']}"]


def check_renewal(entry):
    form, key_id, claims = open_token(keyring_of(entry), realm_of(entry), entry["token"])
    claims.last_seen = max(claims.last_seen, entry["now"])
    renewed = seal(keyring_of(entry), key_id, form, realm_of(entry), claims)
    return [] if renewed == entry["renewed"] else [f"renewed as {renewed}, expected {entry['renewed']}"]


def run(check, entries):
    """Every problem of a group, with its entry."""
    found = []
    for at, entry in enumerate(entries):
        label = entry.get("why", entry.get("host", "")) or "no label"
        found += [f"entry {at} ({label}): {problem}" for problem in check(entry)]
    return found


# The self-check: unless this script finds wrong expectations, it proves nothing.


def spoil_valid(entry):
    other = {"sealed": "signed", "signed": "sealed"}
    last = entry["token"][-1:]
    yield "token", entry["token"][:-1] + ("A" if last != "A" else "E")
    yield "form", other[entry["form"]]
    yield "keyId", entry["keyId"] ^ 1
    yield "host", "198.51.100.1:1"
    yield "destination", f"{int(entry['destination'], 16) ^ 1:08x}"
    yield "cluster", "x" + entry["cluster"]
    yield "issuedAt", entry["issuedAt"] ^ 1
    yield "lastSeen", entry["lastSeen"] ^ 1
    yield "nonce", f"{int(entry['nonce'], 16) ^ 1:08x}"
    yield "scope", entry["scope"] + "x"
    yield "mode", "header" if entry["mode"] == "cookie" else "cookie"
    yield "sessionName", entry["sessionName"] + "x"
    yield "secret", f"{int(entry['secret'], 16) ^ 1:064x}"


def spoil_renewal(entry):
    yield "now", entry["now"] + 1
    yield "renewed", entry["token"]


def spoil_word(field, words):
    return lambda entry: ((field, word) for word in words if word != entry[field])


def undetected(check, spoil, entries):
    """The wrong expectations that `check` does not find, and how many were tried."""
    missed, tried = [], 0
    for at, entry in enumerate(entries):
        for field, value in spoil(entry):
            spoiled = copy.deepcopy(entry)
            spoiled[field] = value
            tried += 1
            if not check(spoiled):
                missed.append(f"entry {at}: a wrong {field} went unnoticed")
    return missed, tried


def report(groups):
    """Runs the groups (name, entries, check, spoil), prints the results, and returns the exit code."""
    failed = False
    for name, entries, check, spoil in groups:
        problems = run(check, entries) if entries else ["the group is empty"]
        missed, tried = undetected(check, spoil, entries)
        failed = failed or bool(problems or missed)
        verdict = "FAILED" if problems or missed else "ok"
        print(f"{name}: {verdict}, {len(entries)} entries as expected, {tried} wrong expectations noticed"
              if verdict == "ok" else f"{name}: {verdict}")
        for problem in problems + missed:
            print(f"  {problem}", file=sys.stderr)
    print("The vectors FAILED." if failed else "All vectors hold in the second implementation.")
    return 1 if failed else 0


def main():
    tokens = json.loads((VECTORS / "token-v1.json").read_text())
    modes = json.loads((VECTORS / "token-v1-modes.json").read_text())
    times = json.loads((VECTORS / "times-v1.json").read_text())
    refusals = ["ok", "malformed", "unknown_key", "bad_signature"]
    outcomes = ["ok", "renewed", "expired", "idle", "from_the_future", "fenced"]
    return report(
        [
            ("valid", tokens["valid"], check_valid, spoil_valid),
            ("valid, further modes", modes["valid"], check_valid, spoil_valid),
            ("refused", tokens["refused"], check_refused, spoil_word("refusal", refusals)),
            ("renewals", times["renewals"], check_renewal, spoil_renewal),
            ("times", times["cases"], check_time, spoil_word("outcome", outcomes)),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
