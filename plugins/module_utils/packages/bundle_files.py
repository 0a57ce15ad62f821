# SPDX-License-Identifier: Apache-2.0
"""Hold a node's copy of a bundle to the bundle's list: what is missing, what arrived, what does not belong there."""

import hashlib
import os
import shutil
import stat
from typing import Any, Dict, Iterator, List, Mapping, Tuple

from ..host.whole_file import sync_file, sync_folder
from ..host.written.owning import make_folders, own_path

BLOCK_BYTES = 4 * 1024 * 1024
# What dnf and apt read first comes last, so that an interrupted copy is never a repository with half of its packages.
LAST = ("/repodata/repomd.xml", "/Release", "/InRelease")


def digest_of(path: str) -> str:
    """SHA-256 of a file in hex digits; OSError."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        block = file.read(BLOCK_BYTES)
        while block:
            digest.update(block)
            block = file.read(BLOCK_BYTES)
    return digest.hexdigest()


def is_whole(path: str, entry: Mapping[str, Any]) -> bool:
    """Whether a plain file with this size and SHA-256 is there; no link is followed."""
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size != entry["size"]:
            return False
        return digest_of(path) == entry["sha256"]
    except OSError:
        return False


def missing(dest: str, files: Mapping[str, Mapping[str, Any]]) -> List[str]:
    """Paths of the list that are not whole below `dest`, in the order in which they are to come."""
    found = [path for path in files if not is_whole(os.path.join(dest, path), files[path])]
    return sorted(found, key=lambda path: (path.endswith(LAST), path))


def extras(dest: str, files: Mapping[str, Any]) -> List[str]:
    """Whatever lies below `dest`, is no folder and is not in the list; a link to a folder is an extra."""
    return sorted(path for path, is_file in _walk(dest, "") if not is_file or path not in files)


def _walk(dest: str, below: str) -> Iterator[Tuple[str, bool]]:
    try:
        names = sorted(os.listdir(os.path.join(dest, below)))
    except FileNotFoundError:
        return
    for name in names:
        path = os.path.join(below, name)
        mode = os.lstat(os.path.join(dest, path)).st_mode
        if stat.S_ISDIR(mode):
            yield from _walk(dest, path)
        else:
            yield path, stat.S_ISREG(mode)


def free_bytes(dest: str) -> int:
    """Free bytes where `dest` is, or will be."""
    place = dest
    while not os.path.exists(place):
        place = os.path.dirname(place) or "/"
    status = os.statvfs(place)
    return status.f_bavail * status.f_frsize


def take(dest: str, files: Mapping[str, Mapping[str, Any]], arrived: Mapping[str, str]) -> List[str]:
    """Move files that arrived to their places; returns those that are not what the list says, which are not moved.

    arrived  path in the list: where the file lies now
    """
    wrong = []
    for path, place in arrived.items():
        target = os.path.join(dest, path)
        _make_folders(dest, os.path.dirname(path))
        # First a private copy, then the hash of that copy: who sent the file may still write to what he sent.
        temporary = target + ".new"
        _remove(temporary)
        shutil.copyfile(place, temporary)
        own_path(temporary, 0o644)
        if not is_whole(temporary, files[path]):
            _remove(temporary)
            wrong.append(path)
            continue
        sync_file(temporary)
        if os.path.isdir(target) and not os.path.islink(target):
            shutil.rmtree(target)
        os.rename(temporary, target)
        sync_folder(target)
        _remove(place)
    return sorted(wrong)


def remove_extras(dest: str, files: Mapping[str, Any]) -> List[str]:
    """Remove what is not in the list; returns the paths."""
    gone = extras(dest, files)
    for path in gone:
        _remove(os.path.join(dest, path))
    for folder, _folders, _files in os.walk(dest, topdown=False):
        if folder != dest and not os.listdir(folder):
            os.rmdir(folder)
    return gone


def _make_folders(dest: str, below: str) -> None:
    """Each folder of the path, 0755 whatever root's umask; what is there and is no folder is removed."""
    make_folders(dest)
    place = dest
    for part in below.split("/") if below else []:
        place = os.path.join(place, part)
        if os.path.islink(place) or (os.path.exists(place) and not os.path.isdir(place)):
            os.unlink(place)
        if not os.path.isdir(place):
            make_folders(place)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def state_of(dest: str, files: Mapping[str, Mapping[str, Any]]) -> Dict[str, Any]:
    """{missing, extras, bytes: of what is missing, free: bytes}."""
    lacking = missing(dest, files)
    return {
        "missing": lacking,
        "extras": extras(dest, files),
        "bytes": sum(files[path]["size"] for path in lacking),
        "free": free_bytes(dest),
    }
