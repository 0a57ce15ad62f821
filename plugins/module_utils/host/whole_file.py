# SPDX-License-Identifier: Apache-2.0
"""Write files so that readers find the old or the new one, never half: after a signal, a full disk or a power cut."""

import contextlib
import os
import re
import tempfile
from typing import Optional, Tuple

PUBLIC_MODE = 0o644
# No writer needs that long for one of our files: an older one was left by a writer that was killed.
LEFT_AFTER_S = 60.0


def write_whole(path: str, data: bytes, mode: int = PUBLIC_MODE, owner: Optional[Tuple[int, int]] = None) -> None:
    """Replace the file `path` in one step, also on the disk itself; OSError if that fails; then nothing has changed.

    mode    permission bits, whatever the umask      owner   (uid, gid); by default the user who runs this
    """
    temporary = write_beside(path, data, mode, owner)
    try:
        os.rename(temporary, path)
    except BaseException:
        _remove(temporary)
        raise
    sync_folder(path)


def write_beside(path: str, data: bytes, mode: int, owner: Optional[Tuple[int, int]] = None) -> str:
    """Write a finished file into the folder of `path`, under a unique name, which is returned; OSError."""
    folder, name = os.path.dirname(path) or ".", os.path.basename(path)
    # Readers such as node_exporter read every *.prom, so the unfinished file must not look like one.
    handle, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".new", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            os.chmod(temporary, mode)
            if owner is not None:
                os.chown(temporary, *owner)
            file.flush()
            os.fsync(file.fileno())
            now = os.fstat(file.fileno()).st_mtime
        _remove_left(folder, name, now)
    except BaseException:
        _remove(temporary)
        raise
    return temporary


def sync_file(path: str) -> None:
    """Sync to disk what another program wrote into `path`, a file or a folder; OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: str) -> None:
    """Sync to disk the name of the file `path`: without this, a rename may be lost in a power cut."""
    sync_file(os.path.dirname(path) or ".")


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _remove_left(folder: str, of: str, now: float) -> None:
    """Remove files that killed writers of the same file left; `now` is the folder's own clock."""
    # The letters that tempfile chooses; anybody may have a file whose name only begins and ends like that.
    left = re.compile(r"\.{}\.[a-z0-9_]{{8}}\.new\Z".format(re.escape(of)))
    for name in os.listdir(folder):
        if left.match(name):
            with contextlib.suppress(OSError):
                if now - os.lstat(os.path.join(folder, name)).st_mtime > LEFT_AFTER_S:
                    os.unlink(os.path.join(folder, name))
