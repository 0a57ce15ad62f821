"""Systems and processors on which this version installs nothing: what is said of them, and that hosts are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.question import imagined_host
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from test_plan_questions import MATRIX, ask, make_host

NOTHING = "This version installs nothing on "


def look(card: str, system: str, machine: str = "", **pins: str) -> dict[str, Any]:
    return solve({**MATRIX, "locks": []}, imagined_host(card, system, "", machine, MATRIX["os_releases"]), pins)


# Card, system, processor, pins; driver, CUDA, Python, PyTorch. glibc and Python of the systems: Red Hat's and Debian's
# pages; module streams, repositories: NVIDIA's driver installation guide 620; wheels: their metadata on PyPI.
PLANNED = [
    ("H100 PCIe", "rhel 9", "", {}, "595 open 595-open cuda-toolkit-13-2 3.12 pypi"),
    ("H100 PCIe", "alma 9.4", "", {}, "595 open 595-open cuda-toolkit-13-2 3.12 pypi"),
    ("V100-PCIE-16GB", "rocky 9.6", "", {}, "580 proprietary 580-dkms cuda-toolkit-12-9 3.12 pypi"),
    ("V100-PCIE-16GB", "rhel 9", "", {"python": "3.9"}, "580 proprietary 580-dkms cuda-toolkit-12-9 3.9 pypi"),
    ("V100-PCIE-16GB", "rhel 9", "", {"pytorch": "2.14"}, "580 proprietary 580-dkms cuda-toolkit-12-9 3.12 cu126"),
    ("T4", "rhel 9", "", {"driver_branch": "580"}, "580 open 580-open cuda-toolkit-13-0 3.12 pypi"),
    ("L40S", "rhel 9", "", {"cuda": "12.4"}, "595 open 595-open cuda-toolkit-12-4 3.12 pypi"),
    # dnf has no modules on EL 10: the branch is kept by a version lock.
    ("H100 PCIe", "rhel 10", "", {}, "595 open - cuda-toolkit-13-2 3.12 pypi"),
    ("B200", "rocky 10.1", "", {}, "595 open - cuda-toolkit-13-2 3.12 pypi"),
    ("A100-PCIE-40GB", "debian 13", "", {}, "595 open - cuda-toolkit-13-2 3.13 pypi"),
    # Debian's own driver, beside its own toolkit.
    ("V100-PCIE-16GB", "debian 13.1", "", {}, "550 proprietary - nvidia-cuda-toolkit 3.13 pypi"),
    ("GH200", "", "", {}, "595 open 595-open cuda-toolkit-13-2 3.12 pypi"),
    ("GH200 480GB", "rhel 9", "", {}, "595 open 595-open cuda-toolkit-13-2 3.12 pypi"),
    ("GB200", "ubuntu 24.04", "", {}, "595 open - cuda-toolkit-13-2 3.12 pypi"),
    ("A100-PCIE-40GB", "ubuntu 22.04", "aarch64", {}, "595 open - cuda-toolkit-13-2 3.10 pypi"),
]


@pytest.mark.parametrize("question", PLANNED, ids=lambda row: " ".join(row[:3]).replace(" ", "_"))
def test_what_would_fit_is_said_and_marked(question: tuple[Any, ...]) -> None:
    card, system, machine, pins, wanted = question
    plan = look(card, system, machine, **pins)
    assert "conflicts" not in plan, plan["conflicts"]
    driver, torch = plan["driver"], plan["pytorch"]
    parts = [driver["branch"], driver["flavour"], driver["stream"] or "-", plan["cuda"]["package"]]
    parts += [plan["python"]["version"], torch["index_url"].rsplit("/", 1)[-1] or "pypi"]
    assert " ".join(parts) == wanted
    assert plan["warnings"][0].startswith(NOTHING)
    assert "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/" in plan["warnings"][0]
    # Without a host nothing was tried; nobody is sent to make a lock for a run that would be refused.
    assert machine or card.startswith("G") or any("no host of it was there" in text for text in plan["warnings"])
    assert not any("make lock" in text for text in plan["warnings"])


REFUSED = [
    # NVIDIA's repository for EL 10 begins with CUDA 13.0, which ended with Turing.
    ("V100-PCIE-16GB", "rhel 10", "", {}, "CUDA 12.9 is not in NVIDIA's repository for RHEL 10: it begins with 13.0"),
    ("H100 PCIe", "debian 13", "", {"python": "3.12"}, "Debian 13 has no Python 3.12: it has 3.13"),
    ("H100 PCIe", "rhel 9", "", {"python": "3.8"}, "RHEL 9 has no Python 3.8"),
    ("A100-PCIE-40GB", "rhel 9", "", {"cuda": "11.0"}, "it begins with 11.7"),
    ("T4", "debian 13", "", {"pytorch": "2.4"}, "no wheels for Python 3.13"),
    ("GH200", "debian 12", "", {}, "NVIDIA's repository for aarch64 was not seen for Debian 12"),
    ("GH200", "rhel 9", "", {"pytorch": "2.10"}, "alone on aarch64: the first on PyPI with CUDA"),
    ("GH200", "rhel 9", "", {"pytorch_build": "cu126"}, "was not read for aarch64"),
    ("GH200", "rhel 9", "", {"driver_flavour": "proprietary"}, "NVIDIA supports the open module alone"),
    ("GH200", "rhel 9", "", {"tensorflow": "2.20"}, "compute on the processor alone"),
    ("GH200", "ubuntu 24.04", "", {"driver_source": "distribution"}, "was not read for aarch64"),
    ("A100-PCIE-40GB", "rhel 9", "ppc64le", {}, "installs on x86_64 alone"),
    ("A100-PCIE-40GB", "fedora 42", "", {}, "fedora 42 is not installed by this version"),
    ("A100-PCIE-40GB", "rhel 11", "", {}, "RHEL 11 is not installed by this version"),
]  # fmt: skip


@pytest.mark.parametrize("question", REFUSED, ids=lambda row: " ".join(row[:3]).replace(" ", "_"))
def test_what_cannot_be_had_there_is_refused(question: tuple[Any, ...]) -> None:
    card, system, machine, pins, words = question
    answer = look(card, system, machine, **pins)
    assert "conflicts" in answer, answer["because"]
    assert words in " ".join(entry["what"] for entry in answer["conflicts"])


def test_packages_for_another_processor_come_from_its_repository() -> None:
    plan = look("GH200", "rhel 9")
    assert plan["driver"]["repository"]["url"] == "https://developer.download.nvidia.com/compute/cuda/repos/rhel9/sbsa/"
    assert plan["repositories"]["base"]["subscription"] == "rhel-9-for-aarch64-baseos-rpms"
    assert "x86_64" not in json.dumps(plan).replace("x86_64 alone", "")
    assert plan["pytorch"]["locked"] is False


def test_a_branch_is_kept_without_module_streams() -> None:
    plan = look("H100 PCIe", "rhel 10")
    assert any("dnf versionlock '*nvidia*595*'" in text for text in plan["warnings"])
    assert not any("module stream" in text for text in plan["guards"]["driver"])


@pytest.mark.parametrize("system", ["rhel 9", "rhel 9.4", "rocky 10.0", "almalinux 9.6", "debian 13"])
def test_a_host_is_refused_and_told_how_to_look(system: str) -> None:
    (refused,) = ask("H100", system)["conflicts"]
    assert "is not installed by this version" in refused["what"] and "tools/gpu-plan" in refused["what"]


def test_a_host_of_another_processor_is_refused_and_told_how_to_look() -> None:
    (refused,) = solve(MATRIX, make_host("H100", "rhel 8.10", machine="aarch64"), {})["conflicts"]
    assert "this version installs on x86_64 alone" in refused["what"] and "--machine aarch64" in refused["what"]


def test_what_is_installed_has_the_key_of_its_repository() -> None:
    installed = {row["family"] for row in MATRIX["os_releases"]}
    for name, family in MATRIX["os_families"].items():
        assert ("key_fingerprint" in family["cuda_repository"]) is (name in installed), name
    planned = {row["family"] for row in MATRIX["planned_releases"]}
    assert not planned & installed and planned | installed == set(MATRIX["os_families"])
    assert not any(row["verified"] for row in MATRIX["planned_releases"])
