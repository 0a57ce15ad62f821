"""Virtual machines with parts of cards: never the driver of a whole card, and the guest driver that the site names."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.asked import Asked
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.clash import conflict_message
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from fact_schemas import plan_errors
from test_plan_questions import KERNEL, MATRIX, make_host

DEB, RPM = "nvidia-linux-grid-550_550.90.07_amd64.deb", "nvidia-linux-grid-550-550.90.07-1.x86_64.rpm"
WHY = "its subsystem id 10de:14bb is that of a vGPU"


def guest(system: str = "debian 12", gpus: str = "A40", host_driver: str = "", loaded: str = "", **site: Any) -> Any:
    host = make_host(gpus, system)
    for gpu in host["gpus"]:
        gpu["vgpu"] = {"because": WHY, "host_driver": host_driver}
    if loaded:
        module = {"version": loaded, "flavour": "proprietary"}
        host["nvidia"] = {"loaded": module, "modules": {KERNEL: module}, "user_space": loaded, "nvidia_smi": True}
    return {**host, "site_driver": {"file": "", "packages": [], "problem": "", **site}}


@pytest.mark.parametrize("system", ["debian 12", "rhel 8.8", "rhel 9", "ubuntu 22.04", "ubuntu 24.04"])
@pytest.mark.parametrize("pins", [{}, {"driver_branch": "580"}, {"driver_source": "nvidia"}, {"profile": "documented"}])
def test_a_guest_is_never_given_the_driver_of_a_whole_card(system, pins):
    host = guest(system)
    refused = solve(MATRIX, host, pins)["conflicts"]
    text = conflict_message(host, refused)
    assert [row["id"] for row in refused] == ["driver.vgpu"]
    assert WHY in text and "system_driver_package_file" in text and text.endswith("[driver.vgpu]")


@pytest.mark.parametrize(
    ("system", "site", "pins", "asked"),
    [
        ("debian 12", {"file": "/srv/" + DEB}, {}, ["nvidia-linux-grid-550=550.90.07*"]),
        ("ubuntu 24.04", {"file": "/srv/" + DEB}, {}, ["nvidia-linux-grid-550=550.90.07*"]),
        ("rhel 8.8", {"file": "/srv/" + RPM}, {}, ["nvidia-linux-grid-550-550.90.07"]),
        ("rhel 9", {"file": RPM}, {}, ["nvidia-linux-grid-550-550.90.07"]),
        ("debian 12", {"packages": ["our-guest", "our-tools"]}, {"driver_version": "550.90.07"},
         ["our-guest=550.90.07*", "our-tools=550.90.07*"]),
    ],
)  # fmt: skip
def test_the_driver_that_the_site_names_is_installed_held_and_nothing_else(system, site, pins, asked):
    plan = solve(MATRIX, guest(system, host_driver="550.90.05", **site), pins)
    assert "conflicts" not in plan and plan_errors(plan) == []
    driver = plan["driver"]
    assert (driver["source"], driver["version"], driver["branch"]) == ("site", "550.90.07", "550")
    assert driver["packages"] == asked == driver["version_lock"]
    assert not driver["present"] and driver["stream"] == "" and driver["switch_removes"] == []
    assert driver["preference"] == {"package": "", "version": ""}
    assert plan["guards"]["driver"]
    # The toolkit goes with this driver, and comes from NVIDIA's repository.
    assert driver["repository"]["url"] and plan["cuda"]["package"].startswith("cuda-toolkit-12")
    assert any("gpu.vgpu_license" in warning for warning in plan["warnings"])


def test_a_guest_driver_that_runs_is_kept_whoever_installed_it():
    plan = solve(MATRIX, guest(loaded="550.90.07"), {})
    assert plan["driver"]["present"] and plan["driver"]["packages"] == [] and plan["driver"]["version"] == "550.90.07"
    assert plan_errors(plan) == []
    newer = solve(MATRIX, guest(loaded="550.54.14", file=DEB), {})
    assert not newer["driver"]["present"] and newer["driver"]["packages"] == ["nvidia-linux-grid-550=550.90.07*"]
    same = solve(MATRIX, guest(loaded="550.90.07", file=DEB), {})
    assert same["driver"]["present"] and same["driver"]["version_lock"] == ["nvidia-linux-grid-550=550.90.07*"]


@pytest.mark.parametrize(
    ("host", "pins", "words"),
    [
        (guest(file="/srv/" + RPM), {}, "does not say package and version as a deb file"),
        (guest("rhel 8.8", file="/srv/" + DEB), {}, "as a rpm file"),
        (guest(file="/srv/NVIDIA-Linux-x86_64-550.90.07-grid.run"), {}, "grid.run"),
        (
            guest(file=DEB, problem="its SHA-256 is 12, and it is not"),
            {},
            "SHA-256 is 12",
        ),
        (guest(file=DEB), {"driver_version": "550.54.14"}, "contradicts"),
        (guest(file=DEB), {"driver_source": "nvidia"}, 'system_driver_source "nvidia" asks for the driver of a whole'),
        (guest(packages=["our-guest"]), {}, "Set system_driver_package_file"),
        (guest(host_driver="535.161.05", file=DEB), {}, "newer branch than the hypervisor's 535.161.05"),
        (guest(host_driver="535.161.05"), {}, "whose driver is 535.161.05"),
    ],
)
def test_what_the_site_names_is_judged(host, pins, words):
    refused = solve(MATRIX, host, pins)["conflicts"]
    assert words in conflict_message(host, refused) and refused[0]["id"] == "driver.vgpu" and refused[0]["next"]


def test_a_whole_card_beside_a_part_of_one_is_refused():
    host = guest(gpus="A40 V100")
    host["gpus"][1]["vgpu"] = None
    assert "and Tesla V100-PCIE-16GB is one" in conflict_message(host, solve(MATRIX, host, {})["conflicts"])


def test_whole_cards_take_no_notice_of_a_guest_driver_for_others_of_the_group():
    host = {**make_host("A40", "debian 12"), "site_driver": {"file": DEB, "packages": [], "problem": ""}}
    assert solve(MATRIX, host, {})["driver"]["source"] != "site"


def test_a_guest_that_is_only_judged_is_not_refused_and_judged_by_the_driver_that_runs():
    assert "conflicts" not in solve(MATRIX, {**guest(), "only_judged": True}, {})
    plan = solve(MATRIX, {**guest(loaded="550.90.07"), "only_judged": True}, {})
    assert plan["driver"]["present"] and plan["driver"]["version"] == "550.90.07" and plan["driver"]["source"] == "site"


def site_driver(**settings: Any) -> Any:
    known: dict[str, Any] = {
        "system_driver_package_file": "",
        "system_driver_package_sha256": "",
        "system_driver_packages": [],
    }
    known |= {"system_driver_version_lock": False, "system_kernel_target": "", "system_driver_guards": "auto"}
    variables = {"ansible_version": {"full": "2.16.19"}}
    asked = Asked({**known, **settings}.__getitem__, str, dict, variables)
    return asked.circumstances(judged_only=False)["site_driver"]


def test_only_a_file_with_the_hash_of_the_inventory_is_taken(tmp_path):
    file = tmp_path / DEB
    named = {"system_driver_package_file": str(file)}
    assert "cannot be read on the controller (No such file" in site_driver(**named)["problem"]
    file.write_bytes(b"a package")
    right = hashlib.sha256(b"a package").hexdigest()
    assert site_driver(**named, system_driver_package_sha256=right.upper())["problem"] == ""
    assert f"SHA-256 is {right}, and system_driver_package_sha256 is not set" in site_driver(**named)["problem"]
    file.write_bytes(b"another package")
    assert right in site_driver(**named, system_driver_package_sha256=right)["problem"]
    assert site_driver(system_driver_packages=["our-guest"]) == {"file": "", "packages": ["our-guest"], "problem": ""}
