"""What preflight says of the driver that a node has: kept and guarded, or newer than what is planned."""

from __future__ import annotations

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.question import plan_table
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from gpuwright.preflight.driver import downgrade_problems, guard_remarks, read_guarded
from host_tree import HostTree
from test_plan_questions import KERNEL, MATRIX, make_host

SYSTEMS = {"redhat": {"id": "rhel", "version": "8.8"}, "debian": {"id": "debian", "version": "12"}}


def host_with(version: str, family: str = "redhat", **more: object) -> dict:
    module = {"version": version, "flavour": "proprietary", "licence": "NVIDIA"}
    nvidia = {"loaded": module, "modules": {KERNEL: module}, "user_space": version, "nvidia_smi": True}
    return {**make_host(nvidia=nvidia, os=SYSTEMS[family]), "os": SYSTEMS[family], **more}


@pytest.mark.parametrize(
    ("family", "words"),
    [
        ("redhat", ["module stream 580-dkms", "version lock", "dnf-automatic"]),
        ("debian", ["apt's preference for 580", "unattended-upgrades", "hold"]),
    ],
)
def test_an_adopted_driver_is_announced(family: str, words: list[str]) -> None:
    host = host_with("580.65.06", family)
    plan = solve(MATRIX, host, {"driver_source": "nvidia"})
    assert plan["driver"]["present"]
    (row,) = guard_remarks(host, plan, {"guarded": False})
    assert not row["stops"] and "kept as it is, guarded by" in row["problem"] and "580.65.06" in row["problem"]
    assert [word for word in words if word not in row["problem"]] == []
    assert "system_driver_guards: never" in row["next"]
    table = " ".join(plan_table(plan, host).split())
    assert "driver: kept as it is, guarded by" in table and all(word in table for word in words)
    # It is said once, before the guards are there.
    assert guard_remarks(host, plan, {"guarded": True}) == []


def test_the_inventory_takes_the_guards_off() -> None:
    host = host_with("580.65.06", driver_guards={"guards": "never", "hold": False})
    plan = solve(MATRIX, host, {})
    assert plan["guards"]["driver"] == [] and guard_remarks(host, plan, {"guarded": False}) == []
    assert "driver: kept as it is, not guarded" in plan_table(plan, host)
    # An inventory that has always asked for the hold keeps it, also without the rest.
    held = solve(MATRIX, host_with("580.65.06", driver_guards={"guards": "never", "hold": True}), {})
    assert held["guards"]["driver"] == ["a version lock, which dnf and dnf-automatic honour"]


def test_a_bare_node_and_one_without_gpus_announce_nothing() -> None:
    bare = make_host()
    assert guard_remarks(bare, solve(MATRIX, bare, {}), {"guarded": False}) == []
    cpu = {**make_host(), "gpus": []}
    plan = solve(MATRIX, cpu, {"pytorch_build": "cpu"})
    assert plan["guards"]["driver"] == [] and guard_remarks(cpu, plan, {"guarded": False}) == []
    assert "guards" not in plan_table(plan, cpu)


def test_guards_of_an_earlier_run_are_found(tmp_path) -> None:
    host = HostTree(tmp_path)
    assert not read_guarded("redhat", host.root) and not read_guarded("debian", host.root)
    host.put("/etc/dnf/plugins/versionlock.list", "gpuwright-BEGIN-cuda-0:0-0.*\ngpuwright-END-cuda-0:0-0.*\n")
    assert not read_guarded("redhat", host.root)
    host.put(
        "/etc/dnf/plugins/versionlock.list", "gpuwright-BEGIN-driver-0:0-0.*\nx-0:1-1.*\ngpuwright-END-driver-0:0-0.*\n"
    )
    assert read_guarded("redhat", host.root)
    host.put("/etc/apt/apt.conf.d/52gpuwright-unattended-upgrades", "x\n")
    assert not read_guarded("debian", host.root)
    host.put("/etc/apt/preferences.d/gpuwright-driver.pref", "x\n")
    assert read_guarded("debian", host.root)


@pytest.mark.parametrize(
    ("installed", "pins", "allowed", "stops"),
    [
        ("590.48.01", {}, False, True),
        ("590.48.01", {}, True, False),
        ("580.95.05", {"driver_version": "580.82.07"}, False, True),
        ("580.95.05", {"driver_version": "580.82.07"}, True, False),
        ("570.172.08", {}, False, False),
        ("580.65.06", {"driver_version": "580.82.07"}, False, False),
        ("580.95.05", {}, False, False),
        ("1000.1", {}, False, True),
        ("", {}, False, False),
        ("unknown", {}, False, False),
    ],
)
def test_a_newer_driver_goes_only_when_that_was_asked_for(
    installed: str, pins: dict, allowed: bool, stops: bool
) -> None:
    host = host_with(installed)
    found = downgrade_problems(host, solve(MATRIX, host, pins), {"allow_downgrade": allowed})
    assert [row["stops"] for row in found] == [True] * stops
    for row in found:
        assert installed in row["problem"] and "system_driver_allow_downgrade: true" in row["next"]
        assert f'system_driver_branch: "{installed.split(".")[0]}"' in row["next"]
