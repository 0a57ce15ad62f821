"""What check mode did not look at is UNKNOWN, unless its reason stands in a table; the table is true to the roles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.drift.unseen import LAWFUL, unseen
from conftest import REPOSITORY


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
    ("result", "tags", "why"),
    [
        ({"false_condition": "not ansible_check_mode"}, [], "does not run in check mode"),
        ({"false_condition": "not (ansible_check_mode and a is changed)"}, [], "waits for a change"),
        ({"msg": "remote module (x) does not support check mode"}, [], "its module"),
        ({"msg": "Command would have run if not in check mode"}, [], "its module"),
        ({"results": [{"msg": "Command would have run if not in check mode"}]}, [], "its module"),
        ({"false_condition": "gpu_node.os.family == 'debian'"}, [], ""),
        ({"msg": "ok"}, [], ""),
        ({"false_condition": "not ansible_check_mode"}, ["verify", LAWFUL], ""),
        ({"msg": "remote module (x) does not support check mode"}, ["verify", LAWFUL], ""),
        ({"msg": "remote module (x) does not support check mode"}, ["report"], "its module"),
    ],
)
def test_what_was_not_looked_at(result: dict[str, Any], tags: list[str], why: str) -> None:
    found = unseen({"skipped": True, **result}, tags, looped=True)
    assert why in found if why else found == ""


def test_a_task_that_may_change_something_has_the_tag_for_a_reason() -> None:
    """Only a step that changes a node and is judged by a reading may have it; others assert, or stay here."""
    known = {row: task for row, task in of_roles().items() if LAWFUL in task.get("tags", [])}
    changing = ("command", "copy", "template", "file", "dnf", "apt", "systemd", "include_tasks")
    found = [row for row, task in known.items() if any(f"ansible.builtin.{name}" in task for name in changing)]
    assert len(known) == 8 and sorted(found) == [
        ("framework_pytorch", "Build the environment and compare it with what was installed"),
        ("framework_pytorch", "Remove environments that are not kept"),
    ]


def test_each_of_them_says_why() -> None:
    for file in REPOSITORY.glob("roles/*/tasks/*.yml"):
        lines = file.read_text().splitlines()
        for number, line in enumerate(lines):
            if LAWFUL in line:
                assert lines[number - 1].strip().startswith("# For drift: "), f"{file}:{number + 1}"
