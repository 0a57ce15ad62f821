# SPDX-License-Identifier: Apache-2.0
"""Which of the environments is the current one, and which others there are."""

import os
import re
from typing import List

from ..host.placing import Wanted
from .environment_files import STAMP

NAME = "current"
LINK_MODE = 0o777
# An environment is named after what decides its content (roles/framework_pytorch/vars/main.yml).
OURS = re.compile(r"[0-9a-f]{16}\Z")


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
    """Environments of the toolkit beside `path`, the whole ones first, then the newest; OSError if none can be listed.

    Whatever else lies in the folder is somebody's own, and no environment of the toolkit's.
    """
    try:
        found = [entry for entry in os.listdir(folder) if OURS.match(entry)]
    except FileNotFoundError:
        return []
    places = [place for place in (os.path.join(folder, entry) for entry in found) if _is_folder(place)]
    return sorted((place for place in places if place != path), key=lambda one: (-_complete_since(one), one))


def _is_folder(place: str) -> bool:
    return os.path.isdir(place) and not os.path.islink(place)


def _complete_since(place: str) -> float:
    """Seconds since 1970; 0 for one that is not complete, to which nobody could go back."""
    try:
        return os.stat(os.path.join(place, STAMP)).st_mtime
    except OSError:
        return 0.0
