# SPDX-License-Identifier: Apache-2.0
"""Repositories that the toolkit relies on, and whether what a file names is one of them, however it is written."""

import re
import urllib.parse
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

from ..packages.repositories import KEY_FILES

# Where each family's package manager has a repository of ours, and its key.
FILES = {"redhat": "/etc/yum.repos.d/{}.repo", "debian": "/etc/apt/sources.list.d/{}.sources"}
# Ports that a scheme has anyway.
PORTS = re.compile(r":(80|443)?$")
# https is a safer way to the same place, and apt copies a file where dnf reads it.
SAME = {"https": "http", "copy": "file"}
# What NVIDIA's local installers unpack: the same packages, frozen, under a key of their own.
LOCAL = re.compile(r"file:///(.*/)?(cuda-repo|nvidia-driver-local-repo)-[^/]+")
NVIDIA = "cuda-"


class Relied(NamedTuple):
    """A repository as the inventory wants it.

    id    dnf's section, and the name of our file         file, key_file  that file, and the one of its key
    url   its address, without a login                    also  the vendor's own address, where `url` is a mirror
    fingerprint  of its key                               packages_signed, metadata_signed  what the vendor signs (dnf)
    """

    id: str
    url: str
    also: str
    file: str
    key_file: str
    fingerprint: str
    packages_signed: bool
    metadata_signed: bool


class Entry(NamedTuple):
    """What one file names as a source, as its package manager reads it.

    line, last  of the file, from 1             id         dnf's section; "" with apt
    addresses   as `plain_address` has them     enabled    whether it is switched on
    values      settings, names in small letters, "uris" and "suites" as apt's files have them
    """

    path: str
    line: int
    last: int
    id: str
    addresses: Tuple[str, ...]
    enabled: bool
    values: Dict[str, str]

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"


def relied_of(row: Mapping[str, Any], family: str) -> Relied:
    """From `{id, url, also, fingerprint, packages_signed, metadata_signed}`; KeyError."""
    return Relied(
        str(row["id"]),
        str(row["url"]),
        str(row["also"]),
        FILES[family].format(row["id"]),
        KEY_FILES[family].format(row["id"]),
        str(row["fingerprint"]).replace(" ", "").upper(),
        bool(row["packages_signed"]),
        bool(row["metadata_signed"]),
    )


def plain_address(url: str) -> str:
    """One spelling of an address: without login, port, doubled or last slash, and http for https."""
    scheme, colon, rest = url.strip().partition(":")
    if not colon:
        return url.strip()
    # tor+https, mirror+file: another way to the same place.
    scheme = scheme.lower().rpartition("+")[2]
    scheme = SAME.get(scheme, scheme)
    host = ""
    if rest.startswith("//"):
        host, _slash, rest = rest[2:].partition("/")
        host = PORTS.sub("", host.rpartition("@")[2].lower()).rstrip(".")
    steps: List[str] = []
    for step in urllib.parse.unquote(re.split(r"[?#]", rest)[0]).split("/"):
        if step == "..":
            steps = steps[:-1]
        elif step not in ("", "."):
            steps.append(step)
    return f"{scheme}://{host}/{'/'.join(steps)}"


def is_relied(entry: Entry, relied: Relied) -> bool:
    """Whether an entry is this repository, by section or by address; one that is off can only be so by section."""
    if entry.id and entry.id == relied.id:
        return True
    return entry.enabled and any(is_address(address, relied) for address in entry.addresses)


def is_written(entry: Entry, relied: Relied) -> bool:
    """Whether we have written it: it is in our file, and trusts our key. Others may have had a file of that name."""
    key = entry.values.get("gpgkey" if entry.id else "signed-by", "")
    return (
        entry.path == relied.file
        and entry.id in ("", relied.id)
        and key in (relied.key_file, f"file://{relied.key_file}")
    )


def is_address(address: str, relied: Relied) -> bool:
    """Whether a plain address is one of this repository's, or of a local installer of its vendor."""
    own = {plain_address(url) for url in (relied.url, relied.also) if url}
    return address in own or (relied.id.startswith(NVIDIA) and LOCAL.fullmatch(address) is not None)
