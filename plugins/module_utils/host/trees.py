# SPDX-License-Identifier: Apache-2.0
"""Keep a folder of small text files exactly as wanted, file by file, each replaced in one step."""

import os
from typing import Iterable, List, Mapping, Tuple

from .whole_file import write_whole
from .written.owning import make_folders

FILE_MODE = 0o644
# Written by Python when it runs the module beside it; left alone as long as that module is part of the tree.
COMPILED = "__pycache__"


def tree_changes(dest: str, files: Mapping[str, str]) -> Tuple[List[str], List[str]]:
    """`(to_write, to_remove)`: relative names below `dest` that differ from `files` (name: text), and surplus ones.

    Raises ValueError for a name that would lead out of `dest`.
    """
    for name in files:
        if os.path.isabs(name) or ".." in name.split("/"):
            raise ValueError(f"{name!r} is not a name below a folder")
    to_write = sorted(name for name, text in files.items() if not _is(os.path.join(dest, name), text))
    present = []
    for path, _folders, names in os.walk(dest):
        present += [os.path.relpath(os.path.join(path, name), dest) for name in names]
    return to_write, sorted(name for name in set(present) - set(files) if _source(name) not in files)


def _source(name: str) -> str:
    """The module that Python has compiled into the file `name`; "" for any other file."""
    folder, file = os.path.split(name)
    parent, last = os.path.split(folder)
    return os.path.join(parent, file.partition(".")[0] + ".py") if last == COMPILED else ""


def _is(path: str, text: str) -> bool:
    """Whether `path` is a plain file owned by root, with the right mode and content."""
    try:
        status = os.lstat(path)
        if (status.st_mode & 0o177777) != (0o100000 | FILE_MODE) or (status.st_uid, status.st_gid) != _owner():
            return False
        with open(path, "rb") as file:
            return file.read() == text.encode("utf-8")
    except OSError:
        return False


def _owner() -> Tuple[int, int]:
    """Files belong to the user who runs this: root on a node."""
    return os.geteuid(), os.getegid()


def apply_tree(dest: str, files: Mapping[str, str], to_write: Iterable[str], to_remove: Iterable[str]) -> None:
    """Make the changes that `tree_changes` found. Raises OSError; files written by then are complete and stay."""
    make_folders(dest)
    for name in to_write:
        path = os.path.join(dest, name)
        make_folders(os.path.dirname(path))
        write_whole(path, files[name].encode("utf-8"), FILE_MODE, _owner())
    for name in to_remove:
        os.unlink(os.path.join(dest, name))
        _drop_empty(dest, os.path.dirname(name))


def _drop_empty(dest: str, folder: str) -> None:
    """Remove `folder` below `dest` and the folders above it, as far as they are empty."""
    while folder and not os.listdir(os.path.join(dest, folder)):
        os.rmdir(os.path.join(dest, folder))
        folder = os.path.dirname(folder)
