# SPDX-License-Identifier: Apache-2.0
"""The folders in which programs are looked for. What root runs must be where only root can put files.

An empty part of PATH, or of LD_LIBRARY_PATH, means the working directory (execvp(3), ld.so(8)), which may be anybody's.
"""

import os
import stat
from typing import List

# Folders with administration programs, which sudo or a service may leave out of PATH.
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


def search_folders(path: str) -> List[str]:
    """Where to look for a program, in order: the trusted folders of `path` (a PATH), then those that it may lack."""
    return trusted_folders(path) + list(SYSTEM_FOLDERS)


def trusted_folders(path: str) -> List[str]:
    """The absolute folders of `path`; for root only those in which nobody else can put a program."""
    folders = absolute_parts(path)
    if os.geteuid() != 0:
        return folders
    # The system's own folders are accepted as they are: on Debian, the group staff may write to /usr/local.
    return [folder for folder in folders if folder in SYSTEM_FOLDERS or is_roots_alone(folder)]


def absolute_parts(path: str) -> List[str]:
    """The parts of a list such as PATH that do not depend on the working directory."""
    return [part for part in path.split(os.pathsep) if os.path.isabs(part)]


def cleaned_list(path: str) -> str:
    """The list without the parts that depend on the working directory."""
    return os.pathsep.join(absolute_parts(path))


def is_roots_alone(folder: str) -> bool:
    """Whether only root can change the content of `folder`, and replace it; False if it cannot be examined.

    The owner of a folder above could put another in its place, unless the sticky bit prevents that.
    """
    here = os.path.realpath(folder)
    try:
        if not _is_closed(os.stat(here)):
            return False
        while here != os.path.dirname(here):
            here = os.path.dirname(here)
            status = os.stat(here)
            if not (_is_closed(status) or (status.st_uid == 0 and status.st_mode & stat.S_ISVTX)):
                return False
    except OSError:
        return False
    return True


def _is_closed(status: os.stat_result) -> bool:
    """Whether it is owned by root, and writable by nobody else."""
    by_group = status.st_mode & stat.S_IWGRP and status.st_gid != 0
    return status.st_uid == 0 and not status.st_mode & stat.S_IWOTH and not by_group
