"""Ansible's set filters return their items in the order of their hashes, which is another one in each run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY

SETS = re.compile(r"\|\s*(difference|intersect|union|symmetric_difference)\(")
# File, and what it loops over in any order, and why that may be.
ANY_ORDER = {
    ("roles/framework_pytorch/tasks/remove.yml", "__framework_pytorch_surplus"): "folders that are removed or named",
}


def loops(value: Any) -> Iterator[str]:
    """Every expression that is looped over, however deep its task lies in blocks."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(inner, (dict, list)):
            yield from loops(inner)
        elif key in ("loop", "with_items"):
            yield str(inner)


def unordered() -> Iterator[tuple[str, str]]:
    files = [*REPOSITORY.glob("roles/*/tasks/*.yml"), *REPOSITORY.glob("playbooks/*.yml")]
    assert len(files) > 150
    for file in sorted(files):
        for loop in loops(yaml.safe_load(file.read_text()) or []):
            if SETS.search(loop) and "| sort" not in loop:
                yield str(file.relative_to(REPOSITORY)), loop


def test_no_step_follows_another_by_chance() -> None:
    """Roles of a layer came in any order: the environment before the driver, the toolkit after what it is for."""
    found = {(file, loop) for file, loop in unordered() if not any(file == f and name in loop for f, name in ANY_ORDER)}
    assert found == set()


@pytest.mark.parametrize(("file", "name"), ANY_ORDER)
def test_each_exception_is_needed(file: str, name: str) -> None:
    assert any(found == file and name in loop for found, loop in unordered())
