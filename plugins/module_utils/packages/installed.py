# SPDX-License-Identifier: Apache-2.0
"""Which packages are installed, and who holds the package manager, read without starting dnf or apt."""

import fcntl
import fnmatch
import os
import re
import struct
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set

from ..host.bounded import run_bounded
from .state import installed_twice, unfinished_items

# Files that hold the pid of a running dnf or yum (dnf/lock.py), below its cache and run directories.
DNF_PID_FILES = (
    "var/cache/dnf/metadata_lock.pid",
    "var/cache/dnf/download_lock.pid",
    "var/lib/dnf/rpmdb_lock.pid",
    "var/run/dnf/metadata_lock.pid",
    "var/run/yum.pid",
)
# rpm holds a POSIX lock on this file during a transaction (lib/rpmlock.c).
RPM_LOCK_FILES = ("var/lib/rpm/.rpm.lock", "usr/lib/sysimage/rpm/.rpm.lock")
# The same for dpkg and apt, in the order in which apt takes them (apt-pkg/deb/debsystem.cc).
DPKG_LOCK_FILES = (
    "var/lib/dpkg/lock-frontend",
    "var/lib/dpkg/lock",
    "var/lib/apt/lists/lock",
    "var/cache/apt/archives/lock",
)
# Files that the package managers rewrite with every change.
PACKAGE_FILES = (
    "/var/lib/rpm/Packages",
    "/var/lib/rpm/rpmdb.sqlite",
    "/usr/lib/sysimage/rpm/rpmdb.sqlite",
    "/var/lib/dpkg/status",
)
# dpkg's states between "unpacked" and "installed" (dpkg-query(1)).
UNFINISHED = ("half-installed", "unpacked", "half-configured", "triggers-awaited", "triggers-pending")
QUERY_SECONDS = 60
FAMILIES = ("redhat", "debian")


def missing_packages(names: Sequence[str], family: str) -> List[str]:
    """The members of `names` that are not installed, neither by name nor as something provided, in the order given.

    family  redhat: names as dnf understands them, `name` or `name-version`, the version may be a pattern such as 580.*;
            debian: as apt does, `name` or `name=version`, the version may be a pattern such as 535.261.03-*
    Raises OSError if the package database cannot be queried.
    """
    if not names:
        return []
    return _missing_debs(names) if family == "debian" else _missing_rpms(names)


def _missing_rpms(names: Sequence[str]) -> List[str]:
    patterns = [name for name in names if "*" in name]
    plain = [name for name in names if "*" not in name]
    missing = set(missing_patterns(patterns, _all_rpms()) if patterns else [])
    if plain and not _rpm_knows(plain):
        missing.update(name for name in plain if not (_rpm_knows([name]) or _rpm_knows(["--whatprovides", name])))
    return [name for name in names if name in missing]


def missing_patterns(patterns: Sequence[str], listing: str) -> List[str]:
    """Those of `patterns` (name-version or name-version-release, with asterisks) that no line of a listing matches."""
    installed = listing.split()
    return [pattern for pattern in patterns if not fnmatch.filter(installed, pattern)]


def _all_rpms() -> str:
    form = "%{NAME}-%{VERSION}\n%{NAME}-%{VERSION}-%{RELEASE}\n"
    done = run_bounded(["rpm", "-qa", "--qf", form], timeout=QUERY_SECONDS)
    if done.rc != 0:
        raise OSError("rpm cannot say what is installed: " + (done.problem or done.stderr.strip()))
    return done.stdout


def _rpm_knows(arguments: Sequence[str]) -> bool:
    done = run_bounded(["rpm", "-q"] + list(arguments), timeout=QUERY_SECONDS)
    if done.rc is None:
        raise OSError("rpm cannot say what is installed: " + done.problem)
    return done.rc == 0


def _missing_debs(names: Sequence[str]) -> List[str]:
    form = "${db:Status-Status}\t${Package}\t${Version}\t${Provides}\n"
    return missing_debs(names, _ask_dpkg(form))


def _ask_dpkg(form: str) -> str:
    done = run_bounded(["dpkg-query", "--show", "--showformat", form], timeout=QUERY_SECONDS)
    if done.rc != 0:
        raise OSError("dpkg cannot say what is installed: " + (done.problem or done.stderr.strip()))
    return done.stdout


def unfinished_packages(family: str) -> List[str]:
    """Packages that an interrupted transaction left behind, sorted; OSError if dpkg cannot be queried.

    debian  unpacked but not configured, which stops every later transaction
    redhat  installed, for rpm, although their scriptlets may not have run; as name-version-release.arch
    """
    if family != "debian":
        return [name for name in unfinished_items() if _rpm_knows([name])]
    lines = [line.partition(" ") for line in _ask_dpkg("${db:Status-Status} ${Package}\\n").splitlines()]
    return sorted({package for status, _, package in lines if status in UNFINISHED})


def half_replaced_packages(names: Sequence[str], family: str) -> List[str]:
    """Those of `names` (as in missing_packages), and of what a transaction of dnf did not finish, that are there in two
    versions, sorted. A scriptlet that fails leaves the old one, too. dpkg leaves none, and kernels may be many.
    """
    if family != "redhat":
        return []
    asked = {re.sub(r"-[0-9].*", "", name) for name in names}
    unfinished = {item.rsplit("-", 2)[0] for item in unfinished_items()}
    return installed_twice(_ask_rpm, sorted(name for name in asked | unfinished if not name.startswith("kernel")))


def _ask_rpm(command: Sequence[str]) -> Optional[str]:
    done = run_bounded(command, timeout=QUERY_SECONDS)
    return None if done.rc is None else done.stdout


def missing_debs(names: Iterable[str], listing: str) -> List[str]:
    """Those of `names` that a listing (status, package, version, provides; by tabs) does not have as installed."""
    versions: Dict[str, Any] = {}
    provided: Set[str] = set()
    for line in listing.splitlines():
        status, package, version, provides = (line + "\t\t\t").split("\t")[:4]
        # A package that apt has not finished is not installed yet.
        if status == "installed":
            versions[package] = version
            provided.update(word.strip().split(" ")[0] for word in provides.split(",") if word.strip())
    missing = []
    for name in names:
        package, _, wanted = name.partition("=")
        found = versions.get(package)
        if found is None:
            there = not wanted and package in provided
        else:
            there = not wanted or fnmatch.fnmatchcase(found, wanted)
        missing += [] if there else [name]
    return missing


def lock_holder(root: str = "/") -> Any:
    """`{"pid": int, "command": str}` of a running process that holds a package manager's lock, or None."""
    for name in DNF_PID_FILES:
        pid = _pid_in(os.path.join(root, name))
        command = _command(pid, root) if pid else None
        # A dnf that was killed leaves its file behind, and the pid may now belong to any process.
        if command and any(word in command for word in ("dnf", "yum", "packagekit", "ansible", "python")):
            return {"pid": pid, "command": command}
    for name in RPM_LOCK_FILES + DPKG_LOCK_FILES:
        pid = _posix_lock_owner(os.path.join(root, name))
        if pid:
            return {"pid": pid, "command": _command(pid, root) or "unknown"}
    return None


def _pid_in(path: str) -> Optional[int]:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read(32).strip() or 0)
    except (OSError, ValueError):
        return 0


def _command(pid: int, root: str = "/") -> Optional[str]:
    try:
        with open(os.path.join(root, "proc", str(pid), "cmdline"), "rb") as file:
            return file.read(400).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return None


def _posix_lock_owner(path: str) -> Optional[int]:
    """Pid that holds a write lock on `path`, 0 if nobody does or this cannot be determined."""
    try:
        with open(path, "rb") as file:
            # struct flock of Linux on 64-bit machines: l_type, l_whence, l_start, l_len, l_pid.
            question = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
            answer = struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_GETLK, question))
            return answer[4] if answer[0] != fcntl.F_UNLCK else 0
    except OSError:
        return 0
