# SPDX-License-Identifier: Apache-2.0
"""Holds that let packages change to the planned versions and no others, while the packages are being changed."""

from __future__ import annotations

DOCUMENTATION = r"""
---
name: planned_hold
author: The gpuwright developers (@gpuwright)
version_added: 0.1.0
short_description: Let held packages change to the planned versions only
description:
  - The result is in force while the packages are being changed.
positional: family, owner, version, packages, own_versions
options:
  _input:
    description: Text of dnf's C(versionlock.list), or of gpuwright's apt preferences.
    type: str
    required: true
  family:
    description: C(redhat) or C(debian).
    type: str
    required: true
  owner:
    description: Word that marks the lines.
    type: str
    required: true
  version:
    description: Version to which all of them may change, such as C(580.*).
    type: str
    default: ''
  packages:
    description: Packages that dnf or apt will be asked for.
    type: list
    elements: str
    default: []
  own_versions:
    description: Names of packages to which the version does not apply.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- ansible.builtin.debug:
    msg: "{{ text | gpuwright.node.planned_hold('redhat', 'driver', '580.*') }}"
"""

RETURN = r"""
_value:
  description: The file's new content.
  type: str
"""

import re
from collections.abc import Iterable

# As the role writes them.
BEGIN = "gpuwright-BEGIN-{}-0:0-0.*"
END = "gpuwright-END-{}-0:0-0.*"
# NAME-EPOCH:VERSION-RELEASE.*, as this role writes it; NAME-VERSION-* or NAME-VERSION-RELEASE*, as planned_hold does.
DNF_LINE = re.compile(r"(?P<name>.+?)-(?:\d+:[^-]+-[^-]+|[^-]+-[^-]*\*)$")
APT_STANZA = re.compile(r"(?m)^Package: (?P<name>\S+)\nPin: version (?P<version>\S+)$")


def planned_hold(
    text: str,
    family: str,
    owner: str,
    version: str = "",
    packages: Iterable[str] = (),
    own_versions: Iterable[str] = (),
) -> str:
    """The content of a file of holds in which the packages of C(owner) may change to the planned versions only.

    text          dnf's versionlock.list (family redhat; others' lines stay) or gpuwright's apt preferences (debian)
    version       to which all of them may change, such as 580.* or 580.95.05-*; empty: only those in C(packages)
    packages      as dnf or apt are asked for them, name-version or name=version; without a version they stay held
    own_versions  names to which C(version) does not apply
    """
    planned = {name: wanted for name, wanted in map(_split, packages) if wanted}
    kept = set(own_versions)

    def next_version(name: str) -> str:
        return planned.get(name) or (version if name not in kept else "")

    if family == "debian":
        return APT_STANZA.sub(lambda match: _stanza(match, next_version(match["name"])), text)
    lines, ours = [], False
    begin, end = BEGIN.format(owner), END.format(owner)
    for line in text.splitlines():
        ours = (ours or line == begin) and line != end
        match = DNF_LINE.match(line) if ours and line != begin else None
        # A request to dnf has no architecture and may have no release; a lock is a pattern for all parts.
        wanted = next_version(match["name"]).rstrip("*").rstrip("-") if match else ""
        pattern = wanted + "*" if wanted.endswith(".") else wanted
        lines.append(f"{match['name']}-{pattern}{'*' if '-' in pattern else '-*'}" if match and wanted else line)
    return "".join(f"{line}\n" for line in lines)


def _stanza(match: re.Match[str], version: str) -> str:
    return f"Package: {match['name']}\nPin: version {version or match['version']}"


def _split(package: str) -> tuple[str, str]:
    """Name and version in a request: name, name=version, name-version or name-version-release."""
    if "=" in package:
        name, _, version = package.partition("=")
        return name, version
    # A version has a dot, and no name before it has one: cuda-toolkit-12-9, libcudnn9-cuda-12-9.10.2.21-1.
    match = re.match(r"(?P<name>.+?)-(?P<version>\d+\.\d[^-]*(?:-[^-]+)?)$", package)
    return (match["name"], match["version"]) if match else (package, "")


class FilterModule:
    """Filters of the role system_version_lock."""

    def filters(self) -> dict:
        return {"planned_hold": planned_hold}
