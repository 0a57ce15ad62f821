"""Containers: the toolkit, a description of every GPU that comes back with each boot, numbers for rootless users."""

from __future__ import annotations

import re

import pytest
import yaml
from testinfra.host import Host

SPEC = "/var/run/cdi/nvidia.yaml"
UNITS = ("gpuwright-cdi.service", "gpuwright-cdi.path")


@pytest.mark.el8_alternative
@pytest.mark.debian12_alternative
def test_engine_and_toolkit_are_installed(host: Host) -> None:
    assert host.package("podman").is_installed
    assert host.package("nvidia-container-toolkit-base").is_installed


@pytest.mark.el8_alternative
@pytest.mark.debian12_alternative
def test_every_gpu_is_described_for_the_driver_that_is_loaded(host: Host, wish: dict) -> None:
    spec = yaml.safe_load(host.file(SPEC).content_string)
    assert spec["kind"] == "nvidia.com/gpu"
    nodes = {device["name"]: device["containerEdits"]["deviceNodes"] for device in spec["devices"]}
    assert len(nodes["all"]) == wish["verify_expected_gpu_count"]
    loaded = host.file("/sys/module/nvidia/version").content_string.strip()
    mounts = [mount["containerPath"] for mount in spec["containerEdits"]["mounts"]]
    assert [path for path in mounts if path.endswith(f"/libcuda.so.{loaded}")]
    assert "/dev/nvidia-uvm" in [node["path"] for node in spec["containerEdits"]["deviceNodes"]]


@pytest.mark.el8_alternative
@pytest.mark.debian12_alternative
def test_it_was_written_since_the_boot_and_will_be_again(host: Host) -> None:
    # Gone with the last boot: what is there was written since.
    assert host.check_output("stat -f -c %T /var/run/cdi") == "tmpfs"
    assert host.file(SPEC).is_file
    for unit in UNITS:
        assert host.check_output("systemctl is-enabled %s", unit) == "enabled"
    assert host.service("gpuwright-cdi.path").is_running
    assert host.run("systemctl is-failed gpuwright-cdi.service").stdout.strip() == "inactive"


@pytest.mark.el8_alternative
@pytest.mark.debian12_alternative
@pytest.mark.parametrize("path", ["/etc/subuid", "/etc/subgid"])
def test_rootless_users_have_numbers_that_nobody_else_has(host: Host, wish: dict, path: str) -> None:
    lines = re.findall(r"^([^:#]+):(\d+):(\d+)$", host.file(path).content_string, re.MULTILINE)
    ranges = {name: (int(first), int(first) + int(count)) for name, first, count in lines}
    assert set(wish["system_containers_rootless_users"]) <= set(ranges)
    ordered = sorted(ranges.values())
    assert all(before[1] <= after[0] for before, after in zip(ordered, ordered[1:], strict=False))


@pytest.mark.el8_alternative
@pytest.mark.debian12_alternative
def test_their_containers_run_without_a_login(host: Host, trainer: str) -> None:
    assert host.file(f"/var/lib/systemd/linger/{trainer}").is_file
    uid = host.user(trainer).uid
    assert host.file(f"/run/user/{uid}").is_directory, "logind has read it at the reboot"


@pytest.mark.el8_alternative
@pytest.mark.debian12_alternative
def test_the_report_says_that_containers_find_the_gpus(report: dict, wish: dict) -> None:
    check = next(check for check in report["checks"] if check["id"] == "containers.gpu")
    assert (check["status"], check["value"]) == ("PASS", wish["verify_expected_gpu_count"])


@pytest.mark.el8
def test_nothing_is_installed_unasked(host: Host, report: dict) -> None:
    for path in (SPEC, "/etc/gpuwright/containers.json", *(f"/etc/systemd/system/{unit}" for unit in UNITS)):
        assert not host.file(path).exists
    assert not host.package("nvidia-container-toolkit-base").is_installed
    check = next(check for check in report["checks"] if check["id"] == "containers.gpu")
    assert check["status"] == "SKIP" and "this node is not set up for containers" in check["message"]
