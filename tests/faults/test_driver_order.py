"""The steps that cannot be undone, in their order: what is on a host after one of them has failed."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from conftest import REPOSITORY, on_host, play

sys.path.insert(0, str(REPOSITORY / "tests/fleet"))
containers = importlib.import_module("gpuwright_fleet.containers")

pytestmark = pytest.mark.usefixtures("finished_host")
SERVER = containers.container_name("faults", "repo")
LOCKS = "/etc/dnf/plugins/versionlock.list"
DRIVER = "rpm -qa '*nvidia*' --qf '%{NAME} %{EVR}\\n' | sort"
STREAM = "grep -h ^stream= /etc/dnf/modules.d/nvidia-driver.module"
OTHER: dict[str, Any] = {
    "system_driver_branch": "570",
    "system_driver_allow_stream_switch": True,
    "system_reboot_policy": "allowed",
}


@contextmanager
def mirror_away() -> Iterator[None]:
    subprocess.run(["podman", "stop", "--time", "1", SERVER], check=True)
    try:
        yield
    finally:
        subprocess.run(["podman", "start", SERVER], check=True)


def state() -> list[str]:
    return [on_host(command) for command in (DRIVER, STREAM, f"cat {LOCKS}")]


def test_an_adopted_driver_is_guarded_and_kept() -> None:
    """As a node that somebody else has installed: no file of ours, and a file of an older gpuwright beside it."""
    before = on_host(DRIVER)
    on_host(f"sed -i '/gpuwright-BEGIN-driver-/,/gpuwright-END-driver-/d' {LOCKS}")
    done = play("playbooks/system.yml")
    assert done.rc == 0 and "kept as it is, guarded by" in done.text, done.output
    assert on_host(DRIVER) == before
    held = [line.split("-3:")[0] for line in on_host(f"grep -v '^#' {LOCKS}").splitlines() if "nvidia" in line]
    assert held == [line.split()[0] for line in before.splitlines()]
    on_host(f"sed -i 's/^nvidia-driver-cuda-3:.*/nvidia-driver-cuda-3:1.0-1.*/' {LOCKS}")
    again = play("playbooks/system.yml")
    assert again.changed == 1 and "nvidia-driver-cuda-3:1.0-1" not in on_host(f"cat {LOCKS}"), again.output
    never = play("playbooks/system.yml", system_driver_guards="never")
    assert never.rc == 0 and "gpuwright-BEGIN-driver" not in on_host(f"cat {LOCKS}"), never.output
    assert play("playbooks/system.yml").rc == 0


def test_updates_by_themselves_leave_the_driver_alone() -> None:
    older = play("playbooks/system.yml", system_driver_version="580.82.07", system_reboot_policy="allowed")
    assert older.rc == 0, older.output
    before = on_host(DRIVER)
    assert "580.82.07" in before and "580.95.05" in on_host("dnf -q list --showduplicates nvidia-driver-cuda")
    on_host("dnf -q -y upgrade '*nvidia*' && python3 -m dnf.automatic.main --installupdates", check=False)
    assert on_host(DRIVER) == before
    newer = play("playbooks/system.yml", system_driver_version="580.95.05", system_reboot_policy="allowed")
    assert newer.rc == 0, newer.output


def test_a_mirror_that_goes_away_leaves_driver_stream_and_hold() -> None:
    before = state()
    with mirror_away():
        asked = play("playbooks/system.yml", **OTHER)
        # As if it had gone after preflight had asked it.
        done = play("playbooks/system.yml", **OTHER, preflight_host_checks=False)
    assert asked.rc == 2 and "refused The repository cuda-rhel8-x86_64 cannot be reached" in asked.text, asked.output
    assert done.rc != 0 and "is still there" in done.text, done.output
    assert state() == before
    assert play("playbooks/system.yml").changed == 0


def test_a_run_that_is_killed_between_stream_and_packages_goes_on() -> None:
    held = on_host(f"cat {LOCKS}")
    on_host("sed -i s/580-dkms/570-dkms/ /etc/dnf/modules.d/nvidia-driver.module")
    on_host(f"sed -i 's/-3:580.95.05-1.el8[.][*]/-570.*-*/' {LOCKS}")
    done = play("playbooks/system.yml", **OTHER)
    assert done.rc == 0 and "570.172.08" in on_host(DRIVER) and "580.95" not in on_host(DRIVER), done.output
    back = play("playbooks/system.yml", system_driver_allow_stream_switch=True, system_reboot_policy="allowed")
    assert back.rc == 0 and on_host(f"cat {LOCKS}") == held, back.output


def test_a_downgrade_is_done_only_when_it_is_asked_for() -> None:
    """The plan for this card is 580; a newer one is there, and nobody has named an older one."""
    on_host("mkdir -p /root/libraries && mv /usr/lib64/libnvidia-ml.so.580* /root/libraries/")
    try:
        on_host("touch /usr/lib64/libnvidia-ml.so.590.48.01")
        on_host("ln -sfn libnvidia-ml.so.590.48.01 /usr/lib64/libnvidia-ml.so.1")
        done = play("playbooks/preflight.yml")
        assert done.rc != 0 and "a downgrade was not asked for" in done.text, done.output
        assert play("playbooks/preflight.yml", system_driver_allow_downgrade=True).rc == 0
        assert play("playbooks/preflight.yml", system_driver_branch="580").rc == 0
    finally:
        on_host("rm /usr/lib64/libnvidia-ml.so.590.48.01; mv /root/libraries/* /usr/lib64/ && ldconfig")
        on_host("cd /usr/lib64 && ln -sfn $(ls libnvidia-ml.so.580*) libnvidia-ml.so.1")
