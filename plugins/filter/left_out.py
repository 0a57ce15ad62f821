# SPDX-License-Identifier: Apache-2.0
"""Which packages the package manager does not say that it has installed."""

from __future__ import annotations

DOCUMENTATION = r"""
---
name: left_out
author: The gpuwright developers (@gpuwright)
version_added: 0.2.0
short_description: Packages that dnf or apt was asked for and does not name among those that it has installed
description:
  - dnf reports success although it has left out a package of which a newer version is there. What it names need not be
    asked for.
positional: results
options:
  _input:
    description: Packages as dnf or apt understands them, without what they provide.
    type: list
    elements: str
    required: true
  results:
    description: >-
      The lines that M(ansible.builtin.dnf) returns as C(results), or those of the text that M(ansible.builtin.apt)
      returns as C(stdout).
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- ansible.builtin.debug:
    msg: "{{ ['gcc', 'dkms'] | gpuwright.node.left_out(['Installed: gcc-8.5.0-18.el8.x86_64']) }}"
"""

RETURN = r"""
_value:
  description: Those that are not named, in their order.
  type: list
  elements: str
  sample: [dkms]
"""

import fnmatch
import re
from collections.abc import Iterable, Sequence

OF_DNF = re.compile(r"Installed: (?P<name>.+)-(?:\d+:)?(?P<version>[^-:]+)-(?P<release>[^-]+)\.(?P<arch>[^-.]+)$")
# dpkg says so when it runs a package's scripts, the last step. Ansible's module asks it to speak English.
OF_APT = re.compile(r"Setting up (?P<name>[^ :]+)(?P<arch>:[^ ]+)? \((?P<version>[^)]+)\) \.\.\.\s*$")


def left_out(names: Sequence[str], results: Iterable[str]) -> list[str]:
    """Those of `names` that no line has, by name, name-version, name-version-release, or that with the architecture;
    for apt, by name, name:architecture or name=version."""
    known: set[str] = set()
    for line in map(str, results):
        if found := OF_DNF.match(line):
            name, version, release, arch = found.group("name", "version", "release", "arch")
            whole = f"{name}-{version}-{release}"
            known |= {name, f"{name}.{arch}", f"{name}-{version}", whole, f"{whole}.{arch}"}
        elif found := OF_APT.match(line):
            name, version, arch = found.group("name", "version", "arch")
            known |= {name, f"{name}={version}", f"{name}{arch or ''}"}
    return [name for name in names if not fnmatch.filter(known, name)]


class FilterModule:
    """Exports the filter."""

    def filters(self) -> dict[str, object]:
        return {"left_out": left_out}
