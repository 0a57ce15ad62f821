# SPDX-License-Identifier: Apache-2.0
"""Modes of a folder that everybody uses and only root writes, whatever the umask of the programs that filled it."""

import os
import stat
from typing import Dict, Iterable, List, Tuple

from .written.owning import own_path

READ_ALL = 0o444
ENTER_ALL = 0o111
WRITE_OTHERS = 0o022
# Set-uid, set-gid and sticky bits do not belong in a tree of libraries.
SPECIAL = 0o7000


def wanted_mode(mode: int) -> int:
    """The permission bits that a file or folder of this `st_mode` should have; only the owner may write."""
    bits = (stat.S_IMODE(mode) | READ_ALL) & ~WRITE_OTHERS & ~SPECIAL
    return bits | ENTER_ALL if stat.S_ISDIR(mode) or mode & ENTER_ALL else bits


def wrong_modes(top: str) -> List[Tuple[str, int]]:
    """`[(path, bits), ...]` of `top` and all below it that should have other bits. Links are not followed or examined.

    Empty if `top` does not exist; raises OSError for what cannot be read.
    """
    try:
        status = os.lstat(top)
    except FileNotFoundError:
        return []
    found = [] if stat.S_ISLNK(status.st_mode) else _if_wrong(top, status.st_mode)
    waiting = [top] if stat.S_ISDIR(status.st_mode) else []
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISLNK(mode):
                    continue
                found += _if_wrong(entry.path, mode)
                if stat.S_ISDIR(mode):
                    waiting.append(entry.path)
    return found


def _if_wrong(path: str, mode: int) -> List[Tuple[str, int]]:
    bits = wanted_mode(mode)
    return [] if stat.S_IMODE(mode) == bits else [(path, bits)]


def closed_to_others(top: str, paths: Iterable[str], beginning: str = "/") -> List[str]:
    """Of `top`, `paths` below it and all folders on the way to them from `beginning`: what others than root and its
    group cannot use. Each folder once, before what is in it; what is not there is left out.
    """
    found: Dict[str, bool] = {}
    for path in [top, *(os.path.join(top, path) for path in paths)]:
        for place in reversed(_way_to(path, beginning, found)):
            found[place] = _is_closed(place)
    return [place for place, closed in found.items() if closed]


def _way_to(path: str, beginning: str, known: Dict[str, bool]) -> List[str]:
    """The path and the folders above it that are not yet known, innermost first."""
    way = []
    while path not in known and path.startswith(beginning) and path not in ("", "/"):
        way.append(path)
        path = os.path.dirname(path)
    return way


def _is_closed(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    if stat.S_ISDIR(mode):
        return not mode & stat.S_IXOTH or not mode & stat.S_IROTH
    return not mode & stat.S_IROTH or (bool(mode & stat.S_IXUSR) and not mode & stat.S_IXOTH)


def repair_modes(top: str, write: bool) -> List[str]:
    """Paths of what had other bits and got the wanted ones, or with `write` false would get them; OSError."""
    found = wrong_modes(top)
    if write:
        for path, bits in found:
            own_path(path, bits)
    return [path for path, _bits in found]
