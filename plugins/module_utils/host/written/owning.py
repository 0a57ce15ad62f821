# SPDX-License-Identifier: Apache-2.0
"""Give files and folders their mode and owner by a descriptor, so that no link can turn it into somebody else's file.

Between two calls by path, the owner of a folder can put a link in the place of a name in it. Root follows a link on the
way only if root made it, as an administrator does who moves /var/lib elsewhere.
"""

import contextlib
import errno
import os
import stat
from typing import Iterator, List, Optional, Tuple

FOLDER_MODE = 0o755
MAX_LINKS = 40
HERE = os.O_DIRECTORY | os.O_CLOEXEC
Owner = Optional[Tuple[int, int]]


@contextlib.contextmanager
def open_folder(path: str) -> Iterator[int]:
    """The descriptor of a folder, for as long as the block lasts; OSError."""
    handle = _walked(path) if os.geteuid() == 0 else os.open(path, os.O_RDONLY | HERE)
    try:
        yield handle
    finally:
        os.close(handle)


def _walked(path: str) -> int:
    """Opened part by part."""
    parts, links = _parts(path), 0
    handle = os.open("/" if os.path.isabs(path) else ".", os.O_PATH | HERE)
    try:
        while parts:
            part = parts.pop(0)
            try:
                below = os.open(part, os.O_PATH | os.O_NOFOLLOW | HERE, dir_fd=handle)
            except OSError as error:
                status = os.stat(part, dir_fd=handle, follow_symlinks=False)
                links += 1
                if not stat.S_ISLNK(status.st_mode) or links > MAX_LINKS:
                    raise OSError(error.errno, os.strerror(error.errno or 0), path) from None
                if status.st_uid != 0:
                    raise OSError(errno.ELOOP, f"{part} is a link that belongs to uid {status.st_uid}", path) from None
                target = os.readlink(part, dir_fd=handle)
                parts = _parts(target) + parts
                below = os.open("/" if os.path.isabs(target) else ".", os.O_PATH | HERE, dir_fd=handle)
            os.close(handle)
            handle = below
        return os.open(".", os.O_RDONLY | HERE, dir_fd=handle)
    finally:
        os.close(handle)


def _parts(path: str) -> List[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def own(handle: int, mode: int, owner: Owner = None) -> None:
    """Give what is open its owner and mode; OSError."""
    # In this order: a new owner takes set-user and set-group bits away.
    if owner is not None:
        os.fchown(handle, *owner)
    os.fchmod(handle, mode)


def own_path(path: str, mode: int, owner: Owner = None) -> None:
    """The same for a file or folder; OSError, also where a link is."""
    with open_folder(os.path.dirname(path.rstrip("/")) or ".") as folder:
        # Nobody is waited for, should it be a pipe.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(os.path.basename(path.rstrip("/")) or ".", flags, dir_fd=folder)
        try:
            own(handle, mode, owner)
        finally:
            os.close(handle)


def make_folders(path: str) -> List[str]:
    """Create the folder and those above it that are missing, readable by everybody, whatever the umask; OSError.

    Returns those that were made, the nearest to the root first.
    """
    missing: List[str] = []
    while not os.path.isdir(path or "."):
        missing.insert(0, path)
        path = os.path.dirname(path)
    for folder in missing:
        with open_folder(os.path.dirname(folder) or ".") as above:
            os.mkdir(os.path.basename(folder), FOLDER_MODE, dir_fd=above)
        own_path(folder, FOLDER_MODE)
    return missing
