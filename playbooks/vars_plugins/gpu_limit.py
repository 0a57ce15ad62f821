# SPDX-License-Identifier: Apache-2.0
"""Guard of -l: Ansible goes on without what it cannot match, so that a slip leaves hosts out, or excludes none."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterable, Sequence
from typing import Any

from ansible import context
from ansible.errors import AnsibleError
from ansible.inventory.group import Group
from ansible.inventory.manager import split_host_pattern
from ansible.plugins.vars import BaseVarsPlugin

DOCUMENTATION = """
name: gpu_limit
short_description: An error that names what a C(--limit) misspells
description:
  - Gives no variables. It is asked once the inventory is read, which is before Ansible looks at C(--limit).
  - Stops where a part of C(--limit), an exclusion too, is the name or pattern of no host and no group.
options:
  stage:
    description: When the plugin is asked.
    type: str
    default: inventory
    choices: [inventory]
"""

# Hosts that Ansible knows without an inventory.
IMPLICIT = ("localhost", "127.0.0.1", "::1")


def limit_problems(limit: str, names: Iterable[str]) -> list[str]:
    """One sentence for each part of the limit that none of these names of hosts and groups fits."""
    known = sorted({*names, "all", "ungrouped"})
    found = []
    for part in split_host_pattern(limit):
        pattern = part.lstrip("!&")
        # A file of names is read by Ansible itself, which says so when it cannot.
        if not pattern or pattern.startswith("@") or _fits(pattern, [*known, *IMPLICIT]):
            continue
        near = difflib.get_close_matches(_base(pattern), known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        found.append(f"--limit {limit}: {pattern} is no host and no group of the inventory{hint}")
    return found


def _base(pattern: str) -> str:
    """gpu_nodes of gpu_nodes[0:3]."""
    return re.sub(r"(?<=.)\[-?[0-9]*([:-][0-9]*)?\]$", "", pattern)


def _fits(pattern: str, names: Sequence[str]) -> bool:
    if pattern.startswith("~"):
        try:
            return any(re.match(pattern[1:], name) for name in names)
        except re.error:
            return False
    return any(fnmatch.fnmatchcase(name, wanted) for name in names for wanted in (pattern, _base(pattern)))


class VarsModule(BaseVarsPlugin):
    """Asked for every group; the group of all knows every name."""

    def get_vars(self, loader: Any, path: str, entities: Any) -> dict[str, Any]:
        limit = context.CLIARGS.get("subset")
        for entity in entities if isinstance(entities, list) else [entities]:
            if limit and isinstance(entity, Group) and entity.name == "all":
                names = [
                    *(host.name for host in entity.get_hosts()),
                    *(group.name for group in entity.get_descendants()),
                ]
                found = limit_problems(limit, names)
                if found and entity.get_hosts():
                    raise AnsibleError(f"Nothing was done: {'. '.join(found)}")
        return {}
