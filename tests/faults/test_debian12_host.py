"""A Debian 12 node with NVIDIA's repository: another driver than it has, and a repository that cannot be used."""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
from conftest import FLEET, REPOSITORY, on_host, play
from playbook_run import Run

sys.path.insert(0, str(REPOSITORY / "tests/fleet"))
containers = importlib.import_module("gpuwright_fleet.containers")

FLEET_NAME = "debian12-faults"
REPOSITORY_SERVER = containers.container_name(FLEET_NAME, "repo")
SOURCES = "/etc/apt/sources.list.d/cuda-debian12-x86_64.sources"
VERSION = "nvidia-smi --query-gpu=driver_version --format=csv,noheader"
on_debian = functools.partial(on_host, fleet=FLEET_NAME, host="deb12-11")


def system(*arguments: str, **variables: object) -> Run:
    return play("playbooks/system.yml", *arguments, fleet=FLEET_NAME, **variables)


@pytest.fixture(scope="module", autouse=True)
def debian_host() -> Iterator[None]:
    """Bare at first; the tests are in the order of its life."""
    subprocess.run([*FLEET, "reset", "--fleet", FLEET_NAME], cwd=REPOSITORY, check=True)
    yield
    subprocess.run([*FLEET, "down", "--fleet", FLEET_NAME], cwd=REPOSITORY, check=True)


@pytest.fixture(scope="module")
def newest() -> str:
    """The driver that a plain run installs: the newest of the planned branch, not of the repository."""
    done = system(system_reboot_policy="allowed")
    assert done.rc == 0, done.output
    return on_debian(VERSION)


def test_key_with_another_fingerprint_is_not_trusted() -> None:
    done = system(system_driver_repository_key_fingerprint="0" * 40)
    assert done.rc != 0
    assert "instead of " + "0" * 40 in done.text and "[repository.key]" in done.text
    assert "Nothing was trusted and nothing was changed" in done.text
    assert on_debian(f"ls {SOURCES} /etc/apt/keyrings/cuda-debian12-x86_64.asc 2>/dev/null", check=False) == ""
    assert on_debian("apt-get -q update >/dev/null && dpkg --audit") == ""


def test_unreachable_repository() -> None:
    subprocess.run(["podman", "stop", "--time", "1", REPOSITORY_SERVER], check=True)
    try:
        done = system()
    finally:
        subprocess.run(["podman", "start", REPOSITORY_SERVER], check=True)
    assert done.rc != 0 and "repo.fleet.test" in done.text
    assert not on_debian(f"ls {SOURCES} 2>/dev/null", check=False)


def test_a_plain_rerun_brings_the_planned_branch(newest: str) -> None:
    assert newest == "580.95.05"
    assert on_debian("apt-cache madison cuda-drivers").split()[2] > "590.", "there is nothing newer"


def test_a_held_driver_gives_way_to_another_version_that_is_asked_for(newest: str) -> None:
    hold = {"system_driver_version_lock": True}
    assert system(**hold).rc == 0
    candidate = "apt-cache policy cuda-drivers | grep Candidate"
    assert newest in on_debian(candidate)
    done = system(system_driver_version="580.82.07", system_reboot_policy="allowed", **hold)
    assert done.rc == 0, done.output
    assert on_debian(VERSION) == "580.82.07" and "580.82.07" in on_debian(candidate)
    assert system(system_driver_version="580.82.07", **hold).changed == 0


def test_a_mirror_that_goes_away_leaves_driver_preference_and_hold(newest: str) -> None:
    """The package lists are there still, the packages are not."""
    look = "dpkg-query -W 'libcuda1' '*nvidia*'; cat /etc/apt/preferences.d/gpuwright*"
    assert system(system_driver_version=newest, system_reboot_policy="allowed").rc == 0
    before = on_debian(look)
    subprocess.run(["podman", "stop", "--time", "1", REPOSITORY_SERVER], check=True)
    try:
        done = system(system_driver_branch="570")
    finally:
        subprocess.run(["podman", "start", REPOSITORY_SERVER], check=True)
    assert done.rc != 0, done.output
    assert on_debian(look) == before


def test_another_branch_replaces_every_package_of_the_driver(newest: str) -> None:
    older = system(system_driver_branch="570", system_reboot_policy="allowed")
    assert older.rc == 0, older.output
    assert on_debian(VERSION) == "570.172.08"
    shown = "dpkg-query -W -f '${Version}\\n' cuda-drivers nvidia-driver-cuda nvidia-kernel-dkms libcuda1 | sort -u"
    assert on_debian(shown) == "570.172.08-1"
    back = system(system_reboot_policy="allowed")
    assert back.rc == 0, back.output
    assert on_debian(VERSION) == newest and on_debian(shown) == f"{newest}-1"
    assert system().changed == 0
