# SPDX-License-Identifier: Apache-2.0
"""The state before the first change, and files that are restored byte for byte."""

import base64
import copy
import os
import stat
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from ..host.files import below
from ..host.whole_file import write_whole
from ..host.written.aside import begin_anew, set_aside_before
from ..host.written.owning import make_folders
from ..host.written.state_file import ID, MODE, NAME, Damaged, read_state, write_state
from . import profiles

BEFORE = "/var/lib/gpuwright/tuning-before.json"
# `folders` were made for the files; a file is None where there was none.
OF_FILE = {"content": str, "mode": MODE, "uid": ID, "gid": ID}
FORM = {"schema": {1}, "knobs": {str: str}, "files": {str: (OF_FILE, {"link": NAME}, None)}, "folders": [str]}
EMPTY = {"schema": 1, "knobs": {}, "files": {}, "folders": []}  # type: Dict[str, Any]
LOST = "the settings of today count as those from before, and playbooks/uninstall.yml cannot bring earlier ones back"


def load(root: str) -> Dict[str, Any]:
    """`{knobs: {key: value}, files: {path: record or null}, folders: [path]}`; empty before the first application.

    Raises ValueError if the file exists but cannot be used: its content cannot be reconstructed.
    """
    try:
        return _read(root)
    except Damaged as error:
        raise ValueError(
            f"{BEFORE} holds the values to go back to and cannot be read: {error}. Look at it; once it is moved away "
            f"(sudo mv {BEFORE} {BEFORE}.damaged), {LOST}"
        )


def _read(root: str) -> Dict[str, Any]:
    """The same; `Damaged`."""
    before = read_state(below(root, BEFORE), FORM, shown=BEFORE)
    if before is None:
        return copy.deepcopy(EMPTY)
    for name, record in before["files"].items():
        if record and "content" in record:
            _decoded(record["content"], name)
    profiles.follow(root, before)
    return dict(before)


def load_to_set(root: str, may_write: bool) -> Tuple[Dict[str, Any], str]:
    """`load` for who is about to set values: a damaged record is set aside; with a sentence on that, else "".

    The files among them are in the node's first record, too. ValueError for that of another version, which is whole;
    OSError if it cannot be set aside.
    """
    try:
        return _read(root), ""
    except Damaged as error:
        if error.place == "schema":
            return load(root), ""
        return copy.deepcopy(EMPTY), begin_anew(below(root, BEFORE), error, LOST, may_write)


def lost_before(root: str) -> str:
    """For who puts values back: a sentence on a record that was set aside, "" if none was."""
    names = set_aside_before(below(root, BEFORE))
    if not names:
        return ""
    return (
        f"{BEFORE} was damaged once, so settings from before that stay as they are; it is kept as {names[-1]} beside it"
    )


def save(root: str, before: Mapping[str, Any]) -> None:
    """Write the record, or remove it if there is nothing left to restore."""
    path = below(root, BEFORE)
    if before["knobs"] or before["files"]:
        write_state(path, before, FORM, 0o600, (os.geteuid(), os.getegid()), indent=2)
    elif os.path.exists(path):
        os.unlink(path)


def _decoded(content: str, path: str) -> bytes:
    """The bytes of a file that was remembered; `Damaged`."""
    try:
        return base64.b64decode(content, validate=True)
    except ValueError as error:
        raise Damaged(BEFORE, f"files.{path}.content", str(error))


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
    write_whole(full, _decoded(record["content"], path), record["mode"], owner)


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
