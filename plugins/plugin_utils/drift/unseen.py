# SPDX-License-Identifier: Apache-2.0
"""What check mode could not look at. A step that did not run, and might have changed something, is UNKNOWN."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# How Ansible and its modules say that a task was skipped because nothing may be changed.
SAID = ("check mode", "check_mode")
CONDITION = "ansible_check_mode"
ASSERTION = "it changes nothing: it stops a run, and what it asks for is compared before it"
CONTROLLER = "it writes on the controller"
PROOF = "it proves what this run has installed; verification judges what is there"
# Role and task that check mode never carries out, and why no difference of a host goes unnoticed because of it.
LAWFUL = {
    ("framework_pytorch", "Build the environment and compare it with what was installed"): "readings.py sees why",
    ("framework_pytorch", "Remove environments that are not kept"): "it removes only what nothing uses any more",
    ("model_trainer", "Remove environments that are not kept"): "the same",
    ("model_trainer", "Refuse a node without the training user"): ASSERTION,
    ("model_trainer", "Refuse a node without the Python environment"): ASSERTION,
    ("system_cuda", "Unpack the wheel"): "readings.py sees why",
    ("system_driver", "Stop if the module was not built"): PROOF,
    ("system_driver", "Stop if the kernel would refuse the module's signature"): PROOF,
    ("system_kernel", "Stop if the new kernel is not running"): PROOF,
    ("verify", "Make the pages of the fleet from the reports of all hosts"): CONTROLLER,
}


def lawful(role: str, task: str) -> bool:
    """Whether LAWFUL has the task, whose name may have its variables filled in."""
    return any(role == known and name_of(name).fullmatch(task) for known, name in LAWFUL)


def name_of(name: str) -> re.Pattern[str]:
    """The name as a role has it, with anything where it has a variable."""
    return re.compile(".*".join(map(re.escape, re.split(r"{{.*?}}", name))))


def unseen(result: Mapping[str, Any], role: str, task: str, looped: bool) -> str:
    """Why this skipped task leaves something unknown; "" if its own condition, or LAWFUL, says that it does not."""
    if lawful(role, task):
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
