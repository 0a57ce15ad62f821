# SPDX-License-Identifier: Apache-2.0
"""Which packages dnf does not say that it has installed."""

from __future__ import annotations

DOCUMENTATION = r"""
---
name: left_out
author: The gpuwright developers (@gpuwright)
version_added: 1.0.0
short_description: Packages that dnf was asked for and does not name among those that it has installed
description:
  - dnf reports success although it has left out a package of which a newer version is there. What it names need not be
    asked for.
positional: results
options:
  _input:
    description: Packages as dnf understands them, without what they provide.
    type: list
    elements: str
    required: true
  results:
    description: The lines that M(ansible.builtin.dnf) returns as C(results).
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

LINE = re.compile(r"Installed: (?P<name>.+)-(?:\d+:)?(?P<version>[^-:]+)-(?P<release>[^-]+)\.(?P<arch>[^-.]+)$")


def left_out(names: Sequence[str], results: Iterable[str]) -> list[str]:
    """Those of `names` that no line has, by name, name-version, name-version-release, or that with the architecture."""
    known: set[str] = set()
    for line in results:
        found = LINE.match(str(line))
        if found:
            name, version, release, arch = found.group("name", "version", "release", "arch")
            whole = f"{name}-{version}-{release}"
            known |= {name, f"{name}.{arch}", f"{name}-{version}", whole, f"{whole}.{arch}"}
    return [name for name in names if not fnmatch.filter(known, name)]


class FilterModule:
    """Exports the filter."""

    def filters(self) -> dict[str, object]:
        return {"left_out": left_out}
