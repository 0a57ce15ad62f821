"""Drivers that are known not to compile for a kernel: the plan says so before anything is installed."""

from __future__ import annotations

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from test_plan_questions import MATRIX, make_host

EL98 = "5.14.0-687.12.1.el9_8.x86_64"


def warned(system: str, kernel: str, **pins: str) -> list[str]:
    names = {"running": kernel, "next_boot": kernel, "installed": [kernel], "with_headers": [], "boot_id": "1"}
    plan = solve(MATRIX, make_host("T4", system, kernel=names), pins)
    return [text for text in plan["warnings"] if "not known to compile" in text]


@pytest.mark.parametrize(
    ("system", "kernel", "pins", "words"),
    [
        ("rhel 9.8", EL98, {"driver_branch": "575"}, "no later release"),
        ("rocky 9.8", EL98, {"driver_branch": "575"}, "5.14.0-687"),
        ("rocky 9.8", "<running kernel>", {"driver_branch": "575"}, "open-gpu-kernel-modules/issues/1176"),
        ("debian 13", "7.1.3+deb13-amd64", {"driver_version": "580.142", "driver_source": "nvidia"}, "580.159.04 does"),
        ("ubuntu 24.04", "7.0.0-30-generic", {"driver_version": "580.95.05"}, "580.159.04 does"),
    ],
)
def test_what_does_not_compile_is_said(system, kernel, pins, words):
    if system == "debian 13":
        # NVIDIA's repository for it begins with 590.
        system = "debian 12"
    (text,) = warned(system, kernel, **pins)
    assert words in text and kernel in text


@pytest.mark.parametrize(
    ("system", "kernel", "pins"),
    [
        ("rhel 9.6", "5.14.0-570.12.1.el9_6.x86_64", {"driver_branch": "575"}),
        ("rhel 9.6", "<running kernel>", {"driver_branch": "575"}),
        ("rhel 8.10", "4.18.0-553.el8_10.x86_64", {"driver_branch": "575"}),
        ("rhel 9.8", EL98, {"driver_branch": "580"}),
        ("rhel 9.8", EL98, {}),
        ("ubuntu 24.04", "7.0.0-30-generic", {"driver_version": "580.159.04"}),
        ("ubuntu 24.04", "7.0.0-30-generic", {"driver_branch": "580"}),
        ("ubuntu 24.04", "6.8.0-50-generic", {"driver_version": "580.95.05"}),
        ("debian 12", "6.12.30+deb12-amd64", {"driver_version": "580.142"}),
    ],
)
def test_nothing_is_said_of_others(system, kernel, pins):
    assert warned(system, kernel, **pins) == []


def test_a_driver_that_is_there_was_built():
    module = {"version": "575.57.08", "flavour": "open"}
    nvidia = {"loaded": module, "modules": {EL98: module}, "user_space": "575.57.08", "nvidia_smi": True}
    kernel = {"running": EL98, "next_boot": EL98, "installed": [EL98], "with_headers": [], "boot_id": "1"}
    plan = solve(MATRIX, make_host("T4", "rhel 9.8", kernel=kernel, nvidia=nvidia), {"driver_branch": "575"})
    assert plan["driver"]["present"] and not [text for text in plan["warnings"] if "not known to compile" in text]


@pytest.mark.parametrize("version", ["26.04", "26.04.1"])
def test_a_release_without_a_row_says_what_is_missing_for_one(version):
    (row,) = solve(MATRIX, make_host("T4", f"ubuntu {version}"), {})["conflicts"]
    assert "Known of it: kernel 7.0" in row["what"] and "No source has told with which driver" in row["what"]
    (other,) = solve(MATRIX, make_host("T4", "ubuntu 28.04"), {})["conflicts"]
    assert "Known of it" not in other["what"]
