"""Boards with NVSwitches: what a plan adds for them, holds and moves together with the driver, and what it refuses.

Package names and the branches at which they change: Azure/azhpc-images (install_nvidia_fabric_manager.sh) and NVIDIA's
gpu-driver-container (install.sh of each system); that Debian's archive has none of them: apt-cache search.
"""

from __future__ import annotations

from typing import Any

import platform_hosts
import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.candidates import list_candidates
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.question import imagined_host, plan_table, why_package
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.rules import Rules
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from gpuwright.probe.board import read_platform
from gpuwright.probe.hardware import read_gpus
from host_tree import HostTree
from test_plan_questions import KERNEL, MATRIX, make_host


@pytest.fixture
def host(tmp_path):
    """The record of one of the machines of platform_hosts, as the probe makes it from its sysfs."""

    def make(name: str, system: str = "rhel 9.6", machine: str = "x86_64", **changes: Any) -> dict[str, Any]:
        tree = HostTree(tmp_path / name)
        getattr(platform_hosts, name)(tree)
        gpus = read_gpus(tree.root)
        platform = read_platform(tree.root, gpus, machine)
        return {**make_host("V100", system, platform=platform, machine=machine, **changes), "gpus": gpus}

    return make


def names(plan: dict[str, Any]) -> list[str]:
    return plan["platform"]["packages"]


@pytest.mark.parametrize(
    ("machine", "system", "pins", "packages"),
    [
        (
            "dgx_a100",
            "rhel 8.10",
            {"driver_branch": "570"},
            ["nvidia-fabric-manager-570.*", "libnvidia-nscq-570-570.*"],
        ),
        ("dgx_a100", "rhel 8.10", {"driver_branch": "580"}, ["nvidia-fabricmanager-580.*", "libnvidia-nscq-580.*"]),
        (
            "hgx_h100",
            "rocky 9.6",
            {"driver_version": "580.95.05"},
            ["nvidia-fabricmanager-580.95.05", "libnvidia-nscq-580.95.05"],
        ),
        ("hgx_h200", "rhel 10.1", {"driver_branch": "580"}, ["nvidia-fabricmanager-580.*", "libnvidia-nscq-580.*"]),
        (
            "hgx_b200",
            "rhel 9.6",
            {"driver_branch": "580"},
            ["nvidia-fabricmanager-580.*", "nvlsm", "infiniband-diags"],
        ),
        (
            "hgx_h100",
            "ubuntu 22.04",
            {"driver_branch": "570"},
            ["nvidia-fabricmanager-570=570.*", "libnvidia-nscq-570=570.*"],
        ),
        ("hgx_h100", "ubuntu 24.04", {"driver_branch": "580"}, ["nvidia-fabricmanager=580.*", "libnvidia-nscq=580.*"]),
        (
            "hgx_h100",
            "ubuntu 24.04",
            {"driver_branch": "580", "driver_source": "distribution"},
            ["nvidia-fabricmanager-580", "libnvidia-nscq-580"],
        ),
        (
            "hgx_b300",
            "ubuntu 24.04",
            {"driver_version": "580.95.05"},
            ["nvidia-fabricmanager=580.95.05-*", "nvlsm", "infiniband-diags"],
        ),
        (
            "dgx_a100",
            "debian 12",
            {"driver_branch": "570"},
            ["nvidia-fabricmanager-570=570.*", "libnvidia-nscq-570=570.*"],
        ),
    ],
)
def test_the_packages_of_each_board_system_and_branch(host, machine, system, pins, packages):
    plan = solve(MATRIX, host(machine, system), pins)
    assert names(plan) == packages
    # One transaction brings both, so that they cannot differ in between.
    assert plan["driver"]["packages"][-len(packages) :] == packages
    assert (plan["platform"]["services"], plan["platform"]["id"][:3]) == (["nvidia-fabricmanager"], "hgx")


def test_the_subnet_manager_has_a_version_of_its_own_and_its_kernel_module(host):
    platform = solve(MATRIX, host("hgx_b200"), {"driver_version": "580.95.05"})["platform"]
    assert platform["exact"] == ["nvidia-fabricmanager"]
    assert platform["modules"] == ["ib_umad"]


@pytest.mark.parametrize("name", ["a100_pcie", "v100_sxm2", "hgx_a100_four", "b200_in_a_vm"])
def test_a_board_without_switches_of_its_own_gets_nothing(host, name):
    plan = solve(MATRIX, host(name), {})
    assert plan["platform"] == {"id": "", "name": "", "packages": [], "exact": [], "services": [], "modules": []}
    everything = " ".join(
        plan["driver"]["packages"] + plan["driver"]["version_lock"] + plan["driver"]["switch_removes"]
    )
    assert "fabric" not in everything and "nvlsm" not in everything


def test_what_is_of_the_drivers_version_is_held_and_moves_with_it(host):
    driver = solve(MATRIX, host("hgx_h100", "rhel 8.10"), {"driver_branch": "580"})["driver"]
    assert {"nvidia-fabricmanager", "libnvidia-nscq"} <= set(driver["version_lock"])
    # Under the names that other branches give them, too.
    assert {"nvidia-fabricmanager", "nvidia-fabric-manager", "libnvidia-nscq", "libnvidia-nscq-570"} <= set(
        driver["switch_removes"]
    )
    pinned = solve(MATRIX, host("hgx_h100", "rhel 8.10"), {"driver_version": "580.95.05"})["driver"]
    assert "nvidia-fabricmanager-580.95.05" in pinned["version_lock"]
    archive = {"driver_source": "distribution", "driver_branch": "580"}
    held = solve(MATRIX, host("hgx_h100", "ubuntu 24.04"), archive)["driver"]["version_lock"]
    assert {"nvidia-fabricmanager-580", "libnvidia-nscq-580"} <= set(held)


def test_a_newer_subnet_manager_is_not_kept_away_from_a_newer_fabric_manager(host):
    driver = solve(MATRIX, host("hgx_b200", "rhel 9.6"), {})["driver"]
    assert "nvlsm" not in driver["version_lock"] and "nvlsm" in driver["packages"]


def installed(version: str, flavour: str = "open") -> dict[str, Any]:
    module = {"version": version, "flavour": flavour}
    return {"loaded": module, "modules": {KERNEL: module}, "user_space": version, "nvidia_smi": True}


@pytest.mark.parametrize(
    ("system", "packages"),
    [
        ("rhel 9.6", ["nvidia-fabricmanager-580.82.07", "libnvidia-nscq-580.82.07"]),
        ("ubuntu 24.04", ["nvidia-fabricmanager=580.82.07-*", "libnvidia-nscq=580.82.07-*"]),
    ],
)
def test_a_driver_that_is_there_gets_what_its_board_needs_at_its_own_version(host, system, packages):
    """Not the newest of the branch, which would not start; and the driver is left alone."""
    made = host("hgx_h100", system, nvidia=installed("580.82.07"))
    plan = solve(MATRIX, made, {"driver_branch": "580"})
    assert plan["driver"]["present"] is True
    assert names(plan) == packages
    assert not [name for name in plan["driver"]["packages"] if "fabric" in name]


@pytest.mark.parametrize(
    ("machine", "system", "pins", "words"),
    [
        (
            "dgx_a100",
            "debian 12",
            {"driver_source": "distribution"},
            "needs the fabric manager: Debian's archive has none",
        ),
        ("dgx_a100", "debian 13", {"driver_branch": "550"}, "needs the fabric manager: Debian's archive has none"),
    ],
)
def test_a_source_that_lacks_something_is_refused(host, machine, system, pins, words):
    answer = solve(MATRIX, host(machine, system), pins)
    (conflict,) = answer["conflicts"]
    assert words in conflict["what"]


@pytest.mark.parametrize(
    ("system", "branch", "source", "words"),
    [
        (
            "ubuntu2404",
            "580",
            "distribution",
            "NVIDIA's NVLink subnet manager (nvlsm): Ubuntu's archive has none for branch 580",
        ),
        ("el9", "565", "nvidia", "(nvlsm): NVIDIA's repository has none for branch 565"),
        ("el9", "570", "nvidia", ""),
    ],
)
def test_a_branch_or_archive_without_a_part_of_the_board(host, system, branch, source, words):
    """What the toolkits of Ubuntu's archive and the first driver for a B200 rule out before this does."""
    found = list_candidates(MATRIX, {}, system)["driver"]
    pins = {"driver_branch": branch, "driver_flavour": "open", "driver_source": source}
    driver = next(one for one in found if pins.items() <= one.pins.items())
    row = next(row for row in MATRIX["os_releases"] if row["family"] == system)
    platform = host("hgx_b200")["platform"]
    refusal = Rules(MATRIX).os_refuses({**row, "machine": "x86_64", "platform": platform}, driver)
    assert words in refusal if words else not refusal


def test_without_a_pin_the_plan_takes_a_source_that_has_everything(host):
    """Debian's archive, which is preferred there, has no fabric manager: NVIDIA's repository serves such a node."""
    plan = solve(MATRIX, host("dgx_a100", "debian 12"), {"driver_branch": "535"})
    assert (plan["driver"]["source"], names(plan)[0]) == ("nvidia", "nvidia-fabricmanager-535=535.*")


def test_a_board_that_no_row_knows_has_a_plan_that_says_so(host):
    """Whether it is installed is preflight's question; a verification needs a plan."""
    plan = solve(MATRIX, host("switches_of_an_unknown_id"), {})
    assert names(plan) == []
    assert any("12 NVSwitches 10de:1ac9" in warning and "nothing is planned" in warning for warning in plan["warnings"])


def test_what_nobody_has_seen_is_said(host):
    plan = solve(MATRIX, host("hgx_h100", "debian 13"), {})
    assert any("Nobody has seen the fabric manager" in warning for warning in plan["warnings"])
    assert not any("Nobody has seen" in warning for warning in solve(MATRIX, host("hgx_h100"), {})["warnings"])


@pytest.mark.parametrize(
    ("question", "key", "package"),
    [
        ("8x NVIDIA H100 80GB HBM3", "hgx-h100", "nvidia-fabricmanager"),
        ("8x NVIDIA A100-SXM4-80GB", "hgx-a100", "nvidia-fabricmanager"),
        ("8x NVIDIA B200", "hgx-b200", "nvlsm"),
        ("4x NVIDIA GB200", "nvl72", "nvidia-imex"),
        ("4x NVIDIA A100-SXM4-80GB", "", ""),
        ("8x NVIDIA A100-PCIE-40GB", "", ""),
        ("8x Tesla V100-SXM2-16GB", "", ""),
    ],
)
def test_a_question_without_a_host_assumes_the_usual_board(question, key, package):
    asked = imagined_host(question, "rhel 9.6", releases=MATRIX["os_releases"])
    plan = solve(MATRIX, asked, {})
    assert plan["platform"]["id"] == key
    assert any("Assumed" in warning for warning in plan["warnings"]) is bool(key)
    if package:
        asked_for = next(name for name in names(plan) if name.startswith(package))
        assert "platform" in why_package(plan, asked_for.partition("-580")[0])
        assert plan["platform"]["name"] in plan_table(plan, asked)
