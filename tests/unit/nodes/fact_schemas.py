"""The schemas of the two facts that the roles work by, for the tests of whatever makes such a fact."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from conftest import REPOSITORY

FOLDER = REPOSITORY / "roles/preflight/files"
NODE, PLAN = (json.loads((FOLDER / f"{name}.schema.json").read_text()) for name in ("gpu_node", "gpu_node_plan"))


def _errors(schema: dict[str, Any], record: Any) -> list[str]:
    found = jsonschema.Draft202012Validator(schema).iter_errors(record)
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in found]


def node_errors(node: Any) -> list[str]:
    """What of a `gpu_node` is not as its schema says."""
    return _errors(NODE, node)


def part_errors(node: dict[str, Any]) -> list[str]:
    """The same of a record that has only some of the parts."""
    return _errors({**NODE, "required": []}, node)


def plan_errors(plan: Any) -> list[str]:
    """What of a `gpu_node_plan` is not as its schema says."""
    return _errors(PLAN, plan)
