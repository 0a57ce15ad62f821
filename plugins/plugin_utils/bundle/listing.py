# SPDX-License-Identifier: Apache-2.0
"""The list of a bundle, `bundle.json`: for which plans it is, when it ends, and every file with its size and SHA-256.

The list is what is signed; the files are held to it. It is read strictly: what it says becomes paths on nodes.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

FORMAT = 1
LIST = "bundle.json"
SIGNATURE = "bundle.json.sig"
TIME = "%Y-%m-%dT%H:%M:%SZ"
# Longer lists are no lists: 200 000 files have less.
MOST_BYTES = 64 * 1024 * 1024
SHA256 = re.compile(r"[0-9a-f]{64}")
# What rpm, dpkg, wheels and keys have in their names; no blank, no backslash, no leading dot, no control character.
PART = re.compile(r"[A-Za-z0-9_~+=@%^:,!()\[\]-][A-Za-z0-9._~+=@%^:,!()\[\]-]*")
MADE_AGAIN = "Make it again on a connected machine: ansible-playbook playbooks/bundle.yml"


class BundleError(Exception):
    """Why a bundle is not used: the fault's id, what is wrong, what was seen, and what to do next."""

    def __init__(self, fault: str, problem: str, seen: str = "", step: str = MADE_AGAIN) -> None:
        super().__init__(f"{problem}{f' (seen: {seen})' if seen else ''}. next: {step} [{fault}]")
        self.row = {"id": fault, "problem": problem, "evidence": seen, "next": step, "stops": True}


class Entry(NamedTuple):
    """Size in bytes, and SHA-256 in hex digits, of one file."""

    size: int
    sha256: str


class Listing(NamedTuple):
    """A bundle's list.

    files    by path relative to the bundle's folder
    hosts    by name: {plan, digest, target, wheels}
    targets  by name of a release: {repositories, folder}
    """

    made_at: datetime.datetime
    expires: datetime.datetime
    toolkit: str
    files: dict[str, Entry]
    hosts: dict[str, dict[str, Any]]
    targets: dict[str, dict[str, Any]]


def is_safe(path: object) -> bool:
    """Whether it is a relative path of plain names: no "..", nothing absolute, nothing hidden."""
    return isinstance(path, str) and all(PART.fullmatch(part) for part in path.split("/"))


def text_of(listing: Listing) -> str:
    """The list as it is signed: the same bytes for the same list."""
    data = {
        "format": FORMAT,
        "made_at": listing.made_at.strftime(TIME),
        "expires": listing.expires.strftime(TIME),
        "toolkit": listing.toolkit,
        "hosts": listing.hosts,
        "targets": listing.targets,
        "files": {path: entry._asdict() for path, entry in listing.files.items()},
    }
    return json.dumps(data, sort_keys=True, indent=1, ensure_ascii=True) + "\n"


def read_listing(data: bytes) -> Listing:
    """The list from its bytes, whose signature is good. Raises BundleError for anything that is not one."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _no_list(f"{LIST} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise _no_list(f"{LIST} is not an object")
    if found.get("format") != FORMAT:
        raise BundleError(
            "bundle.format",
            f"The bundle has format {found.get('format')!r}, and this toolkit reads format {FORMAT}",
            f"{LIST}: made by gpuwright {found.get('toolkit')}",
            "Use the release of the toolkit that made the bundle (it is in the bundle, below collection/), or make the "
            "bundle again with this one: ansible-playbook playbooks/bundle.yml",
        )
    try:
        return _listing(found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _no_list(f"{LIST}: {type(error).__name__} {error}") from None


def _listing(found: Mapping[str, Any]) -> Listing:
    files = {}
    for path, row in found["files"].items():
        if not is_safe(path) or path in (LIST, SIGNATURE):
            raise ValueError(f"the path {path!r} leaves the bundle, or has characters that no file of a bundle has")
        size, digest = row["size"], row["sha256"]
        if not isinstance(size, int) or isinstance(size, bool) or size < 0 or not SHA256.fullmatch(digest):
            raise ValueError(f"{path} has no size or no SHA-256")
        files[path] = Entry(size, digest)
    hosts, targets = dict(found["hosts"]), dict(found["targets"])
    for name, host in hosts.items():
        missing = [path for path in host["wheels"] if path not in files]
        if missing or host["target"] not in targets or not SHA256.fullmatch(host["digest"]):
            raise ValueError(f"the host {name} names files or a release that are not in the bundle: {missing}")
    for name, target in targets.items():
        if not is_safe(target["folder"]):
            raise ValueError(f"the folder of {name} is {target['folder']!r}")
        for row in target["repositories"]:
            if not is_safe(row["folder"]) or f"{row['folder']}/repodata/repomd.xml" not in files:
                raise ValueError(f"a repository of {name} is not in the bundle: {row['folder']!r}")
    made_at, expires = (
        datetime.datetime.strptime(found[name], TIME).replace(tzinfo=datetime.timezone.utc)
        for name in ("made_at", "expires")
    )
    return Listing(made_at, expires, str(found["toolkit"]), files, hosts, targets)


def _no_list(seen: str) -> BundleError:
    return BundleError("bundle.list", "The bundle's list is signed, but cannot be used", seen)
