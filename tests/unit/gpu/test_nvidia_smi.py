"""What an answer, a failure or the silence of nvidia-smi means, and the module as a node runs it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from gpuwright.gpu.nvidia_smi.query import BY_EXIT_STATUS, interpret
from gpuwright.host.bounded import Finished

DATA = Path(__file__).parents[1] / "data" / "nvidia_smi"
V100 = (DATA / "580-v100.xml").read_text()
STATUSES = {
    "ok", "not_installed", "driver_not_loaded", "version_mismatch", "no_devices", "gpu_lost", "reset_required",
    "timeout", "unreadable", "failed",
}  # fmt: skip
FIELDS = {"reachable", "rc", "status", "message", "action", "driver_version", "cuda_version", "gpus"}

NOT_LOADED = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running.\n\n"
)
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161\n"
LOST = (
    "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU\n"
)
HANDLE = "Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error\n"
NO_LIBRARY = (
    "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the driver is installed\n"
)
FORBIDDEN = "Failed to initialize NVML: Insufficient Permissions\n"


def finished(rc: int | None, stdout: str = "", stderr: str = "", **flags) -> Finished:
    empty = {"timed_out": False, "missing": False, "truncated": False, "problem": ""}
    return Finished(rc, stdout, stderr, **{**empty, **flags})


@pytest.mark.parametrize(
    ("rc", "stdout", "status"),
    [
        (2, "Invalid combination of input arguments.", "failed"),
        (3, "", "failed"),
        (4, FORBIDDEN, "failed"),
        (6, "No devices were found\n", "no_devices"),
        (6, "", "no_devices"),
        (8, "", "failed"),
        (9, NOT_LOADED, "driver_not_loaded"),
        (9, "", "driver_not_loaded"),
        (10, "", "failed"),
        (12, NO_LIBRARY, "not_installed"),
        (13, "", "failed"),
        (14, "WARNING: infoROM is corrupted at gpu 0000:3B:00.0\n", "failed"),
        (15, LOST, "gpu_lost"),
        (16, "", "reset_required"),
        (17, "", "failed"),
        (18, MISMATCH, "version_mismatch"),
        (19, "", "failed"),
        # Where the exit status says nothing, the sentence does.
        (255, HANDLE, "gpu_lost"),
        (255, MISMATCH, "version_mismatch"),
        (1, NOT_LOADED, "driver_not_loaded"),
        (255, "Failed to initialize NVML: Unknown Error\n", "failed"),
        (127, "", "failed"),
        (-11, "", "failed"),
        (137, "", "failed"),
        # Success without XML is none.
        (0, "No devices were found\n", "no_devices"),
        (0, NOT_LOADED, "driver_not_loaded"),
        (0, MISMATCH, "version_mismatch"),
        (0, "", "unreadable"),
        (0, "hello\n", "unreadable"),
        (0, V100[:-40], "unreadable"),
        (0, V100.replace("<attached_gpus>1<", "<attached_gpus>8<"), "unreadable"),
        (0, V100.replace("<?xml", '<!DOCTYPE x [<!ENTITY a "b">]><?xml'), "unreadable"),
        (0, V100, "ok"),
        # A failure stays one, however good the XML looks.
        (14, V100, "failed"),
        (255, V100, "failed"),
    ],
)
def test_meanings(rc, stdout, status):
    meaning, log = interpret(finished(rc, stdout))
    assert meaning.status == status
    assert meaning.message
    assert bool(meaning.action) == (status != "ok")
    assert (log is not None) == (status == "ok")


def test_messages_carry_the_exit_status_and_the_programs_own_words():
    meaning, _log = interpret(finished(18, MISMATCH))
    assert "exit status 18" in meaning.message and "NVML library version: 535.161" in meaning.message
    assert meaning.action == "When nobody works on the node, run: systemctl reboot"


def test_words_on_standard_error_are_heard_too():
    assert interpret(finished(255, "", MISMATCH))[0].status == "version_mismatch"


def test_a_huge_hostile_message_is_cut():
    message = interpret(finished(77, "\x1b[2J" + "A" * 5_000_000))[0].message
    assert message.isprintable() and len(message) < 300


def test_an_answer_without_gpus_is_no_success():
    text = "<nvidia_smi_log><driver_version>580.95.05</driver_version><attached_gpus>0</attached_gpus></nvidia_smi_log>"
    meaning, log = interpret(finished(0, text))
    assert meaning.status == "no_devices" and log is not None and log["driver_version"] == "580.95.05"


def test_a_card_that_asks_for_a_reset_is_named():
    meaning, log = interpret(finished(0, (DATA / "570-h100-two.xml").read_text()))
    assert meaning.status == "reset_required" and log is not None and len(log["gpus"]) == 2
    assert "0000:3b:00.0: drain and reset" in meaning.message and "0000:19" not in meaning.message


def test_every_exit_status_of_the_manual_page_has_a_known_status_and_a_next_step():
    assert {2, 3, 4, 6, 8, 9, 10, 12, 13, 14, 15, 16, 17, 18, 19} == set(BY_EXIT_STATUS)
    for meaning in BY_EXIT_STATUS.values():
        assert meaning.status in STATUSES - {"ok"} and meaning.message and meaning.action


def answering(text: str, rc: int = 0) -> str:
    return f"#!/bin/sh\ncat <<'END_OF_ANSWER'\n{text}\nEND_OF_ANSWER\nexit {rc}\n"


def test_the_module_returns_typed_records(run_module, fake_bin):
    fake_bin("nvidia-smi", answering(V100).replace("cat", '[ "$*" = "-q -x" ] || exit 2\ncat', 1))
    answer = run_module("nvidia_smi_info", check=True)
    assert answer["rc_process"] == 0 and answer["changed"] is False
    assert set(answer) >= FIELDS
    assert (answer["reachable"], answer["status"], answer["rc"], answer["action"]) == (True, "ok", 0, "")
    assert answer["driver_version"] == "580.95.05" and answer["cuda_version"] == "13.0"
    (gpu,) = answer["gpus"]
    assert gpu["name"] == "Tesla V100-PCIE-16GB" and gpu["memory_total_mib"] == 16384


@pytest.mark.parametrize(
    ("script", "status", "rc"),
    [
        (answering(NOT_LOADED, 9), "driver_not_loaded", 9),
        (answering(MISMATCH, 18), "version_mismatch", 18),
        (answering("No devices were found", 6), "no_devices", 6),
        (answering("No devices were found", 0), "no_devices", 0),
        (answering(V100[:3000]), "unreadable", 0),
        ("#!/bin/sh\nkill -SEGV $$\n", "failed", -11),
        ("#!/no/such/interpreter\n", "failed", None),
        ("#!/bin/sh\nexec yes '<gpu>'\n", "unreadable", None),
    ],
)
def test_the_module_reports_failures_without_failing(run_module, fake_bin, script, status, rc):
    fake_bin("nvidia-smi", script)
    answer = run_module("nvidia_smi_info")
    assert answer["rc_process"] == 0 and not answer.get("failed")
    assert set(answer) >= FIELDS
    assert (answer["status"], answer["rc"], answer["reachable"], answer["gpus"]) == (status, rc, False, [])
    assert answer["message"] and answer["action"]


@pytest.mark.parametrize(
    "script",
    [
        "#!/bin/sh\nexec sleep 60\n",
        "#!/bin/sh\ntrap '' TERM INT HUP\nwhile :; do sleep 1; done\n",
        "#!/bin/sh\nsetsid sleep 60 &\nexec sleep 60\n",
        "#!/bin/sh\necho '<nvidia_smi_log>'\nexec sleep 60\n",
    ],
)
def test_the_module_returns_in_time_when_nvidia_smi_hangs(run_module, fake_bin, script):
    fake_bin("nvidia-smi", script)
    start = time.monotonic()
    answer = run_module("nvidia_smi_info", {"timeout": 0.5})
    assert time.monotonic() - start < 40
    assert (answer["status"], answer["reachable"], answer["rc"]) == ("timeout", False, None)
    assert "0.5 s" in answer["message"] and "ps -o" in answer["action"]


def test_a_missing_program(run_module):
    answer = run_module("nvidia_smi_info", {"executable": "gpuwright-no-such-smi"})
    assert (answer["status"], answer["rc"]) == ("not_installed", None)
    assert "gpuwright-no-such-smi" in answer["message"]


def test_a_program_without_permission_to_run(run_module, fake_bin):
    path = fake_bin("nvidia-smi", answering(V100))
    path.chmod(0o644)
    answer = run_module("nvidia_smi_info", {"executable": str(path)})
    assert answer["status"] == "failed" and "is not executable" in answer["message"]


@pytest.mark.parametrize(
    "arguments", [{"timeout": 0}, {"timeout": -1}, {"timeout": "nan"}, {"timeout": "soon"}, {"executable": " "}]
)
def test_usage_errors_fail_with_the_name_of_the_parameter(run_module, arguments):
    answer = run_module("nvidia_smi_info", arguments)
    assert answer["failed"] and next(iter(arguments)) in answer["msg"]
