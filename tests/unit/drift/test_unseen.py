"""What check mode did not look at is UNKNOWN, unless its reason stands in a table; the table is true to the roles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.drift import readings
from ansible_collections.gpuwright.node.plugins.plugin_utils.drift.unseen import LAWFUL, unseen
from conftest import REPOSITORY

PAGES = "Make the pages of the fleet from the reports of all hosts"


def tasks(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for entry in entries:
        yield entry
        for part in ("block", "rescue", "always"):
            yield from tasks(entry.get(part, []))


def of_roles() -> dict[tuple[str, str], dict[str, Any]]:
    """(role, name of a task): the task; of pages and reports, those that are imported under a condition, too."""
    found = {}
    for file in sorted(REPOSITORY.glob("roles/*/tasks/*.yml")):
        for task in tasks(yaml.safe_load(file.read_text()) or []):
            found[(file.parts[-3], task.get("name", ""))] = task
    return found


@pytest.mark.parametrize(
    ("result", "role", "task", "why"),
    [
        ({"false_condition": "not ansible_check_mode"}, "system_driver", "x", "does not run in check mode"),
        ({"false_condition": "not (ansible_check_mode and a is changed)"}, "system_driver", "x", "waits for a change"),
        ({"msg": "remote module (x) does not support check mode"}, "system_driver", "x", "its module"),
        ({"msg": "Command would have run if not in check mode"}, "system_driver", "x", "its module"),
        ({"results": [{"msg": "Command would have run if not in check mode"}]}, "system_driver", "x", "its module"),
        ({"false_condition": "gpu_node.os.family == 'debian'"}, "system_driver", "x", ""),
        ({"msg": "ok"}, "system_driver", "x", ""),
        ({"false_condition": "not ansible_check_mode"}, "verify", PAGES, ""),
        ({"msg": "remote module (x) does not support check mode"}, "verify", PAGES, ""),
        ({"msg": "remote module (x) does not support check mode"}, "model_trainer", PAGES, "its module"),
    ],
)
def test_what_was_not_looked_at(result: dict[str, Any], role: str, task: str, why: str) -> None:
    found = unseen({"skipped": True, **result}, role, task, looped=True)
    assert why in found if why else found == ""


def test_every_row_names_a_task_that_is_there() -> None:
    known = of_roles()
    # model_trainer brings two tasks of framework_pytorch, and pages of verify.
    shared = {("model_trainer", "Remove environments that are not kept")}
    assert [row for row in LAWFUL if row not in known and row not in shared] == []


def test_every_reading_is_registered_by_a_role() -> None:
    registered = {task.get("register") for task in of_roles().values()}
    assert set(readings.STAMPS) <= registered


def test_a_task_that_may_change_something_is_in_no_row_by_chance() -> None:
    """Only a step that changes a node and is judged by a reading may be in the table; others assert or stay here."""
    known = of_roles()
    changing = ("command", "copy", "template", "file", "dnf", "apt", "systemd", "include_tasks")
    found = [row for row in LAWFUL if any(f"ansible.builtin.{name}" in known.get(row, {}) for name in changing)]
    assert sorted(found) == [
        ("framework_pytorch", "Build the environment and compare it with what was installed"),
        ("framework_pytorch", "Remove environments that are not kept"),
        ("system_driver", "Stop if the module was not built"),
    ]
