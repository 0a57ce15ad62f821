# SPDX-License-Identifier: Apache-2.0
"""Packages that are held at a version, and the security updates that wait for them.

The package manager answers from the lists that it fetched last: nothing is downloaded and nothing is changed.
"""

import os
import re
import time
from fnmatch import fnmatchcase
from typing import Any, Callable, Dict, List, Mapping, Optional, Pattern, Sequence

from ...host.bounded import Finished, run_bounded
from ...host.files import below, names_in, read_text
from ...host.patterns import lazily
from ...packages.locks import LOCK_LIST, read_version_locks

SECONDS = 60
# dnf's own lock list is left out, since versions of dnf differ in whether it hides what it holds.
ADVISORIES = (
    "dnf", "--cacheonly", "--quiet", "--disableplugin=versionlock", "updateinfo", "list", "--security", "--updates",
)  # fmt: skip
# RHSA-2026:0001 Important/Sec. kernel-4.18.0-553.el8_10.x86_64
ADVISORY = lazily(r"(\S+)\s+(\S+)/Sec\.\s+(\S+)$")
NO_CACHE = lazily(r"[Cc]ache-only enabled but no cache")
# In a pattern of versionlock.list, what follows the package's name: -epoch:version-release.arch, any part a glob.
VERSION_OF_LOCK = lazily(r"-(?:[0-9*]+:)?[^-]+-[^-]+$")

DNF_CACHE, DNF_LIST, APT_LIST = "/var/cache/dnf", lazily(r"^repomd\.xml$"), lazily(r"_(In)?Release$")
DPKG, LISTS, PREFERENCES = "/var/lib/dpkg/status", "/var/lib/apt/lists", "/etc/apt/preferences.d"
UPGRADE = ("apt-get", "--simulate", "--with-new-pkgs")
FREE = (
    "--ignore-hold", "-o", "Dir::Etc::Preferences=/dev/null", "-o", "Dir::Etc::PreferencesParts=/dev/null", "upgrade",
)  # fmt: skip
# Inst openssl [3.0.15-1] (3.0.17-1~deb12u2 Debian-Security:12/stable-security [amd64])
INSTALLS = lazily(r"Inst (\S+) \[[^\]]*\] \((\S+) ([^)]*)\)")
# A preference for a version keeps the package there; one for an origin or a release only says from where it comes.
PINNED = lazily(r"^Pin:\s*version\s", re.MULTILINE)
HELD = b"Status: hold "

# run_bounded, or a replacement for it.
RunProgram = Callable[[Sequence[str], float], Finished]


def read_held_updates(root: str, probe: Mapping[str, Any], run: RunProgram = run_bounded) -> Optional[Dict[str, Any]]:
    """`{manager, updates: [{package, advisory}], days}`, null where neither of the two holds anything.

    `updates` is null where the package manager has fetched no lists. `package` names the update, with its version;
    `advisory` is the advisory's name and severity with dnf, the update's origin with apt. `days` is the age of the
    newest list, null where there is none to be seen.
    """
    # Either package manager may be installed on a system of the other one.
    system = probe.get("os")
    if not system:
        raise OSError("the probe does not say which system this is, and so not which package manager it has")
    family = system.get("family")
    if family == "debian":
        held = _pins_a_version(root) or _holds(root)
        # apt keeps the time at which the archive wrote a list.
        days = _days(root, LISTS, APT_LIST)
        return {"manager": "apt", "updates": _updates_of_apt(root, run), "days": days} if held else None
    if family != "redhat":
        return None
    locks = [lock for lock in read_version_locks(root) if not lock.startswith("!")]
    if not locks:
        return None
    ages = [_days(root, f"{DNF_CACHE}/{name}/repodata", DNF_LIST) for name in names_in(root, DNF_CACHE)]
    days = min((age for age in ages if age is not None), default=None)
    return {"manager": "dnf", "updates": _updates_of_dnf(locks, run), "days": days}


def _days(root: str, folder: str, names: Pattern[str]) -> Optional[int]:
    """The age of the newest of these files in whole days; None if there is none. One from the future is new."""
    times = [os.stat(below(root, f"{folder}/{name}")).st_mtime for name in names_in(root, folder) if names.search(name)]
    return max(0, int((time.time() - max(times)) // 86400)) if times else None


def _updates_of_dnf(locks: Sequence[str], run: RunProgram) -> Optional[List[Dict[str, str]]]:
    done = run(ADVISORIES, SECONDS)
    if done.rc and NO_CACHE.search(done.stderr):
        return None
    _must_have_ended_well(done)
    names = [VERSION_OF_LOCK.sub("", lock) for lock in locks]
    found = (ADVISORY.match(line.strip()) for line in done.stdout.splitlines())
    return [
        {"package": one.group(3), "advisory": f"{one.group(1)} ({one.group(2)})"}
        for one in found
        if one and any(fnmatchcase(name_of_rpm(one.group(3)), name) for name in names)
    ]


def name_of_rpm(package: str) -> str:
    """The name in name-version-release.arch."""
    return package.rsplit(".", 1)[0].rsplit("-", 2)[0]


def _updates_of_apt(root: str, run: RunProgram) -> Optional[List[Dict[str, str]]]:
    """What an upgrade without holds and preferences would install from a security archive, and one with them not."""
    if not any("_Packages" in name for name in names_in(root, LISTS)):
        return None
    now, free = _upgrade(run, ("upgrade",)), _upgrade(run, FREE)
    return [
        {"package": package, "advisory": free[package]}
        for package in sorted(set(free) - set(now))
        if "security" in free[package].lower()
    ]


def _holds(root: str) -> bool:
    try:
        # Some megabytes, a few lines for each package.
        with open(below(root, DPKG), "rb") as file:
            return any(line.startswith(HELD) for line in file)
    except OSError:
        return False


def _pins_a_version(root: str) -> bool:
    """Asking apt twice costs seconds of processor time, so that is only done where something is held."""
    return any(PINNED.search(read_text(root, f"{PREFERENCES}/{name}") or "") for name in names_in(root, PREFERENCES))


def _upgrade(run: RunProgram, words: Sequence[str]) -> Dict[str, str]:
    """`{"name version": origin}` of what apt would install over another version."""
    done = run([*UPGRADE, *words], SECONDS)
    _must_have_ended_well(done)
    found = (INSTALLS.match(line) for line in done.stdout.splitlines())
    return {f"{one.group(1)} {one.group(2)}": one.group(3).split(" [")[0] for one in found if one}


def _must_have_ended_well(done: Finished) -> None:
    if done.rc != 0:
        lines = done.stderr.strip().splitlines()
        raise OSError(done.problem or (lines[-1][:200] if lines else f"it ended with status {done.rc}"))


# What is read, for messages.
READ_FROM = f"{LOCK_LIST} and dnf's lists, or {PREFERENCES} and apt's"
