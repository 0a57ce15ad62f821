"""Questions to the planner that have no answer, and what every question has in common: time and determinism."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from conftest import REPOSITORY
from test_plan_questions import MATRIX, PLANS, Plan, ask, make_host, name

VARIABLES = {
    "driver_branch": "system_driver_branch",
    "driver_flavour": "system_driver_flavour",
    "driver_version": "system_driver_version",
    "cuda": "system_cuda_version",
    "cudnn": "system_cuda_cudnn_version",
    "nccl": "system_cuda_nccl_version",
    "python": "framework_pytorch_python",
    "pytorch": "framework_pytorch_version",
    "pytorch_build": "framework_pytorch_build",
    "tensorflow": "framework_pytorch_tensorflow_version",
    "profile": "preflight_profile",
}


class Refusal(NamedTuple):
    """A question without an answer.

    words that must be said, the facts that clash (pins by name), and one way out that must be offered, if there is one.
    """

    gpus: str
    system: str
    pins: dict[str, str]
    words: str
    clash: list[str]
    choice: dict[str, str] | None


def cannot(
    words: str,
    clash: list[str],
    choice: dict[str, str] | None,
    gpus: str = "V100",
    system: str = "rhel 8.8",
    **pins: str,
) -> Refusal:
    return Refusal(gpus, system, pins, words, clash, choice)


V100 = "Tesla V100-PCIE-16GB (volta)"
ONLY_580 = "volta needs the proprietary module of branch 580 or older"
NO_CODE = "has no code for Tesla V100-PCIE-16GB (sm_70)"
REFUSALS = [
    # -- V100: driver
    cannot(ONLY_580, [V100, "driver_branch"], {"driver_branch": "580"}, driver_branch="590"),
    cannot(ONLY_580, [V100, "driver_branch"], {"driver_branch": "580"}, driver_branch="595"),
    cannot(ONLY_580, [V100, "driver_branch"], {"driver_branch": "580"}, driver_branch="610"),
    cannot(ONLY_580, [V100, "driver_branch"], {"driver_branch": "580"}, driver_branch="615"),
    cannot(ONLY_580, [V100, "driver_branch"], {"driver_branch": "580"}, driver_branch="620"),
    cannot(ONLY_580, [V100, "driver_flavour"], {"driver_flavour": "proprietary"}, driver_flavour="open"),
    cannot(
        ONLY_580,
        [V100, "driver_flavour"],
        {"driver_flavour": "proprietary"},
        driver_branch="580",
        driver_flavour="open",
    ),
    cannot("moves on by itself", ["driver_branch"], {"driver_branch": "580"}, driver_branch="open-dkms"),
    cannot("moves on by itself", ["driver_branch"], {"driver_branch": "580"}, driver_branch="latest-dkms"),
    cannot(ONLY_580, [V100, "driver_version"], {"driver_version": ""}, driver_version="590.48.01"),
    cannot(
        "There is no",
        ["driver_branch", "driver_version"],
        {"driver_branch": "570"},
        driver_version="570.172.08",
        driver_branch="580",
    ),
    # An exact version below the 525.60.13 that CUDA 12 needs.
    cannot(
        "CUDA 12.2 needs driver 525.60.13 or newer",
        ["cuda", "driver_version"],
        {"cuda": "11.8"},
        driver_version="525.53",
        cuda="12.2",
    ),
    # -- V100: CUDA, cuDNN, NCCL
    cannot("the last toolkit for volta is 12.9", [V100, "cuda"], {"cuda": "12.9"}, cuda="13"),
    cannot("the last toolkit for volta is 12.9", [V100, "cuda"], {"cuda": "12.9"}, cuda="13.0"),
    cannot("the last toolkit for volta is 12.9", [V100, "cuda"], {"cuda": "12.9"}, cuda="13.1"),
    cannot("the last toolkit for volta is 12.9", [V100, "cuda"], {"cuda": "12.9"}, cuda="13.2"),
    cannot("the last toolkit for volta is 12.9", [V100, "cuda"], {"cuda": "12.9"}, cuda="13.3"),
    cannot("the last toolkit for volta is 12.9", [V100, "cuda"], {"cuda": "12.9"}, cuda="13.4"),
    cannot("the last cuDNN for volta is 9.10.2", [V100, "cudnn"], {"cudnn": "9.10.2"}, cudnn="9.13"),
    cannot("the last cuDNN for volta is 9.10.2", [V100, "cudnn"], {"cudnn": "9.10.2"}, cudnn="9.13.0"),
    cannot("the last cuDNN for volta is 9.10.2", [V100, "cudnn"], {"cudnn": "9.10.2"}, cudnn="9.17.0"),
    cannot("the last cuDNN for volta is 9.10.2", [V100, "cudnn"], {"cudnn": "9.10.2"}, cudnn="9.26.0.51"),
    cannot("for CUDA 12.0 to 12.2, not for 12.9", ["cudnn", "cuda"], {"cuda": "12.2"}, cudnn="8.9.7", cuda="12.9"),
    cannot(
        "525.60.13 or newer, not driver 470",
        ["cuda", "driver_branch"],
        {"driver_branch": "580"},
        driver_branch="470",
        cuda="12.9",
    ),
    cannot("no code", ["Tesla M60 (maxwell)", "nccl"], {"nccl": "2.27.5"}, "M60", nccl="2.28.9"),
    cannot("no code", ["Tesla M60 (maxwell)", "nccl"], {"nccl": "2.27.5"}, "M60", nccl="2.30.7"),
    # -- V100: PyTorch
    cannot(NO_CODE, [V100, "pytorch"], {"pytorch": "2.14.1"}, pytorch="2.15"),
    cannot(NO_CODE, [V100, "pytorch_build"], {"pytorch_build": "cu128"}, pytorch_build="cu130"),
    cannot(
        NO_CODE, [V100, "pytorch_build", "pytorch"], {"pytorch_build": "cu126"}, pytorch="2.11.0", pytorch_build="cu128"
    ),
    cannot(NO_CODE, [V100, "pytorch_build", "pytorch"], {"pytorch": "2.10.0"}, pytorch="2.7.1", pytorch_build="cu128"),
    cannot(
        "There is no", ["pytorch_build", "pytorch"], {"pytorch_build": "cu128"}, pytorch="2.10.0", pytorch_build="cu118"
    ),
    cannot(
        "525.60.13 or newer",
        ["pytorch_build", "driver_branch"],
        {"driver_branch": "580"},
        driver_branch="470",
        pytorch_build="cu128",
    ),
    # -- Python
    cannot("RHEL 8.8 has no Python 3.12", ["RHEL 8.8", "python"], {"python": "3.11"}, python="3.12"),
    cannot(
        "Rocky Linux 8.6 has no Python 3.11",
        ["Rocky Linux 8.6", "python"],
        {"python": "3.9"},
        "A100",
        "rocky 8.6",
        python="3.11",
    ),
    cannot("no wheels for Python 3.8", ["python", "pytorch"], {"pytorch": "2.4.1"}, python="3.8", pytorch="2.5"),
    cannot(
        "no wheels for Python 3.9",
        ["python", "pytorch"],
        {"python": "3.12"},
        "A100",
        "rhel 8.10",
        python="3.9",
        pytorch="2.9.1",
    ),
    cannot(
        "no wheels for Python 3.9", ["RHEL 8.6", "pytorch"], {"pytorch": "2.8.0"}, "A100", "rhel 8.6", pytorch="2.10.0"
    ),
    # -- other GPUs
    # Debian 12 has a driver and a toolkit for Kepler, and no cuDNN that is for both: that is left out with the toolkit.
    cannot(
        "cuDNN 8.5.0 for CUDA 11 is for CUDA 11.0 to 11.7, not for 11.8",
        ["Tesla K80 (kepler)", "Debian 12"],
        {"cuda": "none"},
        "K80",
        "debian 12",
    ),
    cannot(
        "sm_60",
        ["Tesla P100-PCIE-16GB (pascal)", "pytorch_build"],
        {"pytorch_build": "cu126"},
        "P100",
        pytorch_build="cu128",
    ),
    cannot(
        "branch 580 or older",
        ["Tesla M60 (maxwell)", "driver_branch"],
        {"driver_branch": "580"},
        "M60",
        driver_branch="595",
    ),
    cannot(
        "branch 525 or newer",
        ["NVIDIA H100 PCIe (hopper)", "driver_branch"],
        {"driver_branch": "620"},
        "H100",
        "rhel 8.10",
        driver_branch="515",
    ),
    cannot(
        "the open module of branch 570 or newer",
        ["NVIDIA B200 (blackwell)", "driver_flavour"],
        {"driver_flavour": "open"},
        "B200",
        "rhel 8.10",
        driver_flavour="proprietary",
    ),
    cannot(
        "the first toolkit for blackwell is 12.8",
        ["NVIDIA B200 (blackwell)", "cuda"],
        {"cuda": "12.8"},
        "B200",
        "rhel 8.10",
        cuda="12.6",
    ),
    cannot(
        "sm_100", ["NVIDIA B200 (blackwell)", "pytorch"], {"pytorch": "2.7.1"}, "B200", "rhel 8.10", pytorch="2.6.0"
    ),
    cannot(
        "There is no",
        ["driver_branch", "driver_flavour"],
        {"driver_flavour": "open"},
        "A100",
        "rhel 8.10",
        driver_branch="620",
        driver_flavour="proprietary",
    ),
    cannot(
        "580.65.06 or newer",
        ["pytorch_build", "driver_branch"],
        {"driver_branch": "620"},
        "A100",
        "rhel 8.10",
        driver_branch="570",
        pytorch_build="cu130",
    ),
    cannot(ONLY_580, [V100, "NVIDIA B200 (blackwell)"], None, "V100 B200"),
    # -- values that nobody knows
    cannot("Known: 470, 510", ["driver_branch"], {"driver_branch": "580"}, driver_branch="58O"),
    cannot("Known: 470, 510", ["driver_branch"], {"driver_branch": "580"}, driver_branch="581"),
    cannot("Known: 10.2, 11.0", ["cuda"], {"cuda": "12.9"}, cuda="12.7"),
    cannot("the last cuDNN for volta is 9.10.2", [V100, "cudnn"], {"cudnn": "9.10.2"}, cudnn="9.99"),
    cannot("2.15.0", ["pytorch"], {"pytorch": "2.10.0"}, pytorch="3.0"),
    cannot("cu128", ["pytorch_build"], {"pytorch_build": "cu128"}, pytorch_build="cu12.8"),
    cannot("Known: 3.6, 3.8, 3.9, 3.10, 3.11, 3.12, 3.13.", ["python"], {"python": "3.11"}, python="3.7"),
    cannot("RHEL 8.8 has no Python 3.10", ["RHEL 8.8", "python"], {"python": "3.11"}, python="3.10"),
    cannot("Known: open, proprietary", ["driver_flavour"], {"driver_flavour": "proprietary"}, driver_flavour="opne"),
    cannot('like "580.95.05"', [], None, driver_version="newest"),
    cannot("known branches: 470", [], None, driver_version="999.1.2"),
    cannot("Did you mean driver_", [], None, driver="580"),
    # -- hosts that are not supported
    cannot("RHEL 11.0 is not installed by this version", ["rhel 11.0"], None, "V100", "rhel 11.0"),
    cannot(
        "it begins with 13.0",
        ["Rocky Linux 10.0", "Tesla V100-PCIE-16GB (volta)"],
        {"cuda": "none"},
        "V100",
        "rocky 10.0",
    ),
    cannot("follow NVIDIA's installation guide", ["debian 14"], None, "V100", "debian 14"),
    cannot("Update the host to 8.10", ["rhel 8.4"], None, "V100", "rhel 8.4"),
    cannot("Install Debian 12 on the host", ["debian 11"], None, "V100", "debian 11"),
    cannot("Install Ubuntu 24.04 on the host", ["ubuntu 20.04"], None, "V100", "ubuntu 20.04"),
    cannot("Ubuntu 22.04 and 24.04", ["centos 8"], None, "V100", "centos 8"),
    cannot("No NVIDIA GPU is on the PCI bus", ["no NVIDIA GPU"], {"pytorch_build": "cpu"}, ""),
    cannot("No NVIDIA GPU", ["no NVIDIA GPU"], {"pytorch_build": "cpu"}, "", pytorch_build="cu128"),
    cannot("architecture of unknown 10de:ffff", ["unknown 10de:ffff (0000:3b:00.0)"], None, "?"),
    cannot("set system_driver_flavour, ", ["unknown 10de:ffff (0000:3b:00.0)"], None, "?", driver_branch="580"),
]


each_refusal = pytest.mark.parametrize("question", REFUSALS, ids=name)


@each_refusal
def test_what_cannot_be_is_refused(question: Refusal) -> None:
    answer = ask(question.gpus, question.system, **question.pins)
    assert set(answer) == {"conflicts"}
    assert len(answer["conflicts"]) == 1
    conflict = answer["conflicts"][0]
    assert question.words in conflict["what"]
    pins = question.pins
    clash = [f'{VARIABLES[fact]} "{pins[fact]}"' if fact in pins else fact for fact in question.clash]
    assert sorted(conflict["clash"]) == sorted(clash)
    if question.choice is None:
        assert conflict["choices"] == []
    else:
        assert question.choice in conflict["choices"]
    assert len(conflict["choices"]) <= 3


@each_refusal
def test_every_way_out_leads_to_a_plan(question: Refusal) -> None:
    for choice in ask(question.gpus, question.system, **question.pins)["conflicts"][0]["choices"]:
        assert "conflicts" not in ask(question.gpus, question.system, **{**question.pins, **choice})


def test_there_are_enough_questions() -> None:
    assert len({name(question) for question in [*PLANS, *REFUSALS]}) == len(PLANS) + len(REFUSALS) >= 100


def test_the_order_of_sets_decides_nothing(tmp_path: Path) -> None:
    """Python orders a set of texts by chance from run to run, so this is where a dependence on it would show."""
    questions = tmp_path / "questions.json"
    every: list[Plan | Refusal] = [*PLANS, *REFUSALS]
    asked = [[make_host(question.gpus, question.system), question.pins] for question in every]
    questions.write_text(json.dumps({"matrix": MATRIX, "asked": asked}))
    program = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); "
        f"from {solve.__module__} import solve; data = json.load(open(sys.argv[2])); "
        "print(json.dumps([solve(data['matrix'], host, pins) for host, pins in data['asked']], sort_keys=True))"
    )
    answers = set()
    for seed in ("0", "1", "2"):
        command = [sys.executable, "-c", program, str(REPOSITORY / "collections"), str(questions)]
        environment = {"PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"}
        answers.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(answers) == 1


@pytest.mark.parametrize("build", ["cu126", "cu130", "cu132"])
@pytest.mark.parametrize(
    ("tensorflow", "pytorch"), [("2.21", "2.14.1"), ("2.21", "2.13"), ("2.18", "2.12.1"), ("2.15", "2.14")]
)
def test_a_refusal_is_about_what_was_asked(tensorflow: str, pytorch: str, build: str) -> None:
    """Not about the build that the plan would have taken; and what nobody has read is unknown, not impossible."""
    answer = ask(
        "A100",
        "rhel 9.4" if tensorflow != "2.15" else "rhel 8.8",
        tensorflow=tensorflow,
        pytorch=pytorch,
        pytorch_build=build,
    )
    what = " ".join(entry["what"] for entry in answer["conflicts"])
    assert "2.10.0" not in what and build in what, what
    assert ("so what it demands was not read" in what and "is not known" in what) == (build == "cu126"), what


@pytest.mark.parametrize("gpu", ["M60", "P100", "P40"])
def test_a_known_hole_is_told_with_what_has_the_fix(gpu: str) -> None:
    plan = ask(gpu, "rhel 8.10")
    (told,) = [text for text in plan["warnings"] if "CVE-" in text]
    assert told.startswith("PyTorch 2.7.1 cu126 has known vulnerabilities, the worst of severity HIGH (CVE-2026-24747")
    assert 'framework_pytorch_version "2.14.1", framework_pytorch_build "cu126"' in told and "make lock" in told
    fixed = ask(gpu, "rhel 8.10", pytorch="2.14.1", pytorch_build="cu126")
    assert not any("CVE-" in text for text in fixed["warnings"])


def test_where_no_fixed_release_fits_the_plan_says_so() -> None:
    (told,) = [text for text in ask("V100", "rhel 8.8", python="3.9")["warnings"] if "CVE-" in text]
    assert "None of the releases with the fix (2.10.0 or newer) fits" in told
    told = " ".join(ask("K80", "rhel 8.8")["warnings"])
    assert "severity CRITICAL (CVE-2026-24747, fixed in 2.10.0, CVE-2025-32434, fixed in 2.6.0)" in told
