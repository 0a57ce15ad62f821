# SPDX-License-Identifier: Apache-2.0
"""What single variables of an installation file may be: each check returns what was expected, or "" for a good value.

The values end up in three languages (kickstart, debconf's preseed, shell). What can be refused without loss is limited
to characters that mean nothing in any of them; keys of people, whose comments are free text, are quoted instead.
"""

from __future__ import annotations

import base64
import binascii
import functools
import ipaddress
import re
import zoneinfo
from collections.abc import Callable, Sequence

Check = Callable[[str], str]

LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
HOST_NAME = re.compile(rf"(?=.{{1,253}}\Z){LABEL}(\.{LABEL})*")
DISK = re.compile(r"/dev/disk/by-id/[A-Za-z0-9][A-Za-z0-9._:+=-]*")
PARTITION = re.compile(r"-part[0-9]+")
INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}")
MAC = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")
# By these names an installer chooses an interface itself.
CHOSEN = ("auto", "link", "bootif", "ibft")
ACCOUNT = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
ADDRESS = re.compile(rf"(https?)://([^/@]*@)?({LABEL}(?:\.{LABEL})*)(:[0-9]{{1,5}})?(/[A-Za-z0-9._~/+%:-]*)?")
# crypt(5): SHA-256, SHA-512, bcrypt, yescrypt.
PASSWORD_HASH = re.compile(r"\$(5|6|y|2[aby])\$[./0-9A-Za-z$=,]{20,200}")
RELEASE = re.compile(r"[0-9]+(\.[0-9]+)?")
KERNEL = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+-[0-9A-Za-z._+-]+")
LANGUAGE = re.compile(r"[a-z]{2,3}_[A-Z]{2}\.UTF-8")
KEYBOARD = re.compile(r"[a-z][a-z0-9_-]{1,30}")
PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._:-]*")
OPTIONS = re.compile(r"[a-z][a-z0-9_]*(=[A-Za-z0-9._:-]+)?(,[a-z][a-z0-9_]*(=[A-Za-z0-9._:-]+)?)*")
FOLDER = re.compile(r"(/[A-Za-z0-9_][A-Za-z0-9._-]*)+")
SYSTEM_FOLDERS = ("bin", "boot", "dev", "etc", "lib", "lib64", "proc", "root", "run", "sbin", "sys", "tmp", "usr")
# Their content belongs to the system or to its users; a folder below them may be a file system of its own.
FULL_FOLDERS = ("/home", "/media", "/mnt", "/opt", "/srv", "/var")
COMMIT = re.compile(r"[0-9a-f]{40}")
RELATIVE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*")
KEY_TYPES = re.compile(r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-[a-z0-9-]+@openssh\.com)")


def matches(pattern: re.Pattern[str], expected: str) -> Check:
    return lambda value: "" if pattern.fullmatch(value) else expected


def disk(value: str) -> str:
    expected = "a whole disk by its id, such as /dev/disk/by-id/nvme-MODEL_SERIAL; `ls -l /dev/disk/by-id` shows them"
    if re.fullmatch(r"(/dev/)?(sd[a-z]+|nvme[0-9]+n[0-9]+|vd[a-z]+|hd[a-z]+)", value):
        return f"{expected}. Names such as sda and nvme0n1 can belong to another disk at the next start"
    if not DISK.fullmatch(value) or PARTITION.search(value):
        return expected
    return ""


def interface(value: str) -> str:
    if value in CHOSEN or not (INTERFACE.fullmatch(value) or MAC.fullmatch(value)):
        return "the name of a network interface, such as eno1, or its MAC address"
    return ""


def mirror(value: str) -> str:
    found = ADDRESS.fullmatch(value)
    if found and found[2]:
        return "an address without a login, which everybody who gets the file could read"
    return "" if found else "an address such as https://mirror.example.com/path/"


def account(value: str) -> str:
    if value == "root" or not ACCOUNT.fullmatch(value):
        return "the name of an account other than root, whose login is locked, such as admin"
    return ""


@functools.cache
def _time_zones() -> frozenset[str]:
    """Those of this machine, none if it has no time zone database."""
    return frozenset(zoneinfo.available_timezones())


def timezone(value: str) -> str:
    known = _time_zones()
    plain = re.fullmatch(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*", value)
    return "" if plain and (value in known or not known) else "a name of the time zone database, such as Europe/Berlin"


def address(value: str) -> str:
    """An IPv4 address with the length of its network's prefix."""
    expected = "an IPv4 address with its prefix, such as 192.0.2.10/24"
    try:
        found = ipaddress.IPv4Interface(value)
    except ValueError:
        return expected
    ends = (found.network.network_address, found.network.broadcast_address)
    wrong = "/" not in value or found.network.prefixlen < 31 and found.ip in ends
    return f"{expected}, of a host" if wrong else ""


def gateway(value: str, own: str) -> str:
    """`own` is the host's address with its prefix; with a wrong one, nothing is said about the network."""
    try:
        found = ipaddress.IPv4Address(value)
    except ValueError:
        return "an IPv4 address, such as 192.0.2.1"
    if address(own) or found in ipaddress.IPv4Interface(own).network and found != ipaddress.IPv4Interface(own).ip:
        return ""
    return f"another address of the network of {own}"


def name_server(value: str) -> str:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return "the IP address of a name server, such as 192.0.2.53"
    return ""


def folder(value: str) -> str:
    parts = value.split("/")
    if not FOLDER.fullmatch(value) or parts[1] in SYSTEM_FOLDERS or value in FULL_FOLDERS:
        return "the absolute path of a folder of its own, such as /scratch, without blanks and signs"
    return ""


def public_key(value: str) -> str:
    """A line of authorized_keys without options; the type is compared with the one inside the key (RFC 4253, 6.6)."""
    expected = "a public key in one line, as in ~/.ssh/id_ed25519.pub: type, key, comment"
    if "PRIVATE KEY" in value:
        return f"{expected}. This is a private key, which belongs in no inventory"
    words = value.split(" ", 2)
    if len(words) < 2 or not KEY_TYPES.fullmatch(words[0]) or _type_inside(words[1]) != words[0]:
        return expected
    if not value.isascii() or not value.isprintable() or "\\" in value:
        return f"{expected}. Its comment may have printable ASCII without backslashes"
    return ""


def _type_inside(text: str) -> str:
    try:
        blob = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ""
    length = int.from_bytes(blob[:4], "big")
    return blob[4 : 4 + length].decode("ascii", "replace") if len(blob) > 4 + length else ""


def relative(value: str) -> str:
    plain = RELATIVE.fullmatch(value) and ".." not in value.split("/")
    return "" if plain else "a path inside the repository, such as site.yml"


def each(values: Sequence[object], check: Check) -> str:
    """What the first wrong element of a list should be, "" if all are right; elements of another type are wrong too."""
    for value in values:
        said = check(value if isinstance(value, str) else "")
        if said:
            return said
    return ""
