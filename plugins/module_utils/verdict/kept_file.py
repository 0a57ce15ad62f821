# SPDX-License-Identifier: Apache-2.0
"""Small JSON records that root keeps on the node across boots: read whole, replaced whole, one writer at a time."""

import contextlib
import errno
import fcntl
import os
import stat
from typing import Any, Dict, Iterator, Mapping, Optional

from ..host.files import below
from ..host.written.state_file import ANY, Damaged, parsed
from .report import write_json

FOLDER = "/var/lib/gpuwright"
LIMIT_BYTES = 1024 * 1024
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class DamagedRecord(ValueError):
    """No program of ours can have written what is in the file: it can be set aside (`host/written/aside.py`).

    what    the same without what to type
    """

    def __init__(self, path: str, why: object) -> None:
        self.what = f"{path} is damaged: {why}"
        super().__init__(f"{self.what}; nothing in it counts; as root: mv {path} {path}.damaged")


def damaged(path: str, why: object) -> DamagedRecord:
    """The error for a file whose content cannot be trusted, with what to type; the file may be evidence."""
    return DamagedRecord(path, why)


def read_kept(root: str, path: str, schema: int) -> Optional[Dict[str, Any]]:
    """The record in the node's file `path`, None if there is none.

    OSError if it cannot be read. ValueError if it cannot be trusted: not a regular file, writable by users other than
    root, too long, not a JSON record, or of another schema.
    """
    try:
        # A link in its place must not be followed, and a pipe not waited for.
        handle = os.open(below(root, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    with os.fdopen(handle, "rb") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise ValueError(f"{path} is not a regular file")
        if state.st_uid != 0 or state.st_mode & WRITABLE_BY_OTHERS:
            raise ValueError(f"{path} can be changed by users other than root")
        data = file.read(LIMIT_BYTES + 1)
    if len(data) > LIMIT_BYTES:
        raise ValueError(f"{path} is longer than {LIMIT_BYTES} bytes")
    try:
        record = parsed(data, ANY, path)
    except Damaged as error:
        raise damaged(path, f"{error.place}: {error.why}" if error.place else error.why)
    if not isinstance(record, dict) or type(record.get("schema")) is not int or record["schema"] != schema:
        wrong = damaged(path, f"expected a record of schema {schema}")
        # A later version's record is whole.
        newer = isinstance(record, dict) and type(record.get("schema")) is int and record["schema"] > schema
        raise ValueError(str(wrong)) if newer else wrong
    return record


def write_kept(root: str, path: str, record: Mapping[str, Any]) -> None:
    """Replace the node's file `path` (root, 0644) in one step; OSError if that fails."""
    write_json(below(root, path), record)


@contextlib.contextmanager
def one_writer(root: str) -> Iterator[None]:
    """Lock the folder of the kept files until the block ends, so that no other writer's entry is lost."""
    handle = os.open(below(root, FOLDER), os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
