# SPDX-License-Identifier: Apache-2.0
"""The family of distributions that a host belongs to, which decides about its package manager."""

from typing import Iterable

from .files import read_assignments

REDHAT_FAMILY = {"rhel", "centos", "fedora", "rocky", "almalinux", "ol"}
DEBIAN_FAMILY = {"debian", "ubuntu"}


def family_of(names: Iterable[str]) -> str:
    """redhat, debian or unknown, from the words of ID and ID_LIKE."""
    known = set(names)
    return "redhat" if known & REDHAT_FAMILY else "debian" if known & DEBIAN_FAMILY else "unknown"


def read_family(root: str = "/") -> str:
    """The same, from the host's /etc/os-release."""
    release = read_assignments(root, "/etc/os-release")
    return family_of([release.get("ID", ""), *release.get("ID_LIKE", "").split()])
