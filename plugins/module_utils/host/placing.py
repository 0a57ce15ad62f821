# SPDX-License-Identifier: Apache-2.0
"""Files, folders and links as they are wanted: what differs on the host, and how each is put right in one step."""

import binascii
import os
import shutil
import stat
from typing import Any, Dict, List, NamedTuple

from .whole_file import write_whole
from .written.owning import make_folders, open_folder, own_path
from .written.told import without_secrets

SECRET_DIFFERS = "# a secret differs, which is not shown\n"
KINDS = {"file": stat.S_ISREG, "directory": stat.S_ISDIR, "link": stat.S_ISLNK}


class Wanted(NamedTuple):
    """state: file, directory, link or absent; `content` is a file's, `target` a link's, `mode` of files and folders."""

    path: str
    state: str
    content: bytes
    target: str
    mode: int
    uid: int
    gid: int


class Found(NamedTuple):
    """What is at a path: state as in Wanted, or "other" for a socket, pipe or device."""

    state: str
    content: bytes
    target: str
    mode: int
    uid: int
    gid: int


ABSENT = Found("absent", b"", "", 0, 0, 0)


def found_at(path: str) -> Found:
    """What is there; a link is not followed. OSError if that cannot be read."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return ABSENT
    state = next((name for name, is_one in KINDS.items() if is_one(status.st_mode)), "other")
    content, target = b"", ""
    if state == "file":
        with open(path, "rb") as file:
            content = file.read()
    elif state == "link":
        target = os.readlink(path)
    return Found(state, content, target, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)


def differences(found: Found, wanted: Wanted) -> List[str]:
    """Which of state, content, target, mode, owner and group differ; empty: nothing is to do.

    Raises ValueError where something else is in the way that nobody asked to remove.
    """
    if found.state != wanted.state:
        _refuse(found, wanted)
        return ["state"]
    if wanted.state == "absent":
        return []
    compared = {
        "content": wanted.state == "file" and found.content != wanted.content,
        "target": wanted.state == "link" and found.target != wanted.target,
        "mode": wanted.state != "link" and found.mode != wanted.mode,
        "owner": found.uid != wanted.uid,
        "group": found.gid != wanted.gid,
    }
    return [name for name, differs in compared.items() if differs]


def _refuse(found: Found, wanted: Wanted) -> None:
    """A file or folder is only replaced by what was asked for in its place, a link by a file or folder."""
    if wanted.state == "absent" or found.state == "absent" or (found.state == "link" and wanted.state == "file"):
        return
    raise ValueError(f"{wanted.path} is a {found.state} and should be a {wanted.state}: move it away")


def place(wanted: Wanted, differs: List[str]) -> None:
    """Put right what `differences` named; OSError. Readers find the old or the new, never half of it."""
    if not differs:
        return
    if wanted.state == "absent":
        _remove(wanted.path)
    elif wanted.state == "directory":
        make_folders(wanted.path)
        own_path(wanted.path, wanted.mode, (wanted.uid, wanted.gid))
    elif wanted.state == "link":
        _link(wanted, differs)
    elif {"state", "content"} & set(differs):
        write_whole(wanted.path, wanted.content, wanted.mode, (wanted.uid, wanted.gid))
    else:
        own_path(wanted.path, wanted.mode, (wanted.uid, wanted.gid))


def _link(wanted: Wanted, differs: List[str]) -> None:
    with open_folder(os.path.dirname(wanted.path) or ".") as folder:
        name = os.path.basename(wanted.path)
        if {"state", "target"} & set(differs):
            # A link cannot be made over another one, but it can be renamed over it.
            beside = f".{name}.{binascii.hexlify(os.urandom(4)).decode('ascii')}.new"
            os.symlink(wanted.target, beside, dir_fd=folder)
            try:
                os.chown(beside, wanted.uid, wanted.gid, dir_fd=folder, follow_symlinks=False)
                os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                os.unlink(beside, dir_fd=folder)
                raise
            os.fsync(folder)
        else:
            os.chown(name, wanted.uid, wanted.gid, dir_fd=folder, follow_symlinks=False)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def shown(found: Found, wanted: Wanted, differs: List[str]) -> Dict[str, Any]:
    """The difference for people, as Ansible's --diff prints it."""
    if "content" in differs or (wanted.state == "file" and found.state == "absent"):
        texts = [one.content.decode("utf-8", "replace") for one in (found, wanted)]
        # Of both sides: what a file held before is as secret as what it will hold.
        before, after = map(without_secrets, texts)
        if before == after and texts[0] != texts[1]:
            after += SECRET_DIFFERS
        return {
            "before": before,
            "after": after,
            "before_header": wanted.path,
            "after_header": wanted.path,
        }
    was, will = _words(found), _words(wanted)
    return {
        "before": {"path": wanted.path, **{name: was[name] for name in differs}},
        "after": {"path": wanted.path, **{name: will[name] for name in differs}},
    }


def one_row(path: str, attribute: str, now: str, planned: str) -> Dict[str, Any]:
    """A difference in one word, as `shown` has attributes."""
    return {"before": {"path": path, attribute: now}, "after": {"path": path, attribute: planned}}


def _words(one: Any) -> Dict[str, str]:
    return {
        "state": one.state,
        "target": one.target,
        "mode": f"{one.mode:04o}",
        "owner": str(one.uid),
        "group": str(one.gid),
    }
