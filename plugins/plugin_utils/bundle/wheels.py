# SPDX-License-Identifier: Apache-2.0
"""The wheels of lock files, for a node's Python: which are there, how much is missing, and their download by hash.

A part of a large wheel is continued where it ended; a file that the lock file does not name is never kept.
"""

from __future__ import annotations

import functools
import hashlib
import http.client
import re
import shutil
import urllib.error
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.module_utils.host.whole_file import sync_file, sync_folder
from ansible_collections.gpuwright.node.plugins.module_utils.packages.addresses import open_address, without_login
from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from ..package_lock import PLATFORMS, holds
from .index import Link, Sources, links, local_path
from .listing import BundleError

# Name, version, perhaps a marker after a semicolon, hashes.
REQUIREMENT = re.compile(
    r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s\\;]+)([^\\\n]*)((?:[\s\\]*--hash=sha256:[0-9a-f]{64})+)", re.MULTILINE
)
HASH = re.compile(r"sha256:([0-9a-f]{64})")
BLOCK_BYTES = 1024 * 1024
PART = ".part"


class Wanted(NamedTuple):
    """One line of a lock file: any wheel that has one of the hashes and fits the Python."""

    name: str
    version: str
    hashes: frozenset[str]
    python: str


class Found(NamedTuple):
    """Where a wheel is, and its size in bytes, 0 if nobody says it."""

    wanted: Wanted
    link: Link
    size: int


def read_lock(text: str, python: str) -> list[Wanted]:
    """Every locked package that this Python needs."""
    return [
        Wanted(canonicalize_name(name), version, frozenset(HASH.findall(hashes)), python)
        for name, version, marker, hashes in REQUIREMENT.findall(text)
        if holds(Requirement(f"{name}{marker}"), python, ())
    ]


@functools.cache
def tags_of(python: str) -> dict[Tag, int]:
    """Which wheels a node with this Python takes, the best first."""
    version = [int(part) for part in python.split(".")]
    interpreter = f"cp{''.join(python.split('.'))}"
    tags = [*cpython_tags(version, platforms=PLATFORMS), *compatible_tags(version, interpreter, PLATFORMS)]
    return {tag: rank for rank, tag in reversed(list(enumerate(tags)))}


def rank_of(file: str, wanted: Wanted) -> int | None:
    """How well a file of this name serves, 0 the best; None if it does not."""
    try:
        name, version, _build, tags = parse_wheel_filename(file)
    except InvalidWheelFilename:
        return None
    known = tags_of(wanted.python)
    ranks = [known[tag] for tag in tags if tag in known]
    return min(ranks) if ranks and name == wanted.name and version == Version(wanted.version) else None


def sha256_of(path: Path) -> str:
    """SHA-256 of a file in hex digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def there(folder: Path) -> dict[str, str]:
    """SHA-256 of each wheel in the folder, by its name."""
    return {path.name: sha256_of(path) for path in sorted(folder.glob("*.whl")) if path.is_file()}


def held(wanted: Wanted, known: Mapping[str, str]) -> str:
    """The name of a wheel that is there and serves; "" if none does."""
    serving = ((rank_of(name, wanted), name) for name, digest in known.items() if digest in wanted.hashes)
    return min(((rank, name) for rank, name in serving if rank is not None), default=(0, ""))[1]


def locate(wanted: Iterable[Wanted], sources: Sources) -> list[Found]:
    """Where each of them is. BundleError names the first that no source has."""
    found = []
    for one in wanted:
        candidates, wrong = links(sources, one.name)
        ranked = [
            (rank_of(link.file, one), link) for link in candidates if not link.sha256 or link.sha256 in one.hashes
        ]
        # An index that names the hash is believed before one that does not; what comes is checked in any case.
        best = sorted(((not link.sha256, rank, link) for rank, link in ranked if rank is not None))
        if not best:
            seen = "; ".join(wrong) or f"searched {len(sources.indexes)} indexes and {len(sources.folders)} folders"
            raise BundleError(
                "bundle.wheels",
                f"No index has {one.name} {one.version} for Python {one.python} with a hash of the lock file",
                seen,
                "Configure pip on this machine for an index that has it, and run again",
            )
        link = best[0][2]
        found.append(Found(one, link, size_of(link)))
    return found


def size_of(link: Link) -> int:
    path = local_path(link.url)
    try:
        if path:
            return path.stat().st_size
        with open_address(link.url, method="HEAD") as answer:
            return int(answer.headers.get("Content-Length") or 0)
    except (OSError, ValueError, http.client.HTTPException):
        return 0


def fetch(found: Found, folder: Path, parts: Path) -> Path:
    """Download one wheel into the folder; what an earlier run left in `parts` is continued. BundleError, OSError."""
    target = folder / found.link.file
    # On the same file system, so that the file is renamed when it is whole.
    part = parts / f"{found.link.file}{PART}"
    path = local_path(found.link.url)
    # A part may be that of another file: then the hash says so, and it is fetched once more from its begin.
    for _attempt in range(2):
        try:
            if path:
                shutil.copyfile(path, part)
            else:
                _continue(found.link.url, part)
        except (http.client.HTTPException, ValueError) as error:
            raise _not_downloaded(found, str(error)) from None
        except OSError as error:
            if getattr(error, "errno", None) and not hasattr(error, "reason"):
                raise
            raise _not_downloaded(found, str(error)) from None
        if sha256_of(part) in found.wanted.hashes:
            part.chmod(0o644)
            sync_file(str(part))
            part.rename(target)
            sync_folder(str(target))
            return target
        part.unlink()
    raise BundleError(
        "bundle.wheel_hash",
        f"{found.link.file} is not the file that the lock file names",
        without_login(found.link.url),
        "Ask whoever runs this index why the file is another one; nothing of it was kept",
    )


def _not_downloaded(found: Found, why: str) -> BundleError:
    step = "Run again to continue; what is there is kept"
    return BundleError("bundle.download", f"{found.link.file} was not downloaded", without_login(why), step)


def _continue(url: str, part: Path) -> None:
    try:
        _download(url, part)
    except urllib.error.HTTPError as error:
        # The part is as long as the file, or longer; its hash decides.
        if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise


def _download(url: str, part: Path) -> None:
    at = part.stat().st_size if part.exists() else 0
    headers: dict[str, Any] = {"Range": f"bytes={at}-"} if at else {}
    with open_address(url, headers=headers) as answer, part.open("ab") as file:
        # A server that knows no ranges sends all of it again.
        if at and answer.status != http.client.PARTIAL_CONTENT:
            file.truncate(0)
        while block := answer.read(BLOCK_BYTES):
            file.write(block)
        expected = answer.headers.get("Content-Length")
        sent = file.tell() - (at if answer.status == http.client.PARTIAL_CONTENT else 0)
    if expected and sent < int(expected):
        raise http.client.IncompleteRead(b"", int(expected) - sent)
