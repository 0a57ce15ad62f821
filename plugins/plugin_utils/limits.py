# SPDX-License-Identifier: Apache-2.0
"""Parts of a -l that match no host and no group: Ansible ignores them, so a slip drops hosts or excludes none."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterable, Sequence

from ansible.inventory.manager import split_host_pattern

# A pattern that is no mistake and matches no host; an empty list of patterns means all hosts to Ansible.
NOBODY = "all:!all"
# Hosts that Ansible knows without an inventory.
IMPLICIT = ("localhost", "127.0.0.1", "::1")


def unknown_parts(pattern: str, names: Iterable[str]) -> list[str]:
    """The parts of a host pattern that match none of these names of hosts and groups."""
    known = [*names, "all", "ungrouped", *IMPLICIT]
    # A file of names is read by Ansible itself, which reports it if it cannot.
    parts = [part.lstrip("!&") for part in split_host_pattern(pattern)]
    return [part for part in parts if part and not part.startswith("@") and not _fits(part, known)]


def limit_problems(limit: str, names: Iterable[str]) -> list[str]:
    """One sentence for each part of the limit that is unknown."""
    known = sorted({*names, "all", "ungrouped"})
    found = []
    for part in unknown_parts(limit, known):
        # People write a host's name without its domain.
        near = [name for name in known if name.partition(".")[0] == part][:1]
        near = near or difflib.get_close_matches(_base(part), known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        found.append(f"--limit {limit}: {part} is neither a host nor a group of the inventory{hint} [run.limit]")
    return found


def _base(pattern: str) -> str:
    """The name without its range: gpu_nodes for gpu_nodes[0:3]."""
    return re.sub(r"(?<=.)\[-?[0-9]*([:-][0-9]*)?\]$", "", pattern)


def _fits(pattern: str, names: Sequence[str]) -> bool:
    if pattern.startswith("~"):
        try:
            return any(re.match(pattern[1:], name) for name in names)
        except re.error:
            return False
    return any(fnmatch.fnmatchcase(name, wanted) for name in names for wanted in (pattern, _base(pattern)))
