# SPDX-License-Identifier: Apache-2.0
"""Where programs are looked for, and what they inherit: root runs only what lies where only root can put files.

An empty part of PATH, or of LD_LIBRARY_PATH, means the working directory (execvp(3), ld.so(8)), which may be anybody's.
"""

import os
import re
import stat
from typing import Dict, List, Mapping

# Folders with administration programs, which sudo or a service may leave out of PATH: first the administrator's.
LOCAL_FOLDERS = ("/usr/local/sbin", "/usr/local/bin")
OWN_FOLDERS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
SYSTEM_FOLDERS = LOCAL_FOLDERS + OWN_FOLDERS
LIBRARIES = "LD_LIBRARY_PATH"
# Variables that name code, for the loader and libc (ld.so(8), the list of glibc's sysdeps/generic/unsecvars.h), for
# shells and interpreters (the list of `sudo -V`), and for libraries and package managers that load what a file names.
NAMES_CODE = re.compile(
    r"LD_.*|GCONV_PATH|GETCONF_DIR|GLIBC_TUNABLES|HOSTALIASES|LOCALDOMAIN|LOCPATH|MALLOC_.*|NIS_PATH|NLSPATH|PATH_LOCALE"
    r"|RES_OPTIONS|RESOLV_HOST_CONF|PYTHON.*|PERL.*|RUBY.*|LUA_C?PATH.*|JAVA_TOOL_OPTIONS|NODE_.*|GIT_.*|OPENSSL_.*"
    r"|ENV|BASH_.*|BASHOPTS|SHELLOPTS|PS4|IFS|CDPATH|GLOBIGNORE|FPATH|ZDOTDIR|TERMCAP|TERMINFO.*|APT_CONFIG|RPM_CONFIGDIR"
)


def search_folders(path: str) -> List[str]:
    """Where to look for a program, in order: the trusted folders of `path` (a PATH), then those that it may lack."""
    return trusted_folders(os.pathsep.join([path, *SYSTEM_FOLDERS]))


def trusted_folders(path: str) -> List[str]:
    """The absolute folders of `path`; for root only those in which nobody else can put a program."""
    folders = absolute_parts(path)
    if os.geteuid() != 0:
        return folders
    # Who can write to the system's own folders has root's rights already, and in a user namespace nobody owns them.
    return [folder for folder in folders if folder in OWN_FOLDERS or is_roots_alone(folder)]


def left_out(path: str) -> List[str]:
    """The folders that exist, and in which a program is not looked for since others than root can write there."""
    there = [folder for folder in absolute_parts(os.pathsep.join([path, *LOCAL_FOLDERS])) if os.path.isdir(folder)]
    return sorted(set(there) - set(search_folders(path)))


def inherited(environment: Mapping[str, str]) -> Dict[str, str]:
    """What a program inherits of `environment`: from root nothing that names code which somebody else can write.

    Libraries may lie elsewhere than the system's, as a driver's in a container, so of these the trusted folders stay.
    """
    libraries = absolute_parts(environment.get(LIBRARIES, ""))
    if os.geteuid() == 0:
        environment = {name: value for name, value in environment.items() if not NAMES_CODE.fullmatch(name)}
        libraries = [folder for folder in libraries if is_roots_alone(folder)]
    found = {name: value for name, value in environment.items() if name != LIBRARIES}
    found["PATH"] = os.pathsep.join(search_folders(environment.get("PATH", "")))
    if libraries:
        found[LIBRARIES] = os.pathsep.join(libraries)
    return found


def absolute_parts(path: str) -> List[str]:
    """The parts of a list such as PATH that do not depend on the working directory."""
    return [part for part in path.split(os.pathsep) if os.path.isabs(part)]


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
