"""Whether the ways really did the same: packages, files and units of their first hosts, compared."""

from __future__ import annotations

from typing import Any

from fleet_hosts import Fleet
from payload import LIST_PACKAGES, packages_of

MOST_NAMED = 12
FOLDERS = ("/etc", "/opt/gpuwright", "/srv/gan", "/usr/bin", "/usr/local", "/var/lib/gpuwright")
# Of each host alone: identities, logs, what a restart makes, compiled files with their times, keys that dnf keeps. And
# RECORD, in which pip lists the files that it has compiled itself, beside those that are compared here.
OWN = (
    *("__pycache__", ".dist-info/RECORD"),
    *("/etc/machine-id", "/etc/ssh/ssh_host", "/etc/fleet", "/etc/hosts", "/etc/hostname"),
    *("/etc/resolv.conf", "/etc/mtab", "/etc/.pwd.lock", "/etc/passwd-", "/etc/group-", "/etc/shadow", "/etc/gshadow"),
)
LIST_FILES = (
    f"find {' '.join(FOLDERS)} -xdev \\( -type f -o -type l \\) -print0 2>/dev/null"
    " | sort -z | xargs -0 sha256sum 2>/dev/null"
)


def sums_of(text: str) -> dict[str, str]:
    """Checksum of each file in LIST_FILES' answer, without what is each host's own."""
    rows = [line.split("  ", 1) for line in text.splitlines() if "  " in line]
    return {path: digest for digest, path in rows if not any(own in path for own in OWN)}


def compared(ours: dict[str, str], other: dict[str, str]) -> dict[str, Any]:
    """How many files are equal, and the first names of those that only one has or that differ."""
    differ = sorted(path for path in ours.keys() & other.keys() if ours[path] != other[path])
    only_ours, only_other = sorted(ours.keys() - other.keys()), sorted(other.keys() - ours.keys())
    return {
        "equal": sum(other.get(path) == digest for path, digest in ours.items()),
        "differ": {"count": len(differ), "names": differ[:MOST_NAMED]},
        "only here": {"count": len(only_other), "names": only_other[:MOST_NAMED]},
        "only gpuwright": {"count": len(only_ours), "names": only_ours[:MOST_NAMED]},
    }


def differences(fleets: dict[str, Fleet], ours: str, others: list[str]) -> dict[str, Any]:
    """For each other way: packages that are not the same, and the files."""

    def ask(arm: str, script: str) -> str:
        fleet = fleets[arm]
        fleet.hold(False)
        try:
            return fleet.do(fleet.names[0], script, check=False)
        finally:
            fleet.hold(True)

    packages, files = packages_of(ask(ours, LIST_PACKAGES)), sums_of(ask(ours, LIST_FILES))
    found = {}
    for arm in others:
        theirs = packages_of(ask(arm, LIST_PACKAGES))
        odd = sorted({name for name, _version in {*packages.items()} ^ {*theirs.items()}})
        found[arm] = {"packages": len(packages), "packages that differ": odd[:MOST_NAMED]}
        found[arm] |= compared(files, sums_of(ask(arm, LIST_FILES)))
    return found
