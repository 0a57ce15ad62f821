"""What must hold for any question: a checker that shares no code with the planner looks at its plans and refusals."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_checker import agrees, anything_fits, faults
from test_plan_questions import GPUS, MATRIX, ask

BRANCHES = [*MATRIX["drivers"]]
PINS = {
    "driver_branch": BRANCHES,
    "driver_flavour": ["open", "proprietary"],
    "driver_version": ["525.53", "470.256.02", "535.261.03", "580.95.05", "590.48.01"],
    "cuda": ["12", "13", *MATRIX["cuda"]],
    "cudnn": ["9.10", *sorted({row["version"] for row in MATRIX["cudnn"]})],
    "nccl": [row["version"] for row in MATRIX["nccl"]],
    "python": ["3.6", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13"],
    "pytorch": [*MATRIX["pytorch"], *(row["releases"][0] for row in MATRIX["pytorch"].values())],
    "tensorflow": ["2.12", *MATRIX["tensorflow"]],
    "pytorch_build": ["cpu", *sorted({build for row in MATRIX["pytorch"].values() for build in row["builds"]})],
}
gpus = st.lists(st.sampled_from([key for key in GPUS if key != "?"]), min_size=1, max_size=3).map(" ".join)
systems = st.sampled_from([f"{row['id']} {row['version']}" for row in MATRIX["os_releases"]])
pins = st.lists(st.sampled_from([*PINS]), max_size=3, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: st.sampled_from(PINS[name]) for name in names})
)
many = settings(max_examples=300, deadline=None, derandomize=True)


def ignored_pins(plan: dict[str, Any], asked: dict[str, str]) -> list[str]:
    got = {
        "driver_branch": plan["driver"]["branch"],
        "driver_flavour": plan["driver"]["flavour"],
        "driver_version": plan["driver"]["version"],
        "cuda": plan["cuda"]["version"],
        "cudnn": plan["cudnn"]["version"],
        "nccl": plan["nccl"]["version"],
        "python": plan["python"]["version"],
        "pytorch": plan["pytorch"]["version"],
        "pytorch_build": plan["pytorch"]["build"],
        "tensorflow": plan["tensorflow"]["version"],
    }
    return [name for name, value in asked.items() if not agrees(got[name], value)]


def test_the_checker_can_find_faults() -> None:
    plan = ask()
    assert faults(plan, "V100", "rhel 8.8") == []
    assert faults(plan, "V100", "rhel 8.6") != []
    assert faults(plan, "B200", "rhel 8.8") != []
    assert faults(ask("A100"), "V100", "rhel 8.8") != []
    for part, broken in [
        ("driver", {"branch": "590"}),
        ("driver", {"flavour": "open"}),
        ("cuda", {"version": "13.0"}),
        ("cudnn", {"version": "9.13.0"}),
        ("python", {"version": "3.12"}),
        ("pytorch", {"version": "2.11.0"}),
        ("amp", {"dtype": "bfloat16"}),
    ]:
        assert faults({**plan, part: {**plan[part], **broken}}, "V100", "rhel 8.8") != [], broken


@many
@given(gpus, systems, pins)
def test_a_plan_is_sound_and_a_refusal_is_founded(gpu_keys: str, system: str, asked: dict[str, str]) -> None:
    plan = ask(gpu_keys, system, **asked)
    if "conflicts" not in plan:
        assert faults(plan, gpu_keys, system) == []
        assert ignored_pins(plan, asked) == []
        return
    assert plan["conflicts"]
    assert not anything_fits(gpu_keys, system, asked)
    mended = dict(asked)
    for conflict in plan["conflicts"]:
        assert conflict["what"].endswith(".") and conflict["clash"]
        mended.update(conflict["choices"][0] if conflict["choices"] else {})
    if all(conflict["choices"] for conflict in plan["conflicts"]):
        assert "conflicts" not in ask(gpu_keys, system, **mended)
    else:
        # Nothing to choose from: then nothing fits without any pin either.
        assert "conflicts" in ask(gpu_keys, system)


@many
@given(gpus, systems, pins)
def test_a_pin_never_turns_a_refusal_into_a_plan(gpu_keys: str, system: str, asked: dict[str, str]) -> None:
    if "conflicts" in ask(gpu_keys, system, **asked):
        return
    for left_out in asked:
        fewer = {name: value for name, value in asked.items() if name != left_out}
        assert "conflicts" not in ask(gpu_keys, system, **fewer), left_out


@settings(max_examples=50, deadline=None, derandomize=True)
@given(gpus, systems)
def test_pinning_what_was_planned_plans_the_same(gpu_keys: str, system: str) -> None:
    plan = ask(gpu_keys, system)
    if "conflicts" in plan:
        return
    again = ask(
        gpu_keys,
        system,
        driver_branch=plan["driver"]["branch"],
        driver_flavour=plan["driver"]["flavour"],
        cuda=plan["cuda"]["version"],
        cudnn=plan["cudnn"]["version"],
        python=plan["python"]["version"],
        pytorch=plan["pytorch"]["version"],
        pytorch_build=plan["pytorch"]["build"],
    )
    assert {**again, "because": {}, "neighbours": {}} == {**plan, "because": {}, "neighbours": {}}


@pytest.mark.parametrize("branch", BRANCHES)
def test_the_clash_of_a_branch_and_a_gpu_is_those_two(branch: str) -> None:
    answer = ask("V100", driver_branch=branch, python="3.11", cudnn="9.10.2")
    if int(branch) > 580:
        assert [len(conflict["clash"]) for conflict in answer["conflicts"]] == [2]
    else:
        assert "conflicts" not in answer


@settings(max_examples=40, deadline=None, derandomize=True)
@given(gpus, systems, st.fixed_dictionaries({}, optional={"python": st.sampled_from(PINS["python"])}))
def test_a_profile_is_no_more_than_its_pins(gpu_keys: str, system: str, asked: dict[str, str]) -> None:
    held = {**MATRIX["profiles"]["documented"]["pins"], **asked}
    plan = ask(gpu_keys, system, profile="documented", **asked)
    if "conflicts" in plan:
        assert not anything_fits(gpu_keys, system, held)
    else:
        assert faults(plan, gpu_keys, system) == ignored_pins(plan, held) == []
