# SPDX-License-Identifier: Apache-2.0
"""What check mode could not look at. A step that did not run, and might have changed something, is UNKNOWN."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

# How Ansible and its modules say that a task was skipped because nothing may be changed.
SAID = ("check mode", "check_mode")
CONDITION = "ansible_check_mode"
# The tag of tasks that check mode never carries out, although no difference of a host goes unnoticed because of it; a
# comment above each says why.
LAWFUL = "not_compared"


def unseen(result: Mapping[str, Any], tags: Collection[str], looped: bool) -> str:
    """Why this skipped task leaves something unknown; "" if its own condition, or a tag, says that it does not."""
    if LAWFUL in tags:
        return ""
    found = result.get("results")
    items = [item for item in found if isinstance(item, Mapping)] if looped and isinstance(found, list) else []
    for item in [result, *items]:
        condition = str(item.get("false_condition") or "")
        message = str(item.get("msg") or "").lower()
        if CONDITION in condition:
            # "not (ansible_check_mode and X is changed)": an earlier step would have to be carried out first.
            waits = " and " in condition
            return "it waits for a change above it" if waits else "it does not run in check mode"
        if any(words in message for words in SAID):
            return "its module does not run in check mode"
    return ""
