"""The kernel's log: every Xid is found and classed, nothing is dropped, and a log that cannot be read says nothing."""

from __future__ import annotations

import os
import subprocess

import pytest
from conftest import MODULE_UTILS, node_pythons
from gpuwright.checks.kernel.event_names import listed_id
from gpuwright.gpu.xid.policy import judge_xid
from gpuwright.gpu.xid.table import COMPANION, FAIL, HARMLESS, HIGHEST_XID, WARN, XID
from gpuwright.readings.kernel_log import log as kernel_log
from gpuwright.readings.kernel_log.events import MOST_EVENTS
from gpuwright.readings.kernel_log.log import parse_log, read_container, read_kernel_log
from healthy_kernel import KERNEL_LOG, record, records
from host_tree import HostTree
from hypothesis import given, settings
from hypothesis import strategies as st

# The codes for which NVIDIA's catalogue asks for a reset, a reboot, hands or one of its named procedures, and those of
# its last rows that name a fatal error; 45 and 109 are judged by what else happened.
MUST_FAIL = {
    46,
    48,
    54,
    62,
    64,
    74,
    79,
    95,
    110,
    119,
    120,
    136,
    140,
    143,
    *range(144, 152),
    155,
    156,
    158,
    167,
    169,
    173,
    175,
}


@pytest.mark.parametrize("code", sorted(MUST_FAIL))
def test_a_code_that_needs_an_action_fails_with_one(code):
    found = judge_xid(code, "")
    assert found.kind == FAIL and found.meaning and found.remedy and len(found.action) > 20


def test_every_code_of_the_catalogue_is_judged():
    assert sorted([*XID, 154]) == list(range(1, HIGHEST_XID + 1))
    assert {code for code, row in XID.items() if row.kind == FAIL} == MUST_FAIL


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (13, "", WARN),
        (31, "", WARN),
        (43, "", WARN),
        (45, "", COMPANION),
        (63, "", WARN),
        (92, "", WARN),
        (94, "", WARN),
        (106, "", HARMLESS),
        (109, "", WARN),
        (142, "", WARN),
        (152, "", WARN),
        (162, "", HARMLESS),
        (171, "", WARN),
        (0, "", WARN),
        (174, "", WARN),
        (176, "", WARN),
        (177, "", WARN),
        (100000, "", WARN),
        (145, "145, RLW_REMAP Nonfatal XC0 i0 Link 08 (0x1 0x2)", WARN),
        (145, "145, RLW_REMAP Fatal XC0 i0 Link 08 (0x1 0x2)", FAIL),
        (149, "149, pid=7, name=Nonfatal, NETIR_LINK_EVT Fatal XC0 i0 Link 08", FAIL),
        (31, "31, name=python, GPU has fallen off the bus.", FAIL),
        (64, "64, Dynamic Page Retirement: Fatal error, unable to retire page", FAIL),
        (154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", FAIL),
        (154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", FAIL),
        (154, "GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)", FAIL),
        (154, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", HARMLESS),
        (154, "GPU recovery action changed", FAIL),
        (154, "154, name=to None, GPU recovery action changed", FAIL),
    ],
)
def test_class_of_a_code(code, text, kind):
    assert judge_xid(code, text).kind == kind


@pytest.mark.parametrize(
    ("wanted", "remedy"),
    [
        ("0x1 (GPU Reset Required)", "reset"),
        ("0x1 (PF FLR)", "reset"),
        ("0x2 (Node Reboot Required)", "reboot"),
        ("0x2 (OS Reboot)", "reboot"),
        ("0x3 (Drain P2P)", "drain"),
        ("0x4 (Drain and Reset)", "drain"),
        ("0x9 (Something Else)", "contact-support"),
    ],
)
def test_the_driver_names_its_remedy(wanted, remedy):
    found = judge_xid(154, f"GPU recovery action changed from 0x0 (None) to {wanted}")
    assert (found.kind, found.remedy) == (FAIL, remedy)


def test_109_fails_when_it_repeats():
    assert (judge_xid(109, "", 1).kind, judge_xid(109, "", 2).kind) == (WARN, FAIL)


LINES = {
    "[  10.000001] a5-01 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>": (79, "0000:3b:00"),
    "[  10.000001] NVRM: Xid (PCI:0000:3B:00): 31, pid=99, Ch 00000008": (31, "0000:3b:00"),
    "[  10.000001] a5-01 kernel: NVRM: Xid (PCI:00000000:3B:00.0): 48, DBE": (48, "0000:3b:00"),
    "[  10.000001] a5-01 kernel: NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 13, pid=4": (13, "0000:3b:00"),
    "[  10.000001] a5-01 kernel: NVRM: Xid (PCI:0000:3b:00): what": (0, "unnamed"),
    "[  10.000001] a5-01 kernel: NVRM: Xid 79": (0, "unnamed"),
}  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_an_xid_is_read_in_every_spelling(line):
    event = parse_log(line)["xids"][0]
    assert (event["code"], event["pci_id"], event["count"]) == (*LINES[line], 1)


@pytest.mark.parametrize(
    "line",
    [
        "[   1.0] a5-01 kernel: audit: exe=NVRM: Xid (PCI:0000:3b:00): 79",
        "NVRM: Xid (PCI:0000:3b:00): 79",
        "[   1.000000] a5-01 kernel: NVRM: Xident",
    ],
)
def test_what_only_looks_like_one_is_none(line):
    assert parse_log(line)["xids"] == []


def test_an_sxid_keeps_its_severity():
    line = "[   7.5] a5-01 kernel: nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
    event = parse_log(line)["sxids"][0]
    assert (event["code"], event["pci_id"]) == (20034, "0000:c1:00") and ", Fatal," in event["text"]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:123]", "lockup"),
        ("NMI watchdog: Watchdog detected hard LOCKUP on cpu 3", "lockup"),
        ("INFO: task nvidia-smi:4711 blocked for more than 120 seconds.", "blocked"),
        ("Out of memory: Killed process 1234 (python) total-vm:1kB", "out_of_memory"),
        ("Memory cgroup out of memory: Killed process 1234 (python)", "out_of_memory"),
        ("mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 5: be00000000800400", "hardware"),
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0", "hardware"),
        ("EDAC MC0: 1 CE memory read error on CPU_SrcID#0", "hardware_corrected"),
        ("mce: [Hardware Error]: Corrected error, no action required", "hardware_corrected"),
        ("pcieport 0000:3a:00.0: AER: Uncorrected (Fatal) error received: 0000:3b:00.0", "pcie"),
        ("pcieport 0000:3a:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction", "pcie"),
        ("pcieport 0000:3a:00.0: AER: Corrected error received: 0000:3b:00.0", "pcie_corrected"),
    ],
)
def test_what_else_the_kernel_reports(message, kind):
    assert [(found["kind"], found["count"]) for found in parse_log(f"[ 9.1] h kernel: {message}")["findings"]] == [
        (kind, 1)
    ]


def test_repeated_events_are_counted_and_hostile_text_is_harmless():
    line = "[ {}.000000] h kernel: NVRM: Xid (PCI:0000:3b:00): 13, \x1b[2J{}\n"
    event = parse_log("".join(line.format(second, "x" * 900) for second in (5, 6, 7)))["xids"][0]
    assert (event["count"], event["first_s"], event["last_s"]) == (3, 5, 7)
    assert event["text"].isprintable() and len(event["text"]) <= 200


def test_a_flood_of_kinds_stays_bounded():
    text = "".join(f"[ 5.0] h kernel: NVRM: Xid (PCI:0000:3b:00): {code}, x\n" for code in range(1, 1500))
    found = parse_log(text)
    assert len(found["xids"]) == MOST_EVENTS and found["whole"] is False


MESSAGE = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus."
BOOT = "Linux version 5.14.0-427.el9.x86_64 (mockbuild@x86-vm)"
# As journalctl -o, dmesg and syslog daemons write one message and the boot's first; 12 s lie between them.
FORMS = {
    "short-monotonic": "[    {s}.000000] a5-01 kernel: {m}",
    "dmesg": "[    {s}.000000] {m}",
    "dmesg with callers": "[    {s}.000000][    T1] {m}",
    "dmesg -x": "kern  :warn  : [    {s}.000000] {m}",
    "dmesg -r": "<4>[    {s}.000000] {m}",
    "dmesg -T": "[Sun Nov 22 10:00:{s:02} 2026] {m}",
    "dmesg iso": "2026-11-22T10:00:{s:02},000000+01:00 {m}",
    "short": "Nov 22 10:00:{s:02} a5-01 kernel: {m}",
    "short-precise": "Nov 22 10:00:{s:02}.123456 a5-01 kernel: {m}",
    "short-iso": "2026-11-22T10:00:{s:02}+0000 a5-01 kernel: {m}",
    "short-iso-precise": "2026-11-22T10:00:{s:02}.123456+01:00 a5-01 kernel: {m}",
    "short-full": "Sun 2026-11-22 10:00:{s:02} UTC a5-01 kernel: {m}",
    "short-unix": "17953632{s:02}.123456 a5-01 kernel: {m}",
    "syslog": "Nov 22 10:00:{s:02} a5-01 kernel: [   {s}.000000] {m}",
    "syslog with one digit": "Nov  2 10:00:{s:02} a5-01 kernel: [   {s}.000000] {m}",
    "rsyslog": "2026-11-22T10:00:{s:02}.123456+01:00 a5-01 kernel: [   {s}.000000] {m}",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_log_from_another_machine_is_read_in_every_form(form):
    text = "\n".join(FORMS[form].format(s=second, m=message) for second, message in ((0, BOOT), (12, MESSAGE)))
    found = parse_log(text)
    assert found is not None
    assert (found["lines"], found["from_boot"]) == (2, True)
    event = found["xids"][0]
    assert (event["code"], event["pci_id"], event["first_s"], event["last_s"]) == (79, "0000:3b:00", 12, 12)
    assert event["text"] == MESSAGE


@pytest.mark.parametrize("form", [form for form in FORMS if "kernel: " in FORMS[form]])
def test_what_programs_write_is_not_the_kernels(form):
    line = FORMS[form].format(s=5, m=MESSAGE).replace(" kernel: ", " python[4711]: ")
    assert parse_log(line)["xids"] == []


def test_of_several_boots_the_last_counts():
    boots = [("10:00:00", BOOT), ("10:00:20", MESSAGE), ("10:05:00", BOOT), ("10:05:07", MESSAGE)]
    lines = [f"Nov 22 {clock} h kernel: {message}" for clock, message in boots]
    assert parse_log("\n".join(lines[:3]))["xids"] == []
    (event,) = parse_log("\n".join(lines))["xids"]
    assert (event["count"], event["first_s"]) == (1, 7)


def test_a_new_year_is_no_step_back():
    found = parse_log(f"Dec 31 23:59:50 h kernel: {BOOT}\nJan  1 00:00:10 h kernel: {MESSAGE}\n")
    assert found["xids"][0]["first_s"] == 20


def test_an_event_says_what_closed_it_and_what_came_after():
    dbe = "[ {}.0] h kernel: NVRM: Xid (PCI:0000:3b:00): 48, pid=9, DBE\n"
    none = "[ 40.0] h kernel: NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x1 (a) to 0x0 (None)\n"
    found = parse_log(dbe.format(10) + dbe.format(20) + none + dbe.format(50))["xids"]
    open_one, closed = [event for event in found if event["code"] == 48]
    assert (open_one["closed_by"], open_one["count"], open_one["first_s"]) == ("", 1, 50)
    assert (closed["count"], closed["first_s"], closed["last_s"]) == (2, 10, 20)
    assert closed["closed_by"] == "the driver no longer asks for a recovery of 0000:3b:00 at 40 s"
    assert listed_id("xids", closed) == "kernel.xid:48@0000:3b:00"


def test_the_lines_of_one_sxid_are_one_event():
    head = "[ 7.0] h kernel: nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, "
    text = "".join(
        head + rest + "\n" for rest in ("Fatal, Link 30 LTSSM", "Severity 1 Engine instance 30", "Data {0x1}")
    )
    (event,) = parse_log(text)["sxids"]
    assert event["count"] == 1 and ", Fatal," in event["text"]
    assert listed_id("sxids", event) == "kernel.sxid:20034@0000:c1:00"


def test_lost_messages_are_added_up():
    text = "[ 7.0] h systemd-journald[9]: Missed 12 kernel messages\n"
    text += "[ 8.0] h kernel: dmar_fault: 30 callbacks suppressed\n"
    (finding,) = parse_log(text)["findings"]
    assert (finding["kind"], finding["count"]) == ("lost", 42)
    assert listed_id("findings", finding) == "kernel.log_whole:lost"


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:{:04x}:3b:00): 48, DBE",
        "NVRM: loading NVIDIA UNIX {}",
        "EXT4-fs (sda{}): " + "error " * 150,
        "{{{}}}[Hardware Error]: event severity: corrected",
        "NVRM: The NVIDIA GPU 0000:3b:00.0 {}",
        "x {}\n   more",
    ],
)
def test_a_flood_costs_seconds(line, tmp_path):
    """A tenth of the most that is read, under the oldest Python that a node may have: it is the slowest."""
    one = "[  5.0] h kernel: " + line + "\n"
    text = "".join(one.format(number) for number in range(1_600_000 // len(one)))
    (tmp_path / "log").write_text(text)
    script = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); from gpuwright.readings.kernel_log.log import parse_log; "
    )
    script += "t = open(sys.argv[2]).read(); a = time.process_time(); f = parse_log(t); "
    script += "print(time.process_time() - a, len(f['xids']) + len(f['findings']))"
    oldest = min(node_pythons(), key=lambda version: int(version.partition(".")[2]))
    command = [node_pythons()[oldest], "-c", script, str(MODULE_UTILS), str(tmp_path / "log")]
    seconds, kept = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert float(seconds) < 2 and int(kept) <= 2 * MOST_EVENTS


@pytest.fixture
def programs(fake_bin, monkeypatch):
    folder = fake_bin("true", "#!/bin/sh\n").parent
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return fake_bin


def test_the_journal_is_asked_for_the_kernel_and_this_boot_only(programs, tmp_path):
    (tmp_path / "log").write_text(records(KERNEL_LOG))
    programs("journalctl", f'#!/bin/sh\necho "$@" >{tmp_path}/asked\ncat {tmp_path}/log\n')
    found = read_kernel_log(str(tmp_path))
    assert found is not None
    assert (found["lines"], found["from_boot"], found["whole"]) == (2, True, True)
    asked = (tmp_path / "asked").read_text().split()
    # -a: a message with control characters is not left out.
    assert {"-a", "-b"} <= set(asked)
    assert asked[-4:] == ["_TRANSPORT=kernel", "SYSLOG_FACILITY=0", "+", "_TRANSPORT=driver"]


def test_without_a_journal_the_ring_buffer_is_read(programs, tmp_path):
    programs("journalctl", "#!/bin/sh\nexit 1\n")
    HostTree(tmp_path).put("/dev/kmsg", "4,7,99500000,-;NVRM: Xid (PCI:0000:3b:00): 79, gone\n SUBSYSTEM=pci\n")
    found = read_kernel_log(str(tmp_path))
    assert found is not None
    assert (found["source"], found["from_boot"], found["xids"][0]["code"]) == ("/dev/kmsg", False, 79)


def test_a_log_that_cannot_be_read_is_no_quiet_log(programs, tmp_path):
    programs("journalctl", "#!/bin/sh\nexit 0\n")
    with pytest.raises(OSError, match="journalctl: printed nothing; /dev/kmsg: No such file"):
        read_kernel_log(str(tmp_path))


def test_in_a_container_the_log_is_the_hosts(programs, tmp_path):
    programs("journalctl", "#!/bin/sh\nexit 0\n")
    HostTree(tmp_path).put("/run/systemd/container", "podman\n")
    assert read_kernel_log(str(tmp_path)) is None


def test_a_log_that_never_ends_is_cut_and_says_so(programs, tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_log, "CHUNK_BYTES", 100_000)
    programs("journalctl", "#!/bin/sh\nexec yes '" + record("NVRM: Xid (PCI:0000:3b:00): 13, x", 1000000) + "'\n")
    found = read_kernel_log(str(tmp_path))
    assert found is not None
    assert found["whole"] is False and found["xids"][0]["count"] > 100


def test_a_journal_that_hangs_costs_its_seconds(programs, tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_log, "LOG_SECONDS", 0.3)
    programs("journalctl", "#!/bin/sh\nsleep 60\n")
    with pytest.raises(OSError, match="did not finish"):
        read_kernel_log(str(tmp_path))


@pytest.mark.parametrize(
    ("path", "content", "name"),
    [
        ("/run/systemd/container", "lxc\n", "lxc"),
        ("/proc/1/environ", "HOME=/\0container=systemd-nspawn\0", "systemd-nspawn"),
        ("/.dockerenv", "", "docker"),
        ("/run/.containerenv", "", "podman"),
        ("/etc/hostname", "a5-01", None),
    ],
)
def test_containers(tmp_path, path, content, name):
    HostTree(tmp_path).put(path, content)
    assert read_container(str(tmp_path)) == name


@settings(max_examples=200, deadline=None)
@given(
    st.text(max_size=200) | st.lists(st.sampled_from([*LINES, "[ 1.0] x", "]", "\n", "[0.0] NVRM: Xid"])).map("\n".join)
)
def test_any_text_is_read_without_an_error(text):
    found = parse_log(text)
    assert all(event["count"] >= 1 for event in found["xids"])
