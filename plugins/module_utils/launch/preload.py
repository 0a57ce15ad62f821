# SPDX-License-Identifier: Apache-2.0
"""Checks every library that LD_PRELOAD names, and that the loader accepts it.

For a wrong LD_PRELOAD, the dynamic loader prints a message and continues without the library, so the file is checked
here before the environment names it.
"""

import os
import stat
import struct
import sys

from ..host.files import exists, resolve
from .runtime_policy import KNOWN_LIBRARIES, LaunchError

# Importing typing would take a third of gpu-run's start time: its names are only for the type checker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Mapping, Optional

    from .decision import Decision

PACKAGES = {
    "jemalloc": "jemalloc (RHEL 8: EPEL) or libjemalloc2 (Debian, Ubuntu)",
    "tcmalloc": "gperftools-libs (RHEL 8: EPEL) or libtcmalloc-minimal4 (Debian, Ubuntu)",
}
PROOF_SECONDS = 10

# ELF header (elf(5)): e_ident[16], e_type, e_machine.
ELF_HEADER = struct.Struct("=16sHH")
ELF_SHARED_OBJECT = 3
ELF_CLASSES = {1: "32-bit", 2: "64-bit"}
ELF_MACHINES = {"x86_64": 62, "aarch64": 183, "ppc64le": 21, "s390x": 22}


def find_library(name: str, policy: "Dict[str, Any]", root: str = "/") -> str:
    """The verified path of an allocator's library; LaunchError names the file, the fault and the remedy."""
    path = policy["libraries"].get(name)
    if not path:
        candidates = KNOWN_LIBRARIES[name]
        existing = [candidate for candidate in candidates if exists(root, candidate)]
        path = (existing or candidates)[0]
    check_library(path, PACKAGES[name], root)
    return path


def check_library(path: str, package: str, root: str = "/") -> None:
    """Raise LaunchError unless `path` is safe to preload and the loader will accept it."""
    # The loader splits LD_PRELOAD at spaces and colons.
    if not os.path.isabs(path) or set(path) & set(" :\t\n\0"):
        raise LaunchError(f"library {path!r}: an absolute path without spaces and colons is needed")
    real = resolve(root, path)
    if real is None:
        message = "library {}: there is no such file; install {}, or choose --allocator none"
        raise LaunchError(message.format(path, package))
    try:
        with open(real, "rb") as file:
            header = file.read(ELF_HEADER.size)
    except OSError as error:
        raise LaunchError(f"library {path}: cannot be read: {error.strerror}")
    for place in (real, os.path.dirname(real)):
        status = os.stat(place)
        if status.st_uid != 0 or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            message = "library {}: {} must be owned by root and writable by nobody else: chown root and chmod go-w it"
            raise LaunchError(message.format(path, place))
    fault = _elf_fault(header)
    if fault:
        raise LaunchError(f"library {path}: {fault}; install {package}")


def _elf_fault(header: bytes) -> str:
    """Why the loader would refuse a file with these first bytes, "" if it would not."""
    if len(header) < ELF_HEADER.size or header[:4] != b"\x7fELF":
        return "is not an ELF library"
    identity, kind, machine = ELF_HEADER.unpack(header)
    wanted = 2 if sys.maxsize > 2**32 else 1
    if identity[4] != wanted:
        return f"is {ELF_CLASSES.get(identity[4], 'of unknown class')}, this system is {ELF_CLASSES[wanted]}"
    if kind != ELF_SHARED_OBJECT:
        return "is an ELF file, but not a shared library"
    if machine != ELF_MACHINES.get(os.uname().machine, machine):
        return "is for a processor other than " + os.uname().machine
    return ""


def check_callers_preload(decision: "Decision", value: str, root: str = "/") -> None:
    """Refuse a caller's library into which others could put code; a missing one only causes a warning."""
    for path in value.strip().replace(":", " ").split(" "):
        # A bare name is looked up in the system's own folders.
        if not path or "/" not in path:
            continue
        if not os.path.isabs(path):
            message = "LD_PRELOAD={}: {} is relative, so it means another file in every folder; give its absolute path"
            raise LaunchError(message.format(value, path))
        real = resolve(root, path)
        if real is None:
            decision.warnings.append(
                f"LD_PRELOAD names {path}, which does not exist; the loader will continue without it"
            )
            continue
        status, folder = os.stat(real), os.stat(os.path.dirname(real))
        open_folder = folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX
        if status.st_mode & stat.S_IWOTH or open_folder or status.st_uid not in (0, os.geteuid()):
            message = (
                "LD_PRELOAD={}: {} can be changed by other users; unset it, or make it yours or root's and chmod o-w it"
            )
            raise LaunchError(message.format(value, path))


def prove_preload(
    library: str, environment: "Mapping[str, str]", before_start: "Optional[Callable[[], None]]" = None
) -> str:
    """ "" if a process with this environment has the library in memory and the allocator prints nothing, else why not.

    Runs `cat /proc/self/maps`: nothing of the command is started. `before_start` is `bounded.run_bounded`'s.
    """
    from ..host.bounded import run_bounded

    done = run_bounded(["cat", "/proc/self/maps"], PROOF_SECONDS, environment=environment, before_start=before_start)
    if done.problem:
        return done.problem
    mapped = {line.split(None, 5)[5] for line in done.stdout.splitlines() if len(line.split(None, 5)) == 6}
    said = done.stderr.strip().splitlines()
    if os.path.realpath(library) not in mapped:
        return f"the loader did not load {library}{': ' + said[0] if said else ''}"
    return "it says: " + said[0] if said else ""
