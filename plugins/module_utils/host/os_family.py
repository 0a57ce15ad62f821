# SPDX-License-Identifier: Apache-2.0
"""The family of distributions that a host belongs to, which decides about its package manager; dnf's own Python."""

import os
from typing import Iterable

from .bounded import find_program
from .files import read_assignments

REDHAT_FAMILY = {"rhel", "centos", "fedora", "rocky", "almalinux", "ol"}
DEBIAN_FAMILY = {"debian", "ubuntu"}
PYTHONS = ("/usr/libexec/platform-python", "/usr/bin/python3")


def family_of(names: Iterable[str]) -> str:
    """redhat, debian or unknown, from the words of ID and ID_LIKE."""
    known = set(names)
    return "redhat" if known & REDHAT_FAMILY else "debian" if known & DEBIAN_FAMILY else "unknown"


def read_family(root: str = "/") -> str:
    """The same, from the host's /etc/os-release."""
    release = read_assignments(root, "/etc/os-release")
    return family_of([release.get("ID", ""), *release.get("ID_LIKE", "").split()])


class NoDnf(OSError):
    """This machine has no dnf."""


def python_of_dnf() -> str:
    """The Python in dnf's own first line, which has its bindings: another may be newer. OSError, `NoDnf`."""
    program = find_program("dnf")
    if program is None:
        raise NoDnf("there is no dnf")
    with open(program, "rb") as file:
        first = file.readline(200).decode("utf-8", "replace")
    words = first[2:].split() if first.startswith("#!") else []
    named = [words[0]] if words and os.path.basename(words[0]) != "env" else []
    found = next((path for path in [*named, *PYTHONS] if os.access(path, os.X_OK)), None)
    if found is None:
        raise OSError("there is no Python that dnf runs with")
    return found
