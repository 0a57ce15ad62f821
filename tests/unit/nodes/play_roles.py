"""What the playbooks list: their plays, and the roles of a play."""

from __future__ import annotations

from typing import Any

import yaml
from conftest import REPOSITORY


def plays(name: str) -> list[dict[str, Any]]:
    return yaml.safe_load((REPOSITORY / f"playbooks/{name}.yml").read_text())


def tasks_of(play: dict[str, Any]) -> list[dict[str, Any]]:
    """The tasks of a play, and of its blocks."""
    return [one for task in play.get("tasks", []) for one in task.get("block", [task])]


def roles_of(play: dict[str, Any]) -> list[dict[str, Any]]:
    """The roles that a play lists; those that it imports one after the other look like these."""
    imported = [task for task in tasks_of(play) if "ansible.builtin.import_role" in task]
    assert all(set(task) == {"name", "ansible.builtin.import_role", "tags"} for task in imported)
    names = [(task["ansible.builtin.import_role"]["name"], task["tags"]) for task in imported]
    return play.get("roles", []) + [{"role": name, "tags": tags} for name, tags in names]
