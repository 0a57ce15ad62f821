# SPDX-License-Identifier: Apache-2.0
"""X.509 certificates in DER, as firmware and DKMS store them: finds their owners without OpenSSL (RFC 5280, X.690)."""

import hashlib
from typing import Iterator, List, Tuple

SEQUENCE, INTEGER, OCTETS, OID, UTF16, EXTENSIONS = 0x30, 0x02, 0x04, 0x06, 0x1E, 0xA3
COMMON_NAME = b"\x55\x04\x03"
SUBJECT_KEY_IDENTIFIER = b"\x55\x1d\x0e"
# For the person who confirms a key at the console: shim shows no other digest. Nothing of ours depends on it.
FIRMWARE_SHOWS = "sha1"


def plain(number: str) -> str:
    """A certificate's number in hexadecimal digits only, without leading zeros, so that all spellings become equal."""
    number = number.lower()
    digits = number[2:] if number.startswith("0x") else number
    return "".join(letter for letter in digits if letter in "0123456789abcdef").lstrip("0")


def digest(certificate: bytes) -> str:
    """The digest by which we recognise a certificate."""
    return hashlib.sha256(certificate).hexdigest()


def fingerprint(certificate: bytes) -> str:
    """The one thing that MokManager and mokutil show of it: "62:8f:4f..."; "" if that digest is forbidden."""
    try:
        digits = hashlib.new(FIRMWARE_SHOWS, certificate).hexdigest()
    except ValueError:
        return ""
    return ":".join(digits[place : place + 2] for place in range(0, len(digits), 2))


def describe_certificate(data: bytes) -> dict:
    """`{name, numbers}` of a certificate: its issuer's common name, its serial number and key identifier as `plain`.

    modinfo names a signer by these. Raises ValueError if the bytes are not a certificate.
    """
    certificate = _parts(_one(data, SEQUENCE))
    fields = _parts(_value(certificate, 0, SEQUENCE))
    # The version comes before the serial number, except in certificates of version 1.
    first = 0 if fields and fields[0][0] == INTEGER else 1
    numbers = [_value(fields, first, INTEGER)]
    name = _common_name(_value(fields, first + 2, SEQUENCE))
    identifiers = [_key_identifier(value) for tag, value in fields if tag == EXTENSIONS]
    numbers += [identifier for identifier in identifiers if identifier]
    return {"name": name, "numbers": [plain(number.hex()) for number in numbers]}


def _common_name(name: bytes) -> str:
    for _tag, group in _items(name):
        for _tag, pair in _items(group):
            parts = _parts(pair)
            if len(parts) == 2 and parts[0] == (OID, COMMON_NAME):
                return parts[1][1].decode("utf-16-be" if parts[1][0] == UTF16 else "utf-8", "replace")
    return ""


def _key_identifier(extensions: bytes) -> bytes:
    for _tag, extension in _items(_one(extensions, SEQUENCE)):
        parts = _parts(extension)
        if parts and parts[0] == (OID, SUBJECT_KEY_IDENTIFIER):
            return _one(_value(parts, len(parts) - 1, OCTETS), OCTETS)
    return b""


def _one(data: bytes, tag: int) -> bytes:
    return _value(_parts(data), 0, tag)


def _value(parts: List[Tuple[int, bytes]], place: int, tag: int) -> bytes:
    if place >= len(parts) or parts[place][0] != tag:
        raise ValueError("this is not an X.509 certificate in DER")
    return parts[place][1]


def _parts(data: bytes) -> List[Tuple[int, bytes]]:
    return list(_items(data))


def _items(data: bytes) -> Iterator[Tuple[int, bytes]]:
    """Tag and content of each element."""
    place = 0
    while place < len(data):
        if place + 2 > len(data):
            raise ValueError("the certificate ends within a length")
        tag, size = data[place], data[place + 1]
        place += 2
        if size & 0x80:
            count = size & 0x7F
            size = int.from_bytes(data[place : place + count], "big")
            place += count
        if place + size > len(data):
            raise ValueError("the certificate ends within an element")
        yield tag, data[place : place + size]
        place += size
