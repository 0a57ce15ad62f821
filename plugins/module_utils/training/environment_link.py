# SPDX-License-Identifier: Apache-2.0
"""Which of the environments is the current one, and which others there are."""

import os
from typing import List

from ..host.placing import Wanted

NAME = "current"
LINK_MODE = 0o777


def link_of(folder: str, path: str) -> Wanted:
    """The link that makes `path` the current environment of the folder."""
    return Wanted(os.path.join(folder, NAME), "link", b"", path, LINK_MODE, os.geteuid(), os.getegid())


def elsewhere(wanted: Wanted) -> str:
    """Where else the link leads, whatever is there; "" if it leads to the wanted place or is not there."""
    if not os.path.lexists(wanted.path):
        return ""
    leads = os.path.realpath(wanted.path)
    if leads == os.path.realpath(wanted.target):
        return ""
    # By the name that other_environments gives it, also where a folder above is a link.
    folder, name = os.path.dirname(wanted.path), os.path.basename(leads)
    return os.path.join(folder, name) if os.path.dirname(leads) == os.path.realpath(folder) else leads


def other_environments(folder: str, path: str) -> List[str]:
    """The folders beside `path`, the newest first; OSError if they cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            found = [entry for entry in entries if entry.is_dir(follow_symlinks=False) and entry.name != NAME]
            times = {os.path.join(folder, entry.name): entry.stat().st_mtime for entry in found}
    except FileNotFoundError:
        return []
    times.pop(path, None)
    return sorted(times, key=lambda one: (-times[one], one))
