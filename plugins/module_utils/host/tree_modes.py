# SPDX-License-Identifier: Apache-2.0
"""Modes of a folder that everybody uses and only root writes, whatever the umask of the programs that filled it."""

import os
import stat
from typing import List, Tuple

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


def repair_modes(top: str, write: bool) -> List[str]:
    """Paths of what had other bits and got the wanted ones, or with `write` false would get them; OSError."""
    found = wrong_modes(top)
    if write:
        for path, bits in found:
            own_path(path, bits)
    return [path for path, _bits in found]
