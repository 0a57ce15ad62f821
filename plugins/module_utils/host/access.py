# SPDX-License-Identifier: Apache-2.0
"""Who may do what on the node: the training user, the device files, and files that only root may change.

Functions raise OSError or ValueError for what cannot be read; `attempt.attempt` turns that into an unreadable reading.
"""

import os
import stat
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional

from .files import below, names_in, resolve

PASSWD_FIELDS = 7
CHARACTER_DEVICES = "/dev/char"
# Enough examples to act on; the count gives their total.
EXAMPLES = 10


def read_lines(root: str, path: str) -> List[List[str]]:
    """The fields of each line of a file such as /etc/passwd; raises OSError with a reason that people understand."""
    try:
        # Another line's name in another encoding must not hide the line that is looked for.
        with open(below(root, path), encoding="utf-8", errors="surrogateescape") as file:
            return [line.rstrip("\n").split(":") for line in file if line.strip() and not line.startswith("#")]
    except PermissionError:
        raise PermissionError(f"{path} is readable by root only")


def read_account(root: str, name: str) -> Optional[Dict[str, Any]]:
    """uid, gid, groups and shell of a local user, or None if /etc/passwd has none of that name."""
    for fields in read_lines(root, "/etc/passwd"):
        if fields[0] == name:
            if len(fields) != PASSWD_FIELDS:
                raise ValueError(f"the line of {name} in /etc/passwd has {len(fields)} fields")
            groups = [line for line in read_lines(root, "/etc/group") if len(line) == 4]
            gids = {int(fields[3])} | {int(line[2]) for line in groups if name in line[3].split(",")}
            names = sorted(line[0] for line in groups if int(line[2]) in gids)
            return {"uid": int(fields[2]), "gids": sorted(gids), "groups": names, "shell": fields[6]}
    return None


def read_password_state(root: str, name: str) -> str:
    """State of the user's password in /etc/shadow: locked, empty or set."""
    for fields in read_lines(root, "/etc/shadow"):
        if fields[0] == name and len(fields) > 1:
            # A hash never starts with these two; passwd -l puts "!" before it.
            return "locked" if fields[1][:1] in ("!", "*") else ("set" if fields[1] else "empty")
    raise ValueError(f"/etc/shadow has no line for {name}")


def allows(mode: int, owner: int, group: int, account: Mapping[str, Any], wanted: int) -> bool:
    """Whether permission bits let the account do `wanted` (4 read, 2 write, 1 execute); in the kernel's own order."""
    if account["uid"] == 0:
        return True
    if account["uid"] == owner:
        return mode >> 6 & wanted == wanted
    if group in account["gids"]:
        return mode >> 3 & wanted == wanted
    return mode & wanted == wanted


def read_device_access(
    root: str, paths: Iterable[str], account: Mapping[str, Any], look: Callable[[str], os.stat_result] = os.stat
) -> Dict[str, Dict[str, Any]]:
    """`{path: {readable, writable, mode, owner, group}}` for the account; access lists (setfacl) are not looked at.

    owner  "uid:gid"          group  its name, or its number if /etc/group has none          look  replaces os.stat
    """
    groups = {fields[2]: fields[0] for fields in read_lines(root, "/etc/group") if len(fields) == 4}
    found = {}
    for path in paths:
        status = look(below(root, path))
        found[path] = {
            "readable": allows(status.st_mode, status.st_uid, status.st_gid, account, 4),
            "writable": allows(status.st_mode, status.st_uid, status.st_gid, account, 2),
            "mode": f"{stat.S_IMODE(status.st_mode):04o}",
            "owner": f"{status.st_uid}:{status.st_gid}",
            "group": groups.get(str(status.st_gid), str(status.st_gid)),
        }
    return found


def read_device_links(root: str, paths: Iterable[str]) -> Dict[str, bool]:
    """`{path: flag}`: whether /dev/char has a link to this device node, under the node's number."""
    links = {(name, resolve(root, f"{CHARACTER_DEVICES}/{name}")) for name in names_in(root, CHARACTER_DEVICES)}
    return {path: (number_of(below(root, path)), below(root, path)) in links for path in paths}


def number_of(full: str) -> str:
    """The device number as /dev/char writes it, "195:0"."""
    number = os.stat(full).st_rdev
    return f"{os.major(number)}:{os.minor(number)}"


def why_unsafe(mode: int, owner: int, group: int) -> str:
    """Why somebody other than root could change such a file, or ""."""
    if owner != 0:
        return f"owned by uid {owner}"
    if mode & stat.S_IWOTH:
        return f"writable by everybody (mode {stat.S_IMODE(mode):04o})"
    if mode & stat.S_IWGRP and group != 0:
        return f"writable by group {group} (mode {stat.S_IMODE(mode):04o})"
    return ""


def read_file(root: str, path: str) -> Optional[Dict[str, Any]]:
    """What `path` leads to: is_file, executable, mode, and why it is unsafe or ""; None if nothing is there."""
    full = resolve(root, path)
    if full is None:
        return None
    status = os.stat(full)
    return {
        "is_file": stat.S_ISREG(status.st_mode),
        "executable": status.st_mode & 0o111 == 0o111,
        "mode": f"{stat.S_IMODE(status.st_mode):04o}",
        "unsafe": why_unsafe(status.st_mode, status.st_uid, status.st_gid),
    }


def read_unsafe_files(root: str, paths: Iterable[str]) -> Dict[str, Any]:
    """Walk `paths` and report what users other than root may change.

    Returns `{missing: [path], looked_at: number, unsafe_count: number, unsafe: [examples]}`; raises OSError for a
    folder that cannot be listed, since what it holds is then not known.
    """
    missing: List[str] = []
    unsafe: List[str] = []
    looked_at = unsafe_count = 0
    for path in paths:
        full = below(root, path)
        if not os.path.lexists(full):
            missing.append(path)
            continue
        for name in _walk(full):
            status = os.lstat(name)
            looked_at += 1
            # The mode of a link is never used; its target is examined at its own place.
            reason = "" if stat.S_ISLNK(status.st_mode) else why_unsafe(status.st_mode, status.st_uid, status.st_gid)
            if reason:
                unsafe_count += 1
                if len(unsafe) < EXAMPLES:
                    unsafe.append(f"{path + name[len(full) :]}: {reason}")
    return {"missing": missing, "looked_at": looked_at, "unsafe_count": unsafe_count, "unsafe": unsafe}


def _walk(full: str) -> Iterator[str]:
    yield full
    if os.path.islink(full) or not os.path.isdir(full):
        return
    for folder, folders, files in os.walk(full, onerror=_raise):
        # Sorted, so that two readings of one state name the same examples.
        folders.sort()
        for name in sorted(folders + files):
            yield os.path.join(folder, name)


def _raise(error: OSError) -> None:
    raise error
