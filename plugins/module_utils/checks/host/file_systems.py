# SPDX-License-Identifier: Apache-2.0
"""The file systems that system, environment and training write to: space, inodes, and whether they are writable.

The inventory's folders may be on a network: one that does not answer must not hold up a check, so they are examined
in a child process, which is left to the kernel if it hangs.
"""

import os
from typing import Any, Dict, List, NamedTuple, Optional

from ...host.files import below, resolve
from ...host.in_child import examine_each
from ...host.patterns import lazily
from ...readings.attempt import attempt
from ...verdict.report import Record

SECONDS = 5
MOUNTS = "/proc/self/mountinfo"
ESCAPED = lazily(r"\\([0-7]{3})")
MIB = 1024 * 1024
# What is written there, and the folder; the inventory's folders come from the expectations.
SYSTEM = (("system", "/"), ("boot", "/boot"), ("state", "/var"), ("environment", "/opt/gpuwright"))
OF_INVENTORY = (("data", "data_dir"), ("runs", "runs_dir"))


class Mount(NamedTuple):
    """A line of mountinfo: where, the kind of file system, and whether it is read-only."""

    point: str
    kind: str
    read_only: bool


def read_file_systems(root: str, expectations: Record) -> List[Dict[str, Any]]:
    """`[{use, folder, there, mount, kind, read_only, free_mib, free_inodes}]`; OSError without a list of mounts.

    `there`: whether the folder exists; if not, the nearest existing folder above it is examined, in which it would be
    made. `free_mib` and `free_inodes` are what an ordinary user may still use; inodes are null if they have no fixed
    number. A folder that cannot be examined is `{use, folder, unreadable}`.
    """
    mounts = read_mounts(root)
    found = [_with_names(use, folder, attempt(look, root, folder, mounts)) for use, folder in SYSTEM]
    wanted = [(use, expectations.get(name)) for use, name in OF_INVENTORY]
    asked = [(use, folder) for use, folder in wanted if isinstance(folder, str) and folder.startswith("/")]
    folders = [at for _use, at in asked]
    answers = attempt(examine_each, lambda folder: attempt(look, root, folder, mounts), folders, SECONDS)
    if isinstance(answers, dict):
        # The host has no process to give; the system's own folders are judged all the same.
        answers = [answers] * len(asked)
    for at, (use, folder) in enumerate(asked):
        silent = {"unreadable": f"the file system of {folder} does not answer within {SECONDS} s"}
        found.append(_with_names(use, folder, silent if answers[at] is None else answers[at]))
    return found


def _with_names(use: str, folder: str, seen: Dict) -> Dict:
    return dict(seen, use=use, folder=folder)


def read_mounts(root: str) -> List[Mount]:
    """All mounts, in the order in which they were made: a later one covers an earlier one.

    A service with ProtectSystem=strict sees every mount read-only, whatever it is for others. The root mount shows
    this: the mount is read-only but its file system is not. In that case, the file systems' own state counts
    (errors=remount-ro sets it, and so does mount -o remount,ro).
    """
    found = []
    with open(below(root, MOUNTS), encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            own, separator, rest = line.partition(" - ")
            fields, more = own.split(), rest.split()
            if not separator or len(fields) < 6 or len(more) < 3:
                raise ValueError(f"{MOUNTS} has a line in an unknown form: {line[:80]!r}")
            point = ESCAPED.sub(lambda match: chr(int(match.group(1), 8)), fields[4])
            found.append((point, more[0], "ro" in fields[5].split(","), "ro" in more[2].split(",")))
    root_mounts = [(mount, system) for point, _, mount, system in found if point == "/"]
    in_sandbox = bool(root_mounts) and root_mounts[-1] == (True, False)
    return [Mount(point, kind, system or (mount and not in_sandbox)) for point, kind, mount, system in found]


def mount_of(path: str, mounts: List[Mount]) -> Optional[Mount]:
    """The mount that contains an absolute path without links."""
    holding = [mount for mount in mounts if path == mount.point or path.startswith(mount.point.rstrip("/") + "/")]
    return max(enumerate(holding), key=lambda pair: (len(pair[1].point), pair[0]))[1] if holding else None


def look(root: str, folder: str, mounts: List[Mount]) -> Dict:
    """The record of one folder without its names; PermissionError if the caller may not look."""
    there, at = True, folder
    full = resolve(root, at)
    while full is None:
        there, at = False, os.path.dirname(at)
        full = resolve(root, at)
    status = os.statvfs(full)
    # resolve() treats a folder that it may not look into as one that does not exist.
    if not there and not os.access(full, os.X_OK):
        raise PermissionError(f"{folder} is readable by root only")
    path = "/" + os.path.relpath(full, below(root, "/")) if full.rstrip("/") != root.rstrip("/") else "/"
    mount = mount_of(path, mounts)
    if mount is None:
        raise ValueError(f"{MOUNTS} lists no mount for {path}")
    return {
        "there": there,
        "mount": mount.point,
        "kind": mount.kind,
        "read_only": mount.read_only,
        "free_mib": status.f_bavail * status.f_frsize // MIB,
        "free_inodes": status.f_favail if status.f_files else None,
    }
