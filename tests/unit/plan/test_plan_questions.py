"""Questions to the planner with answers written from NVIDIA's, PyTorch's and Red Hat's pages, not from its output."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from conftest import REPOSITORY

FOLDER = REPOSITORY / "roles/preflight/files/matrix"
MATRIX = {
    name: rows
    for file in sorted(FOLDER.glob("*.yml"))
    for name, rows in yaml.load(file.read_text(), Loader=yaml.CSafeLoader).items()
}
KERNEL = "4.18.0-477.10.1.el8_8.x86_64"
KEYS = ("device_id", "name", "architecture", "compute_capability")
GPUS: dict[str, tuple[str, str, str, str | None]] = {
    "K80": ("102d", "Tesla K80", "kepler", "3.7"),
    "M60": ("13f2", "Tesla M60", "maxwell", "5.2"),
    "P100": ("15f8", "Tesla P100-PCIE-16GB", "pascal", "6.0"),
    "P40": ("1b38", "Tesla P40", "pascal", "6.1"),
    "V100": ("1db4", "Tesla V100-PCIE-16GB", "volta", "7.0"),
    "T4": ("1eb8", "Tesla T4", "turing", "7.5"),
    "A100": ("20b5", "NVIDIA A100 80GB PCIe", "ampere", "8.0"),
    "A40": ("2235", "NVIDIA A40", "ampere", "8.6"),
    "4090": ("2684", "NVIDIA GeForce RTX 4090", "ada", "8.9"),
    "H100": ("2331", "NVIDIA H100 PCIe", "hopper", "9.0"),
    "H200": ("2335", "NVIDIA H200", "hopper", "9.0"),
    "B200": ("2901", "NVIDIA B200", "blackwell", "10.0"),
    "5090": ("2b85", "NVIDIA GeForce RTX 5090", "blackwell", "12.0"),
    "?": ("ffff", "unknown 10de:ffff", "unknown", None),
}


def make_host(gpus: str = "V100", system: str = "rhel 8.8", **changes: Any) -> dict[str, Any]:
    """What the probe says of a host; `gpus` are keys of GPUS, for example "V100 A100"."""
    os_id, version = system.split()
    records: list[dict[str, str | None]] = [
        {"pci_id": f"0000:{0x3B + index:02x}:00.0", **dict(zip(KEYS, row, strict=True))}
        for index, row in enumerate(GPUS[key] for key in gpus.split())
    ]
    kernel = {"running": KERNEL, "next_boot": KERNEL, "installed": [KERNEL], "with_headers": [], "boot_id": "1"}
    host = {"hostname": "a5-01", "machine": "x86_64", "os": {"id": os_id, "version": version}, "kernel": kernel}
    nvidia = {"loaded": None, "modules": {KERNEL: None}, "user_space": None}
    return {**host, "gpus": records, "nvidia": nvidia, **changes}


def ask(gpus: str = "V100", system: str = "rhel 8.8", **pins: str) -> dict[str, Any]:
    return solve(MATRIX, make_host(gpus, system), pins)


class Plan(NamedTuple):
    """A question that has an answer.

    answer    driver branch and flavour, CUDA, cuDNN, Python, PyTorch and build, AMP type
    warnings  words that must occur
    """

    gpus: str
    system: str
    pins: dict[str, str]
    answer: str
    warnings: tuple[str, ...]


def can(answer: str, gpus: str = "V100", system: str = "rhel 8.8", warnings: tuple[str, ...] = (), **pins: str) -> Plan:
    return Plan(gpus, system, pins, answer, warnings)


OLD_OS = "RHEL 8.8 has had no updates since 2025-05 with Extended Update Support (EUS)"
OLD_PYTHON = "Python 3.11 has had no updates since 2026-05"
OLD = (OLD_OS, OLD_PYTHON)
# What PyPI serves to a GPU that nothing is over for: a release of PyTorch costs its row, its locks and the page.
NEWEST = "NEWEST"


def with_newest(answer: str) -> str:
    """An answer with the release and build in place of NEWEST: of the last verified series for the Python before it."""
    found = re.search(rf"(3\.[0-9]+) {NEWEST}", answer)
    if not found:
        return answer
    series = [row for row in MATRIX["pytorch"].values() if row["verified"] and found.group(1) in row["pythons"]]
    row = max(series, key=lambda row: [int(part) for part in row["releases"][-1].split(".")])
    build = next(name for name, details in row["builds"].items() if details.get("index") == "pypi")
    return answer.replace(NEWEST, f"{row['releases'][-1]} {build}")


PLANS = [
    # -- V100 on the reference machine
    can("580 proprietary 12.9 9.10.2 3.11 2.10.0 cu128 float16", warnings=OLD),
    can(
        "580 proprietary 12.9 9.10.2 3.11 2.10.0 cu128 float16",
        warnings=OLD,
        driver_branch="580",
        driver_flavour="proprietary",
        cuda="12.9",
    ),
    can(
        "570 proprietary 12.8 9.10.2 3.11 2.10.0 cu128 float16",
        warnings=(
            *OLD,
            "Driver 570 (proprietary) has had no",
        ),
        driver_branch="570",
    ),
    can(
        "550 proprietary 12.4 9.10.2 3.11 2.10.0 cu128 float16",
        warnings=(
            "X server",
            "not verified",
        ),
        driver_branch="550",
    ),
    can(
        "535 proprietary 12.2 9.10.2 3.11 2.10.0 cu128 float16",
        warnings=(
            "since 2026-06",
            "X server",
        ),
        driver_branch="535",
    ),
    can("525 proprietary 12.0 9.10.2 3.11 2.10.0 cu128 float16", driver_branch="525"),
    # CUDA 12 needs 525: below it, CUDA 11 is left.
    # The toolkit that came with the branch; cuDNN 9 for CUDA 11 was built for 11.8 alone.
    can("515 proprietary 11.7 8.7.0 3.11 2.0.1 cu117 float16", warnings=("515",), driver_branch="515"),
    can("510 proprietary 11.6 8.7.0 3.11 2.0.1 cu117 float16", driver_branch="510"),
    can("470 proprietary 11.4 8.7.0 3.11 2.0.1 cu117 float16", driver_branch="470"),
    can("470 proprietary 11.4 8.7.0 3.11 2.7.1 cu118 float16", driver_branch="470", pytorch_build="cu118"),
    can(
        "515 proprietary 11.8 9.10.2 3.11 2.0.1 cu117 float16",
        warnings=("CUDA 11.8 came with driver 520.61.05",),
        driver_branch="515",
        cuda="11.8",
    ),
    can("580 proprietary 12.9 9.10.2 3.11 2.10.0 cu128 float16", warnings=OLD, driver_version="580.82.07"),
    can("580 proprietary 12.9 9.10.2 3.11 2.10.0 cu128 float16", cuda="12"),
    can("580 proprietary 12.6 9.10.2 3.11 2.10.0 cu128 float16", cuda="12.6"),
    can(
        "580 proprietary 11.8 9.10.2 3.11 2.10.0 cu128 float16",
        warnings=("cannot be compiled with toolkit 11.8",),
        cuda="11.8",
    ),
    can("580 proprietary 11.8 9.10.2 3.11 2.7.1 cu118 float16", warnings=OLD, cuda="11.8", pytorch_build="cu118"),
    # cuDNN 8.9 was built for CUDA 12.0 to 12.2.
    can("580 proprietary 12.2 8.9.7 3.11 2.10.0 cu128 float16", warnings=("not verified",), cudnn="8.9.7"),
    can("580 proprietary 12.9 9.10.2 3.11 2.10.0 cu128 float16", cudnn="9.10"),
    can("580 proprietary 12.9 9.10.2 3.11 2.10.0 cu128 float16", cudnn="9.10.2.21"),
    # The last PyTorch for Volta comes from the PyTorch index.
    can("580 proprietary 12.9 9.10.2 3.11 2.14.1 cu126 float16", pytorch="2.14"),
    can("580 proprietary 12.9 9.10.2 3.11 2.14.0 cu126 float16", pytorch="2.14.0"),
    can("580 proprietary 12.9 9.10.2 3.11 2.11.0 cu126 float16", pytorch="2.11.0"),
    can("580 proprietary 12.9 9.10.2 3.11 2.8.0 cu129 float16", pytorch_build="cu129"),
    can("580 proprietary 12.9 9.10.2 3.11 2.7.1 cu126 float16", pytorch="2.7", pytorch_build="cu126"),
    can(
        "580 proprietary 12.9 9.10.2 3.11 2.0.1 cu117 float16",
        warnings=("cannot be compiled with toolkit 12.9",),
        pytorch="2.0",
    ),
    # Python 3.8 ends at PyTorch 2.4, 3.9 at 2.8.
    can(
        "580 proprietary 12.9 9.10.2 3.8 2.4.1 cu121 float16",
        warnings=("Python 3.8 has had no updates since 2023-05",),
        python="3.8",
    ),
    can(
        "580 proprietary 12.9 9.10.2 3.9 2.8.0 cu128 float16",
        warnings=("Python 3.9 has had no updates since 2025-11",),
        python="3.9",
    ),
    # The stack as the A5 servers had it first.
    can(
        "515 proprietary 11.8 9.10.2 3.8 2.0.1 cu117 float16",
        driver_branch="515",
        cuda="11.8",
        python="3.8",
        pytorch="2.0",
    ),
    # A trial: the trainer on the processor of a node with GPUs.
    can("580 proprietary 12.9 9.10.2 3.11 2.13.0 cpu bfloat16", warnings=OLD, pytorch_build="cpu", pytorch="2.13.0"),
    # -- V100 elsewhere
    can("580 proprietary 12.9 9.10.2 3.12 2.10.0 cu128 float16", "V100", "rhel 8.10"),
    can("580 proprietary 12.9 9.10.2 3.12 2.10.0 cu128 float16", "V100", "rocky 8.10"),
    can("580 proprietary 12.9 9.10.2 3.12 2.10.0 cu128 float16", "V100", "almalinux 8.10"),
    can(
        "580 proprietary 12.9 9.10.2 3.11 2.10.0 cu128 float16",
        "V100",
        "rocky 8.8",
        warnings=("Rocky Linux 8.8 has had no updates since 2023-11",),
    ),
    can("580 proprietary 12.9 9.10.2 3.9 2.8.0 cu128 float16", "V100", "rhel 8.6"),
    # PyTorch 2.1 has no wheels for Python 3.12, so the second best Python is taken.
    can("580 proprietary 12.9 9.10.2 3.11 2.1.2 cu121 float16", "V100", "rhel 8.10", pytorch="2.1"),
    can("580 proprietary 12.9 9.10.2 3.11 2.10.0 cu128 float16", "V100", "rhel 8.10", python="3.11"),
    # -- other GPUs that end with branch 580
    can("580 proprietary 12.9 9.10.2 3.11 2.7.1 cu126 float16", "P100", warnings=OLD),
    can("580 proprietary 12.9 9.10.2 3.12 2.7.1 cu126 float16", "P40", "rhel 8.10"),
    can("580 proprietary 12.9 9.10.2 3.11 2.14.1 cu126 float16", "P100", pytorch="2.14"),
    can("580 proprietary 12.9 9.10.2 3.12 2.7.1 cu126 float16", "M60", "rocky 8.10"),
    # -- GPUs that go on: the newest maintained branch, the open module
    can(f"620 open 13.4 9.26.0 3.11 {NEWEST} float16", "T4", warnings=OLD),
    can(f"580 open 13.0 9.26.0 3.12 {NEWEST} float16", "T4", "rhel 8.10", driver_branch="580"),
    can(f"620 open 13.4 9.26.0 3.12 {NEWEST} bfloat16", "A100", "rhel 8.10"),
    can(f"580 proprietary 13.0 9.26.0 3.12 {NEWEST} bfloat16", "A100", "rhel 8.10", driver_flavour="proprietary"),
    can(
        f"620 open 13.3 9.26.0 3.12 {NEWEST} bfloat16",
        "A100",
        "rhel 8.10",
        cuda="13.3",
    ),
    can(
        f"615 open 13.4 9.26.0 3.12 {NEWEST} bfloat16",
        "A100",
        "rhel 8.10",
        warnings=("branch, which is short-lived",),
        driver_branch="615",
    ),
    can("535 proprietary 12.2 9.26.0 3.12 2.10.0 cu128 bfloat16", "A100", "rhel 8.10", driver_branch="535"),
    can(f"620 open 13.4 9.26.0 3.12 {NEWEST} bfloat16", "A40", "almalinux 8.10"),
    can(f"620 open 13.4 9.26.0 3.12 {NEWEST} bfloat16", "H100", "rhel 8.10"),
    can("620 open 13.4 9.26.0 3.12 2.15.0 cu132 bfloat16", "H100", "rhel 8.10", warnings=("2.15",), pytorch="2.15"),
    can(f"620 open 13.4 9.26.0 3.12 {NEWEST} bfloat16", "H200", "rocky 8.10"),
    can(f"620 open 13.4 9.26.0 3.12 {NEWEST} bfloat16", "4090", "rhel 8.10"),
    can(f"620 open 13.4 9.26.0 3.12 {NEWEST} bfloat16", "B200", "rhel 8.10"),
    can("570 open 12.8 9.26.0 3.12 2.10.0 cu128 bfloat16", "B200", "rhel 8.10", driver_branch="570"),
    # -- several kinds in one host: what fits all
    can("580 proprietary 12.9 9.10.2 3.11 2.10.0 cu128 float16", "V100 V100"),
    can("580 proprietary 12.9 9.10.2 3.11 2.10.0 cu128 float16", "V100 A100"),
    can("580 proprietary 12.9 9.10.2 3.11 2.7.1 cu126 float16", "M60 H100"),
    can(f"620 open 13.4 9.26.0 3.12 {NEWEST} float16", "T4 B200", "rhel 8.10"),
]


def name(question: Any) -> str:
    pins = "+".join(f"{key}={value}" for key, value in question.pins.items())
    return f"{question.gpus or 'none'}|{question.system}|{pins}".replace(" ", "_")


@pytest.mark.parametrize("question", PLANS, ids=name)
def test_what_can_be_is_planned(question: Plan) -> None:
    plan = ask(question.gpus, question.system, **question.pins)
    assert "conflicts" not in plan, plan
    driver, torch = plan["driver"], plan["pytorch"]
    parts = [driver["branch"], driver["flavour"], plan["cuda"]["version"], plan["cudnn"]["version"]]
    parts += [plan["python"]["version"], torch["version"], torch["build"], plan["amp"]["dtype"]]
    assert " ".join(parts) == with_newest(question.answer)
    for words in question.warnings:
        assert any(words in warning for warning in plan["warnings"]), plan["warnings"]
