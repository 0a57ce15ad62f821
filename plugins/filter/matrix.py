# SPDX-License-Identifier: Apache-2.0
"""Read the matrix of what fits what: a folder of YAML files, each with top-level names of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleFilterError

# The C loader is ten times as fast; a controller without it reads the same.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def matrix(folder: str, without: Sequence[str] = ()) -> dict[str, Any]:
    """The content of all YAML files of `folder` as one dict; files named in `without` are not read."""
    found: dict[str, Any] = {}
    for file in sorted(file for file in Path(folder).glob("*.yml") if file.name not in without):
        content = yaml.load(file.read_text(encoding="utf-8"), Loader=LOADER)
        if not isinstance(content, dict):
            raise AnsibleFilterError(f"{file} must hold names and what belongs to them")
        twice = sorted(set(found) & set(content))
        if twice:
            raise AnsibleFilterError(f"{file} defines {', '.join(twice)} a second time")
        found.update(content)
    if not found:
        raise AnsibleFilterError(f"no YAML file in {folder}: this is where the matrix of versions is expected")
    return found


class FilterModule:
    """Filters of the role preflight."""

    def filters(self) -> dict[str, Any]:
        return {"matrix": matrix}
