"""The difference between a recorded plan and a new one, as an upgrade prints it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.module_utils.probe.plan_choices import plan_choices
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.differences import (
    Row,
    differences,
    replaced_libraries,
    table,
)
from test_plan_questions import ask


@pytest.fixture(scope="module")
def plan() -> dict[str, Any]:
    return ask(gpus="V100", driver_branch="580")


def node(plan: dict[str, Any], **changes: str) -> dict[str, Any]:
    return {"kept_plan": {**plan_choices(plan), **changes}, "nvidia": {"user_space": "570.172.08"}}


def test_the_same_plan_differs_in_nothing(plan: dict[str, Any]) -> None:
    same = copy.deepcopy(plan)
    same["driver"]["present"] = True
    assert differences(node(plan), same) == []
    assert table([]) == ["Nothing differs from the recorded plan."]


def test_a_new_branch_names_version_stream_and_holds(plan: dict[str, Any]) -> None:
    rows = differences(node(plan, driver="570 proprietary 570-dkms"), plan)
    assert rows[0] == Row("driver version", "570.172.08", "newest of 580")
    assert Row("driver", "570 proprietary 570-dkms", "580 proprietary 580-dkms") in rows
    assert rows[-1].part == "holds" and "570.172.08" in rows[-1].before
    lines = table(rows)
    assert len({line.index("->") for line in lines}) == 1 and "570-dkms" in "".join(lines)


def test_libraries_that_are_replaced_are_kept_too(plan: dict[str, Any]) -> None:
    assert replaced_libraries(differences(node(plan, cuDNN="9.1.0"), plan)) == ["cuDNN"]
    # One that was not there before needs no package to go back to.
    assert replaced_libraries(differences(node(plan, cuDNN=""), plan)) == []
