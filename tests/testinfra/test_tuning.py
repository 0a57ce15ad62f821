"""System layer: settings of the host, as the trainer and its service get them."""

from __future__ import annotations

import json

import pytest
from testinfra.host import Host

KERNEL_SETTINGS = ("vm.swappiness", "kernel.numa_balancing", "transparent_hugepage")


@pytest.fixture
def limits(wish: dict) -> dict[str, str]:
    """What the inventory asks for, in the words of /proc/PID/limits: bytes and files."""
    values = {"limits_memlock": "unlimited", "limits_nofile": "1048576", "limits_stack": "65536"}
    values.update({name: str(value) for name, value in wish.get("system_tuning_values", {}).items() if name in values})
    in_bytes = {
        name: value if value == "unlimited" or name == "limits_nofile" else str(int(value) * 1024)
        for name, value in values.items()
    }
    return {
        "Max locked memory": in_bytes["limits_memlock"],
        "Max open files": in_bytes["limits_nofile"],
        "Max stack size": in_bytes["limits_stack"],
    }


CAP_SYS_RESOURCE = 24


def limits_of(text: str, column: int = 0) -> dict[str, str]:
    """The soft (0) or hard (1) limits in the text of /proc/PID/limits, by the names above."""
    names = ("Max locked memory", "Max open files", "Max stack size")
    lines = {name: line for name in names for line in text.splitlines() if line.startswith(name)}
    return {name: line[len(name) :].split()[column] for name, line in lines.items()}


def number(limit: str) -> float:
    return float("inf") if limit == "unlimited" else int(limit)


@pytest.fixture
def highest(host: Host) -> dict[str, float]:
    """What root itself may give: in a container without CAP_SYS_RESOURCE, no more than the container was given."""
    with host.sudo():
        capabilities = int(host.check_output("grep CapEff /proc/1/status").split()[1], 16)
        most = limits_of(host.check_output("cat /proc/1/limits"), 1)
    return {name: number("unlimited") if capabilities >> CAP_SYS_RESOURCE & 1 else number(most[name]) for name in most}


def test_the_training_service_has_the_limits(host: Host, limits: dict, highest: dict, wish: dict) -> None:
    """The unit's own limits, read from the process that systemd starts under its drop-in, as the training user."""
    with host.sudo():
        host.check_output("mkdir -p /run/systemd/system/train-gan@limits.service.d")
        shown = "[Service]\nExecStart=\nExecStart=/bin/sleep 60\nRestart=no\n"
        host.check_output("printf %s > /run/systemd/system/train-gan@limits.service.d/99-sleep.conf", shown)
        try:
            host.check_output("systemctl daemon-reload && systemctl start train-gan@limits")
            pid = host.check_output("systemctl show --property=MainPID --value train-gan@limits")
            assert host.check_output("stat -c %%U /proc/%s", pid) == wish.get("system_training_user", "trainer")
            found = limits_of(host.check_output("cat /proc/%s/limits", pid))
            # systemd takes the highest it may give, where it may not give all.
            assert {name: number(found[name]) for name in found} == {
                name: min(number(limit), highest[name]) for name, limit in limits.items()
            }
        finally:
            host.run("systemctl stop train-gan@limits")
            host.run("rm -r /run/systemd/system/train-gan@limits.service.d && systemctl daemon-reload")


def test_a_login_of_the_trainer_has_the_limits(as_trainer, limits: dict[str, str], highest: dict[str, float]) -> None:
    """runuser opens a PAM session, as a login does. PAM sets a limit whole or not at all."""
    possible = {name: limit for name, limit in limits.items() if number(limit) <= highest[name]}
    assert "Max stack size" in possible
    found = limits_of(as_trainer("cat /proc/self/limits").stdout)
    assert {name: found[name] for name in possible} == possible


def test_nobody_else_has_them(host: Host, limits: dict[str, str]) -> None:
    with host.sudo():
        others = limits_of(host.check_output("runuser -u nobody -- cat /proc/self/limits"))
    assert others["Max stack size"] != limits["Max stack size"]


@pytest.mark.el8_alternative
def test_the_alternative_limits_are_all_possible_here(limits: dict[str, str], highest: dict[str, float]) -> None:
    """So that there all three are seen in force, for the service and for logins."""
    assert all(number(limit) <= highest[name] for name, limit in limits.items())


def test_settings_come_back_at_boot(host: Host) -> None:
    service = host.service("gpuwright-tuning")
    assert service.is_enabled and service.is_running
    assert host.run("/usr/local/bin/gpu-tune").rc in (0, 1)
    with host.sudo():
        done = host.run("/usr/local/bin/gpu-tune")
        assert done.rc == 0, done.stdout


def test_a_container_claims_no_setting_of_its_hosts_kernel(host: Host) -> None:
    known = json.loads(host.file("/etc/gpuwright/tuning.json").content_string)
    held = {row["name"] for row in known["settings"]}
    skipped = {row["name"]: row["reason"] for row in known["skipped"]}
    if host.file("/run/systemd/container").exists:
        assert not held.intersection(KERNEL_SETTINGS)
        assert all("container" in skipped[name] for name in KERNEL_SETTINGS)
    else:
        assert host.sysctl("vm.swappiness") == 10
        assert host.sysctl("kernel.numa_balancing") == 0
        assert "[madvise]" in host.file("/sys/kernel/mm/transparent_hugepage/enabled").content_string


def test_what_was_found_before_is_kept(host: Host) -> None:
    with host.sudo():
        file = host.file("/var/lib/gpuwright/tuning-before.json")
        before = json.loads(file.content_string)
        assert (file.user, file.mode) == ("root", 0o600)
    assert before["knobs"]["unit gpuwright-tuning.service"] == "not-found inactive"
    assert before["files"]["/etc/security/limits.d/95-gpuwright.conf"] is None


def test_the_verification_holds_the_node_against_its_settings(report: dict) -> None:
    (found,) = [check for check in report["checks"] if check["id"] == "host.tuning"]
    assert found["status"] == "PASS", found


@pytest.mark.el8_alternative
def test_limits_are_those_of_the_other_group_and_of_both_services(host: Host) -> None:
    assert "@research - nofile 16384" in host.file("/etc/security/limits.d/95-gpuwright.conf").content_string
    drop_in = host.file("/etc/systemd/system/notebook.service.d/50-gpuwright-limits.conf").content_string
    assert "LimitMEMLOCK=4096K" in drop_in


@pytest.mark.el8_alternative
def test_the_power_limit_is_set_on_every_card(host: Host) -> None:
    limits = host.check_output("nvidia-smi --query-gpu=power.limit --format=csv,noheader").splitlines()
    assert set(limits) == {"200.00 W"}
