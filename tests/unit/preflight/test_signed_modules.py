"""Modules that a distribution has signed: planned where Secure Boot would otherwise need somebody at a console."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from fact_schemas import plan_errors
from gpuwright.preflight.secure_boot import secure_boot_problems
from test_plan_questions import MATRIX, make_host

OLD, NEW = "6.8.0-50-generic", "6.8.0-60-generic"
WISHES = {"prepare_secure_boot": False, "secure_boot_password_hash": ""}


def ubuntu(
    gpus: str = "T4",
    system: str = "ubuntu 22.04",
    secure_boot: str = "enabled",
    key: str = "none",
    running: str = OLD,
    next_boot: str = "",
    stem: str = "generic-hwe-22.04",
) -> Any:
    releases = list(dict.fromkeys([running, next_boot or running]))
    kernel = {
        "running": running,
        "next_boot": next_boot or running,
        "installed": releases,
        "with_headers": [],
        "boot_id": "1",
        "owners": {name: {"package": f"linux-image-{name}", "version": "1"} for name in releases},
        "metapackages": [{"name": f"linux-image-{stem}", "version": "1", "brings": releases[-1:]}],
    }
    key_record = {"state": key, "because": "", "certificate": "/var/lib/dkms/mok.pub", "private_key": "/x"}
    boot = {"secure_boot": secure_boot, "secure_boot_because": "", "module_key": key_record, "module_signature": None}
    return {**make_host(gpus, system, kernel=kernel), **boot}


@pytest.mark.parametrize(
    ("gpus", "system", "open_"),
    [
        ("T4", "ubuntu 22.04", "-open"),
        ("A100", "ubuntu 22.04", "-open"),
        ("H100", "ubuntu 24.04", "-open"),
        ("V100", "ubuntu 22.04", ""),
        ("P40", "ubuntu 24.04", ""),
    ],
)
def test_under_secure_boot_nobody_has_to_be_at_the_console(gpus, system, open_):
    host = ubuntu(gpus, system)
    plan = solve(MATRIX, host, {})
    driver = plan["driver"]
    assert plan_errors(plan) == []
    assert driver["signed"] and driver["source"] == "distribution" and driver["branch"] == "580"
    assert driver["packages"][:2] == [
        f"linux-modules-nvidia-580-server{open_}-{OLD}",
        "nvidia-compute-utils-580-server",
    ]
    # Its newest version demands the newest kernel, which no run of site.yml may bring.
    assert plan["kernel"]["follow"] == [f"linux-modules-nvidia-580-server{open_}-generic-hwe-22.04"]
    assert not set(plan["kernel"]["follow"]) & set(driver["packages"])
    assert not any("dkms" in name for name in [*driver["packages"], *plan["kernel"]["packages"]])
    assert plan["kernel"]["devel"] == [] and plan["kernel"]["packages"] == [] and plan["kernel"]["versions"] == {}
    # A patch day brings the module with the kernel; what is held keeps it to the driver's version.
    assert f"linux-modules-nvidia-580-server{open_}-generic-hwe-22.04" in plan["kernel"]["updated"]
    assert plan["kernel"]["module"].format(kernel=NEW) == f"linux-modules-nvidia-580-server{open_}-{NEW}"
    libraries = ("nvidia-kernel-common-580-server", "libnvidia-compute-580-server", "nvidia-utils-580-server")
    assert set(libraries) <= set(driver["version_lock"])
    assert not any(name.startswith("linux-") for name in driver["version_lock"])
    assert "its kernel" in " ".join(plan["guards"]["driver"])
    assert "Secure Boot" in plan["because"]["driver"] and "console" in plan["because"]["driver"]
    assert secure_boot_problems(host, plan, WISHES) == []


def test_each_kernel_that_may_boot_has_its_own():
    plan = solve(MATRIX, ubuntu(next_boot=NEW), {})
    names = [f"linux-modules-nvidia-580-server-open-{release}" for release in (OLD, NEW)]
    assert plan["driver"]["packages"][:2] == names
    assert plan["kernel"]["headers"] == dict(zip((OLD, NEW), names, strict=True))


@pytest.mark.parametrize(
    ("changes", "pins"),
    [
        ({"secure_boot": "disabled"}, {}),
        ({"secure_boot": "unsupported"}, {}),
        # A node that has been to the console goes on with its own key.
        ({"key": "enrolled"}, {}),
        ({}, {"driver_source": "nvidia"}),
        ({}, {"driver_branch": "595"}),
        # The archive has no toolkit for it.
        ({"gpus": "B200"}, {}),
        ({}, {"cuda": "13.0"}),
        ({"running": "6.8.0-50-raspi", "stem": "raspi"}, {}),
    ],
)
def test_who_does_not_need_them_gets_nvidias_repository(changes, pins):
    plan = solve(MATRIX, ubuntu(**changes), pins)
    assert plan["driver"]["source"] == "nvidia" and not plan["driver"]["signed"]


@pytest.mark.parametrize("system", ["debian 12", "debian 13", "rhel 9"])
def test_other_systems_have_none(system):
    host = {**make_host("T4", system), "secure_boot": "enabled", "module_key": {"state": "none"}}
    assert not solve(MATRIX, host, {})["driver"]["signed"]


def test_without_secure_boot_the_archives_driver_is_built_by_dkms():
    plan = solve(MATRIX, ubuntu(secure_boot="disabled"), {"driver_source": "distribution"})
    assert not plan["driver"]["signed"] and "nvidia-dkms-580-server-open" in plan["driver"]["packages"]


def test_a_node_with_an_enrolled_key_gets_them_where_the_archive_was_asked_for():
    assert solve(MATRIX, ubuntu(key="enrolled"), {"driver_source": "distribution"})["driver"]["signed"]


def test_a_kernel_without_signed_modules_keeps_dkms():
    plan = solve(MATRIX, ubuntu(running="6.8.0-50-raspi", stem="raspi"), {"driver_source": "distribution"})
    assert not plan["driver"]["signed"] and "nvidia-dkms-580-server-open" in plan["driver"]["packages"]
    assert plan["kernel"]["devel"] == ["linux-headers-6.8.0-50-raspi"]


@pytest.mark.parametrize("stem", ["generic", "aws", "azure", "gcp", "oracle", "generic-hwe-22.04", "azure-6.8"])
def test_the_flavour_of_the_kernel_is_that_of_its_modules(stem):
    release = f"6.8.0-50-{stem.partition('-')[0]}"
    plan = solve(MATRIX, ubuntu(running=release, stem=stem), {})
    assert plan["kernel"]["follow"] == [f"linux-modules-nvidia-580-server-open-{stem}"]


@pytest.mark.parametrize(
    ("system", "gpus", "told"),
    [
        ("rhel 10.1", "T4", True),
        ("rhel 10", "H100", False),
        ("rhel 10.0", "T4", False),
        ("rhel 9", "T4", False),
        ("rocky 10.1", "T4", False),
        ("debian 13", "T4", False),
    ],
)
def test_red_hats_signed_modules_are_named_where_there_are_some(system, gpus, told):
    host = {**ubuntu(gpus), **make_host(gpus, system)}
    plan = {"driver": {"present": False, "signed": False, "flavour": "open"}}
    (row,) = secure_boot_problems(host, plan, WISHES)
    assert ("rhel-10-for-x86_64-extensions-rpms" in row["next"]) == told
    plan["driver"]["flavour"] = "proprietary"
    assert "extensions" not in secure_boot_problems(host, plan, WISHES)[0]["next"]


def test_what_was_asked_for_stays_asked_for():
    """Without a toolkit there is none, and no other profile takes the place of one that does not fit."""
    plan = solve(MATRIX, ubuntu(), {"cuda": "none"})
    assert plan["driver"]["signed"] and plan["cuda"]["version"] == ""
    assert "conflicts" in solve(MATRIX, ubuntu(), {"profile": "documented"})


def loaded(host: Any, version: str, dkms: bool) -> Any:
    """The host with this driver in its kernel, built there or not."""
    record = {"version": version, "flavour": "open"}
    rows = [{"module": "nvidia", "version": version, "kernel": OLD, "state": "installed"}] if dkms else []
    found = {"loaded": record, "user_space": version, "nvidia_smi": True, "modules": {OLD: record}, "dkms": rows}
    return {**host, "nvidia": {**host["nvidia"], **found}}


def test_a_driver_that_secure_boot_has_accepted_stays():
    assert not solve(MATRIX, loaded(ubuntu(), "620.10.02", dkms=True), {})["driver"]["signed"]


@pytest.mark.parametrize("pins", [{}, {"cuda": "none"}])
def test_the_next_run_finds_the_signed_driver_where_it_is(pins):
    """It is loaded, no key was ever enrolled, and so nothing that the node builds would be taken."""
    driver = solve(MATRIX, loaded(ubuntu(), "580.95.05", dkms=False), pins)["driver"]
    assert (driver["signed"], driver["present"], driver["source"]) == (True, True, "distribution")
