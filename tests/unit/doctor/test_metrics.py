"""Metrics, the line for Nagios and the environment: what other programs and people read of a report."""

from __future__ import annotations

import healthy_node
import pytest
from gpuwright.checks.all import run_checks
from gpuwright.doctor.metrics import environment_lines, metrics, nagios_line
from gpuwright.doctor.metrics_gpu import QUANTITIES, STATES
from gpuwright.verdict.report import make_report
from page_samples import waived

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


CARD = '{pci_id="0000:3b:00.0"}'


def with_card(**values: object) -> dict[str, str]:
    record = report()
    card = record["readings"]["nvidia_smi"]["gpus"][0]
    for name, value in values.items():
        (card["health"] if name in card["health"] else card)[name] = value
    return samples(metrics(record, "quick", 1))


def test_values_of_the_cards_are_in_base_units():
    found = with_card(memory_used_mib=3, memory_total_mib=16160, utilization_percent=97, power_draw_w=37.25)
    assert found[f"gpuwright_gpu_temperature_celsius{CARD}"] == "34"
    assert found[f"gpuwright_gpu_memory_used_bytes{CARD}"] == "3145728"
    assert found[f"gpuwright_gpu_memory_size_bytes{CARD}"] == "16944988160"
    assert found[f"gpuwright_gpu_utilization_ratio{CARD}"] == "0.97"
    assert found[f"gpuwright_gpu_power_watts{CARD}"] == "37.25"
    assert found[f"gpuwright_gpu_unread_values{CARD}"] == "0"
    info = f'gpuwright_gpu_info{{architecture="volta",name="Tesla V100-PCIE-16GB",{CARD[1:-1]},'
    assert found[f'{info}uuid="GPU-00000000-1111-2222-3333-000000000001"}}'] == "1"
    assert found["gpuwright_gpus"] == "1"


HEALTHY = {"power_draw_w": 37.25, "memory_total_mib": 16160, "utilization_percent": 0}


@pytest.mark.parametrize("row", QUANTITIES, ids=lambda row: row[0])
def test_a_quantity_that_cannot_be_read_has_no_sample_and_is_counted(row):
    name = row[3][-1]
    sample = f"gpuwright_gpu_{row[0]}{CARD}"
    assert sample in with_card(**{**HEALTHY, name: 7})
    unread = with_card(**{**HEALTHY, name: "unknown"})
    assert sample not in unread and unread[f"gpuwright_gpu_unread_values{CARD}"] == "1"
    absent = with_card(**{**HEALTHY, name: None})
    assert sample not in absent and absent[f"gpuwright_gpu_unread_values{CARD}"] == "0"


@pytest.mark.parametrize("row", STATES, ids=lambda row: row[0])
def test_a_state_that_cannot_be_read_is_minus_one(row):
    sample = f"gpuwright_gpu_{row[0]}{CARD}"
    for value, written in ((True, "1"), (False, "0"), ("unknown", "-1"), (None, None)):
        found = with_card(**{**HEALTHY, row[2][-1]: value})
        assert found.get(sample) == written
        assert found[f"gpuwright_gpu_unread_values{CARD}"] == ("1" if value == "unknown" else "0")


def test_reasons_that_hold_clocks_down():
    found = with_card(throttle_reasons=["hw_thermal_slowdown", "gpu_idle", "gpu_idle"])
    assert found['gpuwright_gpu_throttle_reason{pci_id="0000:3b:00.0",reason="hw_thermal_slowdown"}'] == "1"
    unread = with_card(**{**HEALTHY, "throttle_reasons": "unknown"})
    assert unread[f"gpuwright_gpu_unread_values{CARD}"] == "1"


def test_cards_that_cannot_be_told_apart_do_not_spoil_the_file():
    record = report()
    card = record["readings"]["nvidia_smi"]["gpus"][0]
    record["readings"]["nvidia_smi"]["gpus"] = [card, card, {**card, "pci_id": "unknown"}, {}]
    lines = [line for line in metrics(record, "quick", 1).splitlines() if not line.startswith("#")]
    names = [line.rsplit(" ", 1)[0] for line in lines]
    assert len(names) == len(set(names))
    assert sum(name.startswith("gpuwright_gpu_unread_values") for name in names) == 4


def test_a_driver_that_does_not_answer_has_no_number_of_gpus():
    record = report()
    record["readings"]["nvidia_smi"].update(reachable=False, gpus=[])
    record["expectations"] = healthy_node.expectations()
    found = samples(metrics(record, "quick", 1))
    assert found["gpuwright_gpus"] == "-1" and found["gpuwright_gpus_expected"] == "1"
    assert not [name for name in found if name.startswith("gpuwright_gpu_")]


def test_every_metric_has_help_and_type_and_no_text_breaks_a_line():
    checks = [{**CHECK, "id": 'a"b\\c\nd'}]
    lines = metrics(report(checks=checks), "quick", 1).splitlines()
    assert 'gpuwright_check{id="a\\"b\\\\c d",layer="system"} 0' in lines
    names = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
    for name in names:
        assert sum(line.startswith(f"# HELP {name} ") for line in lines) == 1
        assert f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}" in lines


def test_waivers_and_strikes_are_samples():
    found = samples(metrics(waived(), "quick", 1))
    assert found['gpuwright_waived{by="acknowledgement",id="gpu.sram"}'] == "1"
    assert found['gpuwright_waived{by="inventory",id="gpu.link_width"}'] == "1"
    assert found['gpuwright_check{id="gpu.sram",layer="system"}'] == "1"
    uuid = "GPU-00000000-1111-2222-3333-000000000001"
    name = f'gpuwright_strikes_total{{id="gpu.sram",pci_id="",serial="1234567890123",uuid="{uuid}"}}'
    assert found[name] == "3"


def test_no_two_strikes_have_the_same_labels():
    cards = [{**card, "serial": "", "uuid": ""} for card in waived()["strikes"]]
    other = [{**card, "pci_id": "0000:af:00"} for card in cards]
    lines = metrics({**waived(), "strikes": cards + other}, "quick", 1).splitlines()
    assert len([line for line in lines if line.startswith("gpuwright_strikes_total{")]) == 2
    shared = [{**card, "pci_id": slot} for card in waived()["strikes"] for slot in ("a", "b")]
    lines = metrics({**waived(), "strikes": shared}, "quick", 1).splitlines()
    assert len([line for line in lines if line.startswith("gpuwright_strikes_total{")]) == 1
    assert "gpuwright_strikes_total" not in metrics({**waived(), "strikes": {"unreadable": "x"}}, "quick", 1)


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
