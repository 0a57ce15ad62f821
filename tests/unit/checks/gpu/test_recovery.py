"""What the driver asks for is answered in one way, from its log as from nvidia-smi; and other next steps of a card."""

from __future__ import annotations

import copy

import healthy_node
import pytest
from gpuwright.checks.all import run_checks
from gpuwright.gpu.nvidia_smi.query import record_of
from gpuwright.gpu.xid.policy import judge_xid
from gpuwright.host.bounded import Finished
from gpuwright.verdict.check import DRAIN, FAIL, POWER_CYCLE, REBOOT, RESET, UNKNOWN

ASKED = {
    "gpu reset": RESET,
    "reset": RESET,
    "gpu reset required": RESET,
    "node reboot": REBOOT,
    "os reboot": REBOOT,
    "drain p2p": DRAIN,
    "drain and reset": DRAIN,
    "recover imex domain": DRAIN,
    "bus reset": REBOOT,
    "gpu reset bus": REBOOT,
}


def judged(words: list[str | None]) -> dict:
    readings = copy.deepcopy(healthy_node.readings())
    card = readings["nvidia_smi"]["gpus"][0]
    readings["nvidia_smi"]["gpus"] = [
        {**card, "pci_id": f"0000:{0x3B + number:02x}:00.0", "recovery_action": word}
        for number, word in enumerate(words)
    ]
    records = run_checks(readings, healthy_node.expectations(), level="quick")
    return next(record for record in records if record["id"] == "gpu.recovery_action")


@pytest.mark.parametrize("words", ASKED)
def test_one_table_for_the_log_and_for_nvidia_smi(words):
    found = judged([words])
    logged = judge_xid(154, f"154, GPU recovery action changed from 0x0 (None) to 0x1 ({words.title()})")
    assert (found["status"], found["remedy"], logged.remedy) == (FAIL, ASKED[words], ASKED[words]), (found, logged)
    if ASKED[words] == REBOOT:
        assert "reboot" in found["action"] and "--gpu-reset" not in found["action"]
    if "imex" in words:
        assert "nvidia-imex" in found["action"]


def test_the_strongest_action_counts_for_all():
    found = judged(["drain p2p", "none", "node reboot"])
    assert (found["remedy"], found["items"]) == (REBOOT, ["0000:3b:00", "0000:3d:00"])


def test_a_card_that_does_not_tell_beside_others_that_do_is_unknown():
    found = judged(["none", None, "none", "none"])
    assert found["status"] == UNKNOWN and found["items"] == ["0000:3c:00"]
    assert judged([None, None])["status"] == "SKIP"


@pytest.mark.parametrize(
    ("text", "rc", "remedy"),
    [
        ("Failed to initialize NVML: Insufficient Permissions\n", 4, DRAIN),
        ("Failed to initialize NVML: Insufficient Permissions\n", 255, DRAIN),
        (
            "Unable to determine the device handle for GPU0: 0000:3B:00.0: Unknown Error\nNo devices were found\n",
            255,
            POWER_CYCLE,
        ),
    ],
)
def test_a_next_step_that_can_help(text, rc, remedy):
    readings = copy.deepcopy(healthy_node.readings())
    readings["nvidia_smi"] = record_of(Finished(rc, text, "", False, False, False, ""))
    records = run_checks(readings, healthy_node.expectations(), level="quick")
    found = next(record for record in records if record["id"] == "driver.reachable")
    assert (found["status"], found["remedy"]) == (FAIL, remedy), found


def test_no_row_is_advised_for_a_card_without_an_id():
    readings = copy.deepcopy(healthy_node.readings())
    readings["nvidia_smi"]["gpus"][0].update(device_id="unknown", name="NVIDIA Z900")
    records = run_checks(readings, healthy_node.expectations(), level="quick")
    found = next(record for record in records if record["id"] == "gpu.known_card")
    assert "row" not in found["action"] and "lspci" in found["action"], found


@pytest.mark.parametrize("name", ["gpu_temp_tlimit", "gpu_temp_t_limit", "gpu_tlimit_temp", "gpu_t_limit_temp"])
def test_the_margin_is_read_under_each_of_its_names(name):
    from pathlib import Path

    from gpuwright.gpu.nvidia_smi.xml import parse_log

    xml = (Path(__file__).parents[2] / "data/nvidia_smi/570-h100-two.xml").read_text()
    tag = f"<{name}>-3 C</{name}>"
    xml = xml.replace("<temperature>", f"<temperature>{tag}").replace("gpu_temp_tlimit>49", "gone>49")
    assert parse_log(xml)["gpus"][0]["health"]["temperature_margin_c"] == -3
