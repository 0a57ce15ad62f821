# SPDX-License-Identifier: Apache-2.0
"""The state before the first change, and files that are restored byte for byte."""

import base64
import json
import os
import stat
from typing import Any, Dict, Iterable, List, Mapping, Optional

from ..host.files import below
from ..host.owning import make_folders
from ..host.whole_file import write_whole
from . import profiles

BEFORE = "/var/lib/gpuwright/tuning-before.json"


def load(root: str) -> Dict[str, Any]:
    """`{knobs: {key: value}, files: {path: record or null}, folders: [path]}`; empty before the first application.

    Raises ValueError if the file exists but cannot be used: its content cannot be reconstructed.
    """
    path = below(root, BEFORE)
    if not os.path.exists(path):
        return {"schema": 1, "knobs": {}, "files": {}, "folders": []}
    try:
        with open(path, encoding="utf-8") as file:
            before: Dict[str, Any] = json.load(file)
        if before["schema"] != 1 or not all(isinstance(before[name], dict) for name in ("knobs", "files")):
            raise ValueError("not schema 1")
        before = dict(before, folders=list(before["folders"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{BEFORE} holds the values to go back to and cannot be read: {error}")
    profiles.follow(root, before)
    return before


def save(root: str, before: Mapping[str, Any]) -> None:
    """Write the record, or remove it if there is nothing left to restore."""
    path = below(root, BEFORE)
    if before["knobs"] or before["files"]:
        text = json.dumps(before, indent=2, sort_keys=True) + "\n"
        make_folders(os.path.dirname(path))
        write_whole(path, text.encode("utf-8"), 0o600, (os.geteuid(), os.getegid()))
    elif os.path.exists(path):
        os.unlink(path)


def remember(root: str, path: str) -> Optional[Dict[str, Any]]:
    """A record of the file from which `put_back` restores it; null if there is none."""
    full = below(root, path)
    if not os.path.lexists(full):
        return None
    if os.path.islink(full):
        return {"link": os.readlink(full)}
    status = os.stat(full)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path} is not a file: move it away")
    with open(full, "rb") as file:
        content = base64.b64encode(file.read()).decode("ascii")
    mode = stat.S_IMODE(status.st_mode)
    return {"content": content, "mode": mode, "uid": status.st_uid, "gid": status.st_gid}


def put_back(root: str, path: str, record: Optional[Mapping[str, Any]]) -> None:
    full = below(root, path)
    if record is None:
        if os.path.lexists(full):
            os.unlink(full)
        return
    make_folders(os.path.dirname(full))
    if "link" in record:
        if os.path.lexists(full):
            os.unlink(full)
        os.symlink(record["link"], full)
        return
    owner = (record["uid"], record["gid"])
    write_whole(full, base64.b64decode(record["content"]), record["mode"], owner)


def is_as_wanted(root: str, path: str, text: str, mode: int) -> bool:
    """Whether `path` is a plain file of the user who runs this, with that content and mode."""
    full = below(root, path)
    try:
        status = os.lstat(full)
        if status.st_mode != stat.S_IFREG | mode or (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
            return False
        with open(full, "rb") as file:
            return file.read() == text.encode("utf-8")
    except OSError:
        return False


def put(root: str, path: str, text: str, mode: int) -> List[str]:
    """Write a file; returns the folders that had to be made for it, nearest to the root first."""
    full = below(root, path)
    made = make_folders(os.path.dirname(full))
    write_whole(full, text.encode("utf-8"), mode, (os.geteuid(), os.getegid()))
    return ["/" + os.path.relpath(folder, root) for folder in made]


def drop_folders(root: str, folders: Iterable[str]) -> List[str]:
    """Remove the folders that are empty, deepest first; returns those that are still in use."""
    left = []
    for folder in sorted(folders, key=len, reverse=True):
        full = below(root, folder)
        if os.path.isdir(full) and os.listdir(full):
            left.append(folder)
        elif os.path.isdir(full):
            os.rmdir(full)
    return sorted(left)
