"""A driver that did not start: the line that names the cause is shown, with what helps; a reboot only where it can."""

from __future__ import annotations

import pytest
from gpuwright.readings.kernel_log.rows_start import START_ROWS
from gpuwright.verdict.check import DRAIN, FAIL, PASS, POWER_CYCLE, REBOOT, REPLACE, RESET, WARN
from kernel_starts import AT, CAUSES, FAILED, GPU, MISMATCH, NONE, REFUSED
from test_kernel_log_table import journal, judged

EITHER_ORDER = [name for name, row in CAUSES.items() if FAILED in row[0] and row[0] != FAILED]


@pytest.mark.parametrize("name", CAUSES)
def test_a_failed_start_names_its_cause_and_what_helps(name):
    log, remedy, action, shown = CAUSES[name]
    found = judged(journal(log))["kernel.driver_start"]
    assert found["status"] == FAIL and found["remedy"] == remedy, found
    assert action in found["action"] and shown in found["message"], found
    if remedy != REBOOT:
        assert "reboot; if it comes back" not in found["action"], found


@pytest.mark.parametrize("name", EITHER_ORDER)
def test_the_cause_is_shown_wherever_it_stands(name):
    log, remedy, action, shown = CAUSES[name]
    rest = log.replace(FAILED, "").strip("\n")
    found = judged(journal(f"{FAILED}\n{rest}\n{FAILED}"))["kernel.driver_start"]
    assert (found["remedy"], action in found["action"], shown in found["message"]) == (remedy, True, True), found


@pytest.mark.parametrize(
    "text",
    [
        f"nvidia {AT}: Direct firmware load for nvidia/580.95.05/gsp_log_ga10x.bin failed with error -2",
        "NVRM: RmFetchGspRmImages: Failed to load gsp_log_*.bin, no GSP-RM logs will be printed (non-fatal)",
        "vboxdrv: Loading of unsigned module is rejected",
        "vboxdrv: version magic '5.14.0-427' should be '5.14.0-503'",
        "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)",
        "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
        f"nouveau {AT}: Direct firmware load for nouveau/nv132_fuc084 failed with error -2",
        "NVRM: No address space to allocate resized BAR1.",
    ],
)
def test_what_stops_no_start_of_the_driver_is_no_fault(text):
    assert judged(journal(text))["kernel.driver_start"]["status"] == PASS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (MISMATCH, "reboot"),
        (REFUSED, "mokutil"),
        ("Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7", "mokutil"),
    ],
)
def test_what_may_be_about_another_module_is_a_warning_with_its_own_action(text, words):
    found = judged(journal(text))["kernel.driver_start"]
    assert found["status"] == WARN and words in found["action"], found


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned"
        " from gpuSanityCheckRegisterAccess @ gpu.c:10",
        "NVRM: GPU0 nvCheckOkFailedNoLog: Check failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned",
        "NVRM: GPU at 0000:3b:00: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED]",
        "NVRM: GPU0 _kgspRpcPmuHalt: Received signal from GSP that PMU has halted.",
        "NVRM: kgspHealthCheck_TU102: ************************* GSP-CrashCat Report ***********************",
        "NVRM: GPU3 kgspHealthCheck_TU102: ********** GSP-CrashCat Report **********",
        "NVRM: GPU0 GspMsgQueueReceive: GSP-RM entered into ICD",
        "NVRM: GPU0 _kgspLogXid119: ********************************* GSP Timeout *****************************",
        "NVRM: GPU0 kgspHeartbeat: Heartbeat timed out, currentTimeMs 9 heartbeat 1",
        "NVRM: GPU6 kgmmuCheckMemSubsysError_IMPL: Memory Subsystem Error detected. kbusSendSysmembarSingle failed.",
    ],
)
def test_the_drivers_words_for_a_card_that_needs_a_reset(text):
    found = judged(journal(text))
    assert found["kernel.gpu_reset"]["status"] == FAIL and found["kernel.gpu_reset"]["remedy"] == RESET, found


def test_a_reload_ends_what_a_reset_ends():
    asked = "NVRM: GPU0 _kgspRpcPmuHalt: Received signal from GSP that PMU has halted."
    loaded = (
        "nvidia-nvlink: Nvlink Core is being initialized, major device number 236\n"
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:41 UTC 2025"
    )
    assert judged(journal(f"{asked}\n{loaded}"))["kernel.gpu_reset"]["status"] == PASS
    assert judged(journal(f"{loaded}\n{asked}"))["kernel.gpu_reset"]["status"] == FAIL


def test_a_number_in_brackets_is_no_device():
    found = judged(journal(f"{FAILED}\n{NONE}"))["kernel.driver_start"]
    assert "@s" not in found["message"] and "0000:3b:00" in found["items"], found


def test_a_card_that_fails_has_one_finding_with_its_cause():
    log = f"{GPU}GPU does not have the necessary power cables connected.\n{FAILED}\n{NONE}"
    assert "more" not in judged(journal(log))["kernel.driver_start"]["message"]
    other = FAILED.replace("3b", "af")
    assert "; 1 more" in judged(journal(f"{log}\n{other}"))["kernel.driver_start"]["message"]


def test_every_cause_says_what_to_do_and_where_its_words_are_from():
    for row in START_ROWS:
        assert row.source and row.remedy, row
        if row.remedy in (DRAIN, POWER_CYCLE, RESET, REPLACE):
            assert row.action, row


@pytest.mark.parametrize("first", [149, 145, 74, 48, 13])
def test_an_xid_that_another_one_caused_names_the_missing_one(first):
    said = f"NVRM: Xid (PCI:0000:3b:00): 45, pid=9, name=python3, Ch 0000000c caused by previous Xid {first}"
    found = judged(journal(said))["kernel.xid"]
    assert found["status"] == WARN and f"Xid {first}" in found["message"], found
    beside = f"NVRM: Xid (PCI:0000:3b:00): {first}, pid=9, name=python3, Nonfatal XC0\n{said}"
    assert f"Xid {first} itself" not in judged(journal(beside))["kernel.xid"]["message"]


def test_an_xid_without_a_cause_stays_a_companion():
    said = "NVRM: Xid (PCI:0000:3b:00): 45, pid=9, name=python3, Ch 0000000c"
    assert judged(journal(said))["kernel.xid"]["status"] == PASS


@pytest.mark.parametrize(
    ("code", "text", "status"),
    [
        (173, "C2C link failure", FAIL),
        (175, "pid=9, name=python, Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected", FAIL),
        (174, "pid=9, name=python, channel reset", WARN),
        (176, "PCIe correctable error", WARN),
        (190, "pid=9, name=python, Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected", FAIL),
        (190, "LINK0 Fatal error", FAIL),
        (190, "pid=9, name=python, LINK0 Fatal XC0", FAIL),
        (190, "pid=9, name=python, LINK0 Nonfatal XC0", WARN),
        (190, "pid=9, name=Fatal, Ch 00000008", WARN),
        (190, "pid=9, name=a, Fatal GSP, Ch 00000008", WARN),
        (190, "something new", WARN),
    ],
)
def test_codes_that_are_newer_than_the_catalogue(code, text, status):
    found = judged(journal(f"NVRM: Xid (PCI:0000:3b:00): {code}, {text}"))["kernel.xid"]
    assert found["status"] == status, found


def test_a_request_for_training_of_a_link_is_no_warning():
    said = "nvidia-nvswitch2: SXid (PCI:0000:c3:00.0): 22013, {}, Link 57 Minion Link DLREQ interrupt"
    assert judged(journal(said.format("Non-fatal")))["kernel.sxid"]["status"] == PASS
    assert judged(journal(said.format("Fatal")))["kernel.sxid"]["status"] == FAIL
