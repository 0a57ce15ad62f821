# SPDX-License-Identifier: Apache-2.0
"""Write files so that readers find the old or the new one, never half: after a signal, a full disk or a power cut.

The folder may belong to somebody who changes names in it meanwhile, so all is done by descriptors (`owning`).
"""

import binascii
import contextlib
import errno
import os
import re
import stat

from .written.owning import Owner, open_folder, own

PUBLIC_MODE = 0o644
# No writer needs that long for one of our files: an older one was left by a writer that was killed.
LEFT_AFTER_S = 60.0
# File systems that have no links, such as vfat and some network shares.
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EACCES)


def write_whole(path: str, data: bytes, mode: int = PUBLIC_MODE, owner: Owner = None) -> None:
    """Replace the file `path` in one step, also on the disk itself; OSError if that fails; then nothing has changed.

    mode    permission bits, whatever the umask      owner   (uid, gid); by default the user who runs this
    """
    with open_folder(os.path.dirname(path) or ".") as folder:
        name = os.path.basename(path)
        temporary = _write_beside(folder, name, data, mode, owner)
        try:
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            _remove(folder, temporary)
            raise
        os.fsync(folder)


def write_edited(path: str, data: bytes, most: int = 0o7777) -> None:
    """Replace somebody else's file: mode and owner stay as they are; of the mode, the bits that are in `most`."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        status = None
    if status is None or not stat.S_ISREG(status.st_mode):
        write_whole(path, data, PUBLIC_MODE & most)
    else:
        write_whole(path, data, stat.S_IMODE(status.st_mode) & most, (status.st_uid, status.st_gid))


def write_new(path: str, data: bytes, mode: int) -> None:
    """The same for a file that does not exist yet; OSError also if there is one."""
    with open_folder(os.path.dirname(path) or ".") as folder:
        name = os.path.basename(path)
        temporary = _write_beside(folder, name, data, mode, None)
        try:
            # A link, unlike a rename, fails if the name is taken.
            os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            if error.errno not in NO_LINKS or name in os.listdir(folder):
                raise
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            _remove(folder, temporary)
        os.fsync(folder)


def _write_beside(folder: int, name: str, data: bytes, mode: int, owner: Owner) -> str:
    """Write a finished file into the open folder, under a unique name, which is returned; OSError."""
    # Readers such as node_exporter read every *.prom, so the unfinished file must not look like one.
    temporary = f".{name}.{binascii.hexlify(os.urandom(4)).decode('ascii')}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            own(file.fileno(), mode, owner)
            os.fsync(file.fileno())
            now = os.fstat(file.fileno()).st_mtime
        _remove_left(folder, name, now)
    except BaseException:
        _remove(folder, temporary)
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


def _remove(folder: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _remove_left(folder: int, of: str, now: float) -> None:
    """Remove files that killed writers of the same file left; `now` is the folder's own clock."""
    # The letters of the writers' names; anybody may have a file whose name only begins and ends like that.
    left = re.compile(r"\.{}\.[a-z0-9_]{{8}}\.new\Z".format(re.escape(of)))
    for name in os.listdir(folder):
        if left.match(name):
            with contextlib.suppress(OSError):
                if now - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime > LEFT_AFTER_S:
                    os.unlink(name, dir_fd=folder)
