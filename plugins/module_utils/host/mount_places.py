# SPDX-License-Identifier: Apache-2.0
"""The place of a path on its file system, the same for all: a container or a sandboxed service has different mounts.

The kernel names the files of a process as that process sees them (proc(5), `maps`, `exe`, `cwd`), so the same text may
mean a file of the host, or one in a container's image. A place (a device and a path on it) is the same for all.
Source: proc(5), /proc/pid/mountinfo.
"""

import re
from typing import List, NamedTuple, Optional

from .files import below

Mount = NamedTuple("Mount", [("device", str), ("root", str), ("point", str)])
Place = NamedTuple("Place", [("device", str), ("path", str)])

ESCAPED = re.compile(r"\\([0-7]{3})")
MOST_BYTES = 8 * 1024 * 1024


def read_mounts(root: str, pid: object) -> List[Mount]:
    """The mounts that a process (its id, or "self") has, later ones over earlier ones; empty if unreadable."""
    try:
        with open(below(root, f"/proc/{pid}/mountinfo"), "rb") as file:
            text = file.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    rows = [line.split(" ") for line in text.splitlines()]
    # "36 35 98:0 /mnt1 /mnt2 rw,noatime ...": a field contains no white space, which is written as \040.
    return [Mount(row[2], _unescape(row[3]), _unescape(row[4])) for row in rows if len(row) > 5]


def _unescape(text: str) -> str:
    return ESCAPED.sub(lambda match: chr(int(match.group(1), 8)), text)


def place_of(mounts: List[Mount], path: str) -> Optional[Place]:
    """The place of an absolute path without links; None if no mount has it."""
    best = None
    for mount in mounts:
        # "<=": of two mounts on one folder, the later one covers the other.
        if rest_below(mount.point, path) is not None and (best is None or len(best.point) <= len(mount.point)):
            best = mount
    if best is None:
        return None
    return Place(best.device, join(best.root, rest_below(best.point, path) or ""))


def rest_below(folder: str, path: str) -> Optional[str]:
    """What follows `folder` in `path`, "" for the folder itself, None for a path elsewhere."""
    folder = folder.rstrip("/")
    if path.rstrip("/") == folder:
        return ""
    return path[len(folder) + 1 :] if path.startswith(folder + "/") else None


def join(folder: str, rest: str) -> str:
    return (folder.rstrip("/") + "/" + rest).rstrip("/") or "/"
