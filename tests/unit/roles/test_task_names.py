"""The name of a task makes sense alone: in a log it stands without its file, its role's README, or the task before."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[3]
FILES = [*REPOSITORY.glob("roles/*/tasks/*.yml"), *REPOSITORY.glob("playbooks/*.yml")]
FEWEST_WORDS = 3
# Near the beginning, where nothing has been named yet.
POINTS_BACK = re.compile(r"(?i)(it|them|they|there|that|this|these|those)\b")
NEAR = 3


def names_of(tasks: Any) -> Iterator[str]:
    for task in tasks or []:
        if "hosts" in task or "ansible.builtin.import_playbook" in task:
            parts = [task.get(part) for part in ("pre_tasks", "tasks", "post_tasks")]
        else:
            # What is imported is no task of its own in a log.
            if not any(word.startswith("ansible.builtin.import_") for word in task) and "name" in task:
                yield task["name"]
            parts = [task.get(part) for part in ("block", "rescue", "always")]
        for part in parts:
            yield from names_of(part)


def names() -> dict[str, set[str]]:
    """Name: the roles and playbooks that have it."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in FILES:
        for name in names_of(yaml.safe_load(file.read_text())):
            found[name].add(file.parts[-3] if file.parent.name == "tasks" else file.name)
    return found


def test_a_name_is_that_of_one_role_alone() -> None:
    found = names()
    assert len(found) > 500
    assert {name: sorted(places) for name, places in found.items() if len(places) > 1} == {}


def test_a_name_says_what_is_done_to_what() -> None:
    short = [name for name in names() if len(name.split()) < FEWEST_WORDS]
    assert short == []


def test_a_name_points_to_nothing_that_it_has_not_named() -> None:
    beginnings = {name: name.split()[:NEAR] for name in names()}
    vague = {
        name for name, words in beginnings.items() if any(POINTS_BACK.fullmatch(word.strip(",")) for word in words[1:])
    }
    assert {name for name in vague if not re.search(r"\b(this|these|that|those) \w", name)} == set()
