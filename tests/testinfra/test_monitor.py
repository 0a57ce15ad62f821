"""Monitoring: the result of this boot, the metrics, the timer, and the gate before a training."""

from __future__ import annotations

import json
import time

import pytest
from testinfra.host import Host

RECORD = "/var/lib/gpuwright/boot-check.json"


@pytest.fixture
def metrics_file(wish: dict) -> str:
    return wish.get("system_monitor_textfile_dir", "/var/lib/node_exporter/textfile_collector") + "/gpuwright.prom"


def last_run(host: Host, path: str) -> int:
    """Seconds since 1970 in the metrics."""
    lines = host.file(path).content_string.splitlines()
    return int(next(line.split()[-1] for line in lines if line.startswith("gpuwright_last_run_timestamp_seconds{")))


def test_this_boot_was_checked_and_is_good(host: Host) -> None:
    record = json.loads(host.file(RECORD).content_string)
    assert record["boot_id"] == host.check_output("cat /proc/sys/kernel/random/boot_id")
    assert (record["verdict"], record["findings"]) == ("PASS", [])
    service = host.service("gpuwright-boot-check")
    assert service.is_enabled and service.is_running


@pytest.mark.parametrize("unit", ["gpuwright-check.timer", "gpuwright-check.path"])
def test_checks_go_on(host: Host, unit: str) -> None:
    assert host.check_output("systemctl is-active %s", unit) == "active"
    assert host.check_output("systemctl is-enabled %s", unit) == "enabled"
    # Activating where the timer fires while this looks.
    assert host.run("systemctl is-failed gpuwright-check.service").stdout.strip() in ("inactive", "activating")


def test_metrics_are_fresh_and_readable_by_everybody(host: Host, wish: dict, metrics_file: str) -> None:
    # The check may run once more between the two questions.
    written = last_run(host, metrics_file)
    age = int(host.check_output("date +%s")) - written
    assert 0 <= age <= wish.get("system_monitor_interval_minutes", 5) * 60 + 30
    file = host.file(metrics_file)
    assert (file.user, file.mode) == ("root", 0o644)
    lines = file.content_string.splitlines()
    assert "gpuwright_verdict 0" in lines
    assert f"gpuwright_gpus {wish['verify_expected_gpu_count']}" in lines
    assert len([line for line in lines if line.startswith("gpuwright_gpu_temperature_celsius{")]) == len(
        [line for line in lines if line.startswith("gpuwright_gpu_info{")]
    )


def test_nothing_unfinished_lies_beside_them(host: Host, metrics_file: str) -> None:
    folder = metrics_file.rpartition("/")[0]
    assert host.check_output("ls -A %s", folder) == "gpuwright.prom"


def test_the_gate_is_open_for_the_trainer(as_trainer) -> None:
    done = as_trainer("cd / && /usr/local/bin/gpu-doctor --gate")
    assert done.rc == 0 and "open: verdict PASS" in done.stdout


@pytest.mark.el8_alternative
@pytest.mark.debian12_alternative
def test_the_timer_ticks(host: Host, metrics_file: str) -> None:
    """The scenario's interval is one minute."""
    before = last_run(host, metrics_file)
    for _ in range(90):
        if last_run(host, metrics_file) > before:
            return
        time.sleep(1)
    raise AssertionError(host.run("systemctl list-timers gpuwright-check.timer").stdout)


@pytest.mark.el8_alternative
@pytest.mark.debian12_alternative
def test_dcgm_runs_and_starts_at_boot(host: Host) -> None:
    for service in (host.service("nvidia-dcgm"), host.service("nvidia-dcgm-exporter")):
        assert service.is_running and service.is_enabled
    assert host.package("datacenter-gpu-manager-4-cuda12").is_installed


@pytest.mark.el8_alternative
@pytest.mark.debian12_alternative
def test_node_exporter_is_installed_when_asked_for(host: Host, wish: dict) -> None:
    assert host.package(wish["system_monitor_node_exporter_package"]).is_installed


@pytest.mark.el8
def test_nothing_is_installed_unasked(host: Host) -> None:
    assert not host.package("datacenter-gpu-manager-4-core").is_installed
    assert not host.package("golang-github-prometheus-node-exporter").is_installed
