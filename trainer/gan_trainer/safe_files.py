# SPDX-License-Identifier: Apache-2.0
"""Files in folders that a whole group may write: never writes through a link that somebody has put there."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO

TOKEN_BYTES = 8
# What a run replaces in its own folders, without the suffix.
RUN_FILES = r"checkpoint-[0-9]{10,}|step-[0-9]{10,}|best|config|stats|memory|operators"
LEFT = re.compile(rf"({RUN_FILES})\.[0-9a-f]{{{TOKEN_BYTES * 2}}}\.tmp")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new file for bytes; when the block ends well it is synced and takes the place of `path` in one step.

    Its name cannot be guessed, and the kernel refuses one that is there, as a link, too. After an exception nothing of
    it is left and `path` is as it was. OSError as from `open`; the mode follows the umask.
    """
    temporary = path.with_suffix(f".{secrets.token_hex(TOKEN_BYTES)}.tmp")
    with os.fdopen(_open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def replace_text(path: Path, text: str) -> None:
    """`text` in UTF-8 in place of what `path` held, as by `replacing`."""
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


def sync_folder(folder: Path) -> None:
    """The new name itself must reach the disk too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_own(path: Path, flags: int) -> int:
    """A descriptor of the file `path`, created if missing; OSError (ELOOP) if there is a link in its place."""
    return _open(path, flags | os.O_CREAT)


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed run left in `folder` of the files that it was replacing, for its only user."""
    for path in folder.glob("*.tmp"):
        if LEFT.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)


def _open(path: Path, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
