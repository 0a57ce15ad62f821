# SPDX-License-Identifier: Apache-2.0
"""Which packages are installed, and who holds the package manager, read without starting dnf."""

import fcntl
import os
import struct

from .bounded import run_bounded

# Files that hold the pid of a running dnf or yum (dnf/lock.py), below its cache and run directories.
DNF_PID_FILES = (
    "var/cache/dnf/metadata_lock.pid",
    "var/cache/dnf/download_lock.pid",
    "var/lib/dnf/rpmdb_lock.pid",
    "var/run/dnf/metadata_lock.pid",
    "var/run/yum.pid",
)
# rpm takes a POSIX lock on this file for the length of a transaction (lib/rpmlock.c).
RPM_LOCK_FILES = ("var/lib/rpm/.rpm.lock", "usr/lib/sysimage/rpm/.rpm.lock")


RPM_SECONDS = 60


def missing_packages(names):
    """The members of `names` that rpm does not know as installed, neither by name nor by what they provide.

    Raises OSError when rpm itself cannot be asked.
    """
    if not names or _rpm_knows(names):
        return []
    return [name for name in names if not (_rpm_knows([name]) or _rpm_knows(["--whatprovides", name]))]


def _rpm_knows(arguments):
    done = run_bounded(["rpm", "-q"] + list(arguments), timeout=RPM_SECONDS)
    if done.rc is None:
        raise OSError("rpm cannot say what is installed: " + done.problem)
    return done.rc == 0


def lock_holder(root="/"):
    """`{"pid": int, "command": str}` of a running process that holds a package manager's lock, or None."""
    for name in DNF_PID_FILES:
        pid = _pid_in(os.path.join(root, name))
        command = _command(pid, root) if pid else None
        # A dnf that was killed leaves its file behind, and the pid may since belong to anyone.
        if command and any(word in command for word in ("dnf", "yum", "packagekit", "ansible", "python")):
            return {"pid": pid, "command": command}
    for name in RPM_LOCK_FILES:
        pid = _posix_lock_owner(os.path.join(root, name))
        if pid:
            return {"pid": pid, "command": _command(pid, root) or "unknown"}
    return None


def _pid_in(path):
    try:
        with open(path) as file:
            return int(file.read(32).strip() or 0)
    except (OSError, ValueError):
        return 0


def _command(pid, root="/"):
    try:
        with open(os.path.join(root, "proc", str(pid), "cmdline"), "rb") as file:
            return file.read(400).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return None


def _posix_lock_owner(path):
    """Pid that holds a write lock on `path`, 0 when nobody does or when this cannot be asked."""
    try:
        with open(path, "rb") as file:
            # struct flock of Linux on 64-bit machines: l_type, l_whence, l_start, l_len, l_pid.
            question = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
            answer = struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_GETLK, question))
            return answer[4] if answer[0] != fcntl.F_UNLCK else 0
    except OSError:
        return 0
