"""What must hold for any question: a checker that shares no code with the planner looks at its plans and refusals."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_plan_questions import GPUS, MATRIX, ask

# From NVIDIA's architecture matrix and driver installation guides.
LAST_BRANCH = {"kepler": 470, "maxwell": 580, "pascal": 580, "volta": 580}
FIRST_BRANCH = {"ada": 525, "hopper": 525, "blackwell": 570}
WITHOUT_GSP = {"kepler", "maxwell", "pascal", "volta"}
WITH_BFLOAT16 = {"ampere", "ada", "hopper", "blackwell"}
BRANCH_FOR_CUDA = {11: 450, 12: 525, 13: 580}

BRANCHES = [*MATRIX["drivers"]]
PINS = {
    "driver_branch": BRANCHES,
    "driver_flavour": ["open", "proprietary"],
    "driver_version": ["470.256.02", "535.261.03", "580.95.05", "590.48.01"],
    "cuda": ["12", "13", *MATRIX["cuda"]],
    "cudnn": ["9.10", *sorted({row["version"] for row in MATRIX["cudnn"]})],
    "nccl": [row["version"] for row in MATRIX["nccl"]],
    "python": [*MATRIX["pythons"]],
    "pytorch": [*MATRIX["pytorch"], *(row["releases"][0] for row in MATRIX["pytorch"].values())],
    "pytorch_build": ["cpu", *sorted({build for row in MATRIX["pytorch"].values() for build in row["builds"]})],
}
gpus = st.lists(st.sampled_from([key for key in GPUS if key != "?"]), min_size=1, max_size=3).map(" ".join)
systems = st.sampled_from([f"{row['id']} {row['version']}" for row in MATRIX["os_releases"]])
pins = st.lists(st.sampled_from([*PINS]), max_size=3, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: st.sampled_from(PINS[name]) for name in names})
)
many = settings(max_examples=150, deadline=None, derandomize=True)


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"[0-9]+", version)]


def faults(plan: dict[str, Any], gpu_keys: str, system: str) -> list[str]:
    """What is wrong with a plan for these GPUs, by rules written down here a second time."""
    found = []
    branch, flavour = int(plan["driver"]["branch"]), plan["driver"]["flavour"]
    cuda, cudnn = numbers(plan["cuda"]["version"]), numbers(plan["cudnn"]["version"])
    torch, build, python = plan["pytorch"]["version"], plan["pytorch"]["build"], plan["python"]["version"]
    torch_row = next(row for row in MATRIX["pytorch"].values() if torch in row["releases"])
    architectures = {GPUS[key][2] for key in gpu_keys.split()}
    for key in gpu_keys.split():
        _device, _name, architecture, capability = GPUS[key]
        if not FIRST_BRANCH.get(architecture, 0) <= branch <= LAST_BRANCH.get(architecture, 999):
            found.append(f"driver {branch} for {architecture}")
        if (architecture in WITHOUT_GSP and flavour == "open") or (architecture == "blackwell" and flavour != "open"):
            found.append(f"{flavour} module for {architecture}")
        if architecture in WITHOUT_GSP and (cuda >= [13] or cudnn >= [9, 11]):
            found.append(f"CUDA {cuda} or cuDNN {cudnn} for {architecture}")
        if architecture == "blackwell" and cuda < [12, 8]:
            found.append(f"CUDA {cuda} for blackwell")
        if build != "cpu":
            first, second = numbers(capability)
            has = [numbers(code) for code in torch_row["builds"][build]["capabilities"]]
            if not any(code[0] == first and code[1] <= second for code in has):
                found.append(f"{torch} {build} without code for {capability}")
    if branch < BRANCH_FOR_CUDA[cuda[0]] or (build != "cpu" and branch < BRANCH_FOR_CUDA[int(build[2:4])]):
        found.append(f"driver {branch} below what CUDA {cuda} or {build} needs")
    if not any(f"cuda-{cuda[0]}-" in package or f".cuda{cuda[0]}." in package for package in plan["cudnn"]["packages"]):
        found.append("cuDNN for another CUDA")
    if cudnn[0] == 8 and not ([12, 0] <= cuda <= [12, 2] or cuda == [11, 8]):
        found.append(f"cuDNN 8 with CUDA {cuda}")
    if plan["nccl"]["version"] and not all(f"cuda{cuda[0]}." in package for package in plan["nccl"]["packages"]):
        found.append("NCCL for another CUDA")
    release = next(row for row in MATRIX["os_releases"] if f"{row['id']} {row['version']}" == system)
    if python not in release["pythons"] or python not in torch_row["pythons"]:
        found.append(f"Python {python} on {system} with {torch}")
    wants_bfloat16 = build == "cpu" or architectures <= WITH_BFLOAT16
    if plan["amp"]["dtype"] != ("bfloat16" if wants_bfloat16 else "float16"):
        found.append("AMP type")
    return found


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
    }
    return [name for name, value in asked.items() if numbers(got[name])[: len(numbers(value))] != numbers(value)]


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
    assert {**again, "because": {}} == {**plan, "because": {}}


@pytest.mark.parametrize("branch", BRANCHES)
def test_the_clash_of_a_branch_and_a_gpu_is_those_two(branch: str) -> None:
    answer = ask("V100", driver_branch=branch, python="3.11", cudnn="9.10.2")
    if int(branch) > 580:
        assert [len(conflict["clash"]) for conflict in answer["conflicts"]] == [2]
    else:
        assert "conflicts" not in answer
