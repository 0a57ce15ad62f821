"""Metrics, the line for Nagios and the environment: what other programs and people read of a report."""

from __future__ import annotations

import healthy_node
import pytest
from gpuwright.checks import run_checks
from gpuwright.metrics import environment_lines, metrics, nagios_line
from gpuwright.report import make_report

CHECK = {"id": "gpu.count", "layer": "system", "status": "PASS", "message": "fine"}


def report(**changes: object) -> dict:
    checks = run_checks(healthy_node.readings(), healthy_node.expectations(), healthy_node.smoke())
    record = make_report("a5-01", "2026-01-05T10:00:00Z", checks, healthy_node.readings(), {}, None)
    return {**record, **changes}


def samples(text: str) -> dict[str, str]:
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_what_nobody_knows_is_minus_one():
    checks = [
        {**CHECK, "id": status, "status": status} for status in ("PASS", "WARN", "FAIL", "UNKNOWN", "SKIP", "odd")
    ]
    found = samples(metrics(report(checks=checks, verdict="UNKNOWN"), "quick", 1.25))
    values = [found[f'gpuwright_check{{id="{check["id"]}",layer="system"}}'] for check in checks]
    assert values == ["0", "1", "2", "-1", "-2", "-1"]
    assert found["gpuwright_verdict"] == "-1"
    assert found['gpuwright_last_run_timestamp_seconds{level="quick"}'] == "1767607200"
    assert found["gpuwright_last_run_duration_seconds"] == "1.25"


def test_values_of_the_cards():
    record = report()
    record["readings"]["nvidia_smi"]["gpus"][0]["power_draw_w"] = "unknown"
    found = samples(metrics(record, "quick", 1))
    assert found['gpuwright_gpu_temperature_celsius{pci_id="0000:3b:00.0"}'] == "34"
    assert found['gpuwright_gpu_power_watts{pci_id="0000:3b:00.0"}'] == "-1"


def test_every_metric_has_help_and_type_and_no_text_breaks_a_line():
    checks = [{**CHECK, "id": 'a"b\\c\nd'}]
    lines = metrics(report(checks=checks), "quick", 1).splitlines()
    assert 'gpuwright_check{id="a\\"b\\\\c d",layer="system"} 0' in lines
    names = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
    for name in names:
        assert sum(line.startswith(f"# HELP {name} ") for line in lines) == 1
        assert f"# TYPE {name} gauge" in lines


@pytest.mark.parametrize("readings", [{}, {"nvidia_smi": {"unreadable": "x"}}, {"nvidia_smi": {"gpus": [None, 5]}}])
def test_a_node_without_readings_has_metrics_too(readings):
    assert "gpuwright_verdict 2\n" in metrics(report(readings=readings, verdict="FAIL"), "quick", 1)


def test_nagios_names_the_worst():
    checks = [
        CHECK,
        {**CHECK, "id": "a", "status": "WARN"},
        {**CHECK, "id": "b", "status": "FAIL", "message": "x|y\nz"},
    ]
    assert nagios_line(checks, "FAIL") == "GPU CRITICAL: b: x/y z | fail=1 unknown=0 warn=1 pass=1 skip=0"
    assert nagios_line([CHECK], "PASS").startswith("GPU OK: 1 checks: 1 PASS; 0 skipped |")
    assert nagios_line([], "UNKNOWN").startswith("GPU UNKNOWN: ")


def test_environment():
    venv = {
        "python": "3.11.2",
        "versions": {"torch": "2.10.0+cu128"},
        "torch": {
            "build": "cu128",
            "cuda_available": True,
            "product": "right on cpu, cuda:0",
            "devices": [
                {
                    "index": 0,
                    "name": "Tesla V100\x1b[2J",
                    "capability": "7.0",
                    "memory_mib": 16384,
                    "multiprocessors": 80,
                    "tensor_cores": True,
                }
            ],
        },
    }
    lines = environment_lines({"venv": venv})
    assert "cuDNN           unknown" in lines
    assert "GPU 0           Tesla V100 [2J, capability 7.0, 16384 MiB, 80 multiprocessors, Tensor Cores" in lines
    assert (
        environment_lines({}) == environment_lines({"venv": None}) == environment_lines({"venv": {"unreadable": "x"}})
    )
