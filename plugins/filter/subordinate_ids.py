# SPDX-License-Identifier: Apache-2.0
"""ID ranges for the users inside containers that run without root: /etc/subuid and /etc/subgid, see subuid(5)."""

from __future__ import annotations

DOCUMENTATION = r"""
---
name: subordinate_ids
author: The gpuwright developers (@gpuwright)
version_added: 0.1.0
short_description: Give each user a range in /etc/subuid or /etc/subgid
description:
  - A user who has a range keeps it; a line that is not C(name:first:count) is an error.
positional: users
options:
  _input:
    description: The file's text.
    type: str
    required: true
  users:
    description: Users who run containers without root.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- ansible.builtin.debug:
    msg: "{{ text | gpuwright.node.subordinate_ids(['bob']) }}"
"""

RETURN = r"""
_value:
  description: The file's new text.
  type: str
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from ansible.errors import AnsibleFilterError

# First ID (SUB_UID_MIN) and number of IDs for each user (SUB_UID_COUNT) in shadow-utils.
FIRST = 100_000
COUNT = 65_536
LINE = re.compile(r"([^:\s]+):([0-9]+):([0-9]+)")


def subordinate_ids(text: str, users: Iterable[str]) -> str:
    """The file's text with a line for each of `users` who has none, after all IDs that are already assigned.

    Raises AnsibleFilterError for a line that is not name:first:count: a guess could assign an ID twice.
    """
    lines = text.splitlines()
    known = {}
    end = FIRST
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        match = LINE.fullmatch(line.strip())
        if not match:
            raise AnsibleFilterError(f"/etc/subuid or /etc/subgid has the line {line!r}; expected name:first:count")
        known[match[1]] = True
        end = max(end, int(match[2]) + int(match[3]))
    for user in users:
        if user not in known:
            lines.append(f"{user}:{end}:{COUNT}")
            known[user] = True
            end += COUNT
    return "".join(f"{line}\n" for line in lines)


class FilterModule:
    """Filters of the role system_containers."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"subordinate_ids": subordinate_ids}
