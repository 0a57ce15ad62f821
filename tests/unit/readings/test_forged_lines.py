"""Text that a user chose is never the kernel's own: names of programs, files and devices, and what daemons pass on.

All names here are harmless, and stand for any other.
"""

from __future__ import annotations

import os
import shlex

import healthy_node
import pytest
from gpuwright.checks.all import CHECKS
from gpuwright.readings.kernel_log.log import parse_log, parse_records, read_kernel_log
from gpuwright.readings.kernel_log.programs import begins_with_a_name
from gpuwright.readings.kernel_log.records import KERNEL, Line
from gpuwright.verdict.check import judge
from healthy_kernel import KERNEL_LOG, record
from host_tree import HostTree
from kernel_records import RECORDS

XID_79 = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus."
BANNER = "Linux version 5.14.0-427.el9.x86_64 (mockbuild@x86-vm) (gcc version 8.5.0)"
# Each begins or ends like one of the kernel's own messages; a name has 15 bytes at most.
NAMES = (
    "my prog",
    "Linux version 5",
    "NVRM: Xid",
    "NVRM: Xid 79",
    "Oops: a",
    "BUG: a",
    "kernel BUG at a",
    "MCE: Killing a",
    "JBD2: I/O error",
    "EXT4-fs error a",
    "EDAC MC0: 1 UE",
    "refcount_t: a",
    "NMI: IOCK error",
    "a\nNVRM: Xid 7",
    "\nNVRM: Xid 79",
    "NVRM: Xid 79\n",
    "x\u2028NVRM: Xid",
    "[0.0] NVRM: Xid",
    "h kernel: BUG: ",
    "GPU has fallen ",
    "fallen off the ",
    "GPU lost",
    "Reset required",
    "Fatal",
    "fatal, GSP",
    "GSP timeout",
    "RmInitAdapter f",
    "nvidia-nvswitch",
    "SXid (PCI:0)",
    "NVRM: GPU 0000:",
    "NVRM: API misma",
    "Machine check e",
    "mce: [Hardware ",
    "AER: Uncorrecte",
    "PCIe Bus Error:",
    "Out of memory: ",
    "oom-kill:constr",
    "watchdog: BUG: ",
    "soft lockup - C",
    "rcu: INFO: rcu_",
    "INFO: task a:1 ",
    "blocked for mor",
    "Kernel panic - ",
    "general protect",
    "unable to handl",
    "WARNING: CPU: 0",
    "Call Trace:",
    "XFS (nvme0n1): ",
    "Remounting fs r",
    "I/O error, dev ",
    "nvme nvme0: I/O",
    "controller is d",
    "EDAC",
    "CPU0: Core temp",
    "thermal thrott",
    ", Ch 8, GPU has",
    "79, pid=1",
    ", 154, a",
    "Xid 154, GPU re",
    "(0x0) -> None",
    "module verifica",
    "disagrees about",
    "Lockdown: a: un",
    "Key was rejecte",
)
# What the kernel writes behind a program's name, and with a device's.
BEHIND = (
    "[4711]: segfault at 0 ip 0000000000401136 sp 00007ffd error 6 in my prog[401000+1000] likely on CPU 3",
    "[4711] trap divide error ip:401136 sp:7ffd error:0 in my prog[401000+1000]",
    "[4711] general protection fault ip:401136 sp:7ffd error:0 in my prog[401000+1000]",
    "[4711] bad frame in rt_sigreturn frame:00007ffd ip:401136 sp:7ffd orax:ffffffffffffffff in my prog[401000+1000]",
    "[4711]: unhandled level 2 translation fault (11) at 0x00000000, esr 0x92000046, in my prog[400000+1000]",
    "/4711: potentially unexpected fatal signal 11.",
    " (4711): drop_caches: 3",
    " (4711) uses deprecated remap_file_pages() syscall.",
    "(4711): Attempt to set a LOCK_MAND lock via flock(2).",
    " invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    ": sending ioctl 5310 to a partition!",
)
FILES = (
    "my prog",
    f"a\n{XID_79}",
    f"a\n[    9.000000] a5-01 kernel: {XID_79}",
    f"a\n[    0.000000] {BANNER}",
    f"a\nNov 22 10:00:00 a5-01 kernel: {XID_79}",
    f"a\n4,7,9000000,-;{XID_79}",
    f"a\u2028[    9.000000] a5-01 kernel: {XID_79}",
    f"a\x85[    9.000000] {XID_79}",
    f"a\r[    9.000000] {XID_79}",
)


def as_text(message: str, second: int, stamp: str = "[{:5d}.000001] a5-01 kernel: ") -> str:
    """As journalctl and dmesg print it: the further lines are indented by the width of what stands before the first."""
    head = stamp.format(second)
    return head + f"\n{' ' * len(head)}".join(message.split("\n")) + "\n"


@pytest.fixture
def node(fake_bin, monkeypatch, tmp_path):
    """What the node's reading finds in the journal after these messages."""
    folder = fake_bin("true", "#!/bin/sh\n").parent
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def read(*messages: str) -> dict:
        said = [(9 + number, message) for number, message in enumerate(messages)]
        rows = [record(BANNER), *(record(message, second * 1000000) for second, message in said)]
        text = KERNEL_LOG + "".join(as_text(message, second) for second, message in said)
        asked = f"*'-o json'*) printf '%s\\n' {' '.join(shlex.quote(row) for row in rows)};;"
        fake_bin("journalctl", f'#!/bin/sh\ncase "$*" in {asked} *) printf %s {shlex.quote(text)};; esac\n')
        found = read_kernel_log(str(tmp_path))
        assert found is not None
        return found

    return read


def nothing(found: dict) -> bool:
    return not (found["xids"] or found["sxids"] or found["findings"])


def test_no_program_makes_a_node_forget_a_lost_gpu(node):
    """A crashed program's name begins a message: whatever it is, what was found before stays."""
    names = [name + BEHIND[0] for name in NAMES] + [f"my prog[4711]: segfault at 0 in {file}[4+1]" for file in FILES]
    found = node(XID_79, *names, BANNER)
    assert [(event["code"], event["count"]) for event in found["xids"]] == [(79, 1)]
    assert found["from_boot"] is True and found["findings"] == []


@pytest.mark.parametrize("behind", BEHIND)
def test_no_programs_name_is_a_finding(node, behind):
    assert nothing(node(*(name + behind for name in NAMES)))


# Lines of the kernel and the driver with a program's name inside, and the kernel's own word for what they mean.
INSIDE = (
    "traps: {}[4711] trap int3 ip:401136 sp:7ffd error:0 in a[401000+1000]",
    "x86/split lock detection: #AC: {}/4711 took a split_lock trap at address: 0x401136",
    "capability: warning: `{}' uses deprecated v2 capabilities in a way that may be insecure",
    "process '{}' launched '/bin/true' with NULL argv: empty string added",
    "netlink: 8 bytes leftover after parsing attributes in process `{}'.",
    "mmap: {} (4711): VmData 1 exceed data ulimit 0. Update limits or use boot option ignore_rlimit_data.",
    "cgroup: fork rejected by pids controller in /user.slice/{}",
    'ptrace attach of "./a"[4711] was attempted by "{}"[4712]',
    "NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name={}, Ch 00000008, intr 00000000. MMU Fault",
    "NVRM: Xid (PCI:0000:3b:00): 43, pid=4711, name={}, Ch 00000008",
    "INFO: task {}:4711 blocked for more than 120 seconds.",
    "Memory cgroup out of memory: Killed process 4711 ({}) total-vm:1kB, anon-rss:1kB",
)


@pytest.mark.parametrize("behind", [*BEHIND, *INSIDE])
def test_no_name_of_a_program_changes_what_the_checks_of_the_log_say(behind):
    """More than 50 names, each where the kernel writes one, beside a lost card and without one."""
    assert len({*NAMES, *FILES}) > 60
    for before in ((), (XID_79,)):
        said = {}
        for name in ("python", *NAMES, *(file[:15] for file in FILES)):
            message = behind.format(name) if behind in INSIDE else name + behind
            lines = [Line(text, KERNEL, 1_000_000 * at) for at, text in enumerate((BANNER, *before, message))]
            readings = {**healthy_node.readings(), "kernel_log": {**parse_records(lines), "source": "journal"}}
            said[name] = {
                check.id: [record[key] for key in ("status", "code", "items", "remedy", "value")]
                for check in CHECKS
                if check.id.startswith("kernel.")
                for record in (judge(check, readings, healthy_node.expectations()),)
            }
        differ = {name: found for name, found in said.items() if found != said["python"]}
        assert differ == {}, behind


@pytest.mark.parametrize("name", FILES)
def test_no_files_name_is_a_message_of_its_own(node, name):
    message = f"my prog[4711]: segfault at 0 ip 4 sp 7 error 6 in {name}[401000+1000]"
    assert nothing(node(message))
    for stamp in ("[{:5d}.000001] a5-01 kernel: ", "[{:5d}.000001] ", "Nov 22 10:00:{:02d} a5-01 kernel: "):
        text = "".join(
            as_text(line, at, stamp) for at, line in ((1, XID_79.replace("79", "48")), (2, message), (3, "x"))
        )
        found = parse_log(text)
        assert [event["code"] for event in found["xids"]] == [48] and found["findings"] == [], stamp


def test_a_name_of_a_network_device_is_no_finding(node):
    names = ("BUG", "Oops", "refcount_t", "NVRM", "mce", "JBD2", "AER", "pcieport", "mlx5_core")
    said = ("port 1(a) entered blocking state", "entered promiscuous mode", "renamed from a")
    assert nothing(node(*(f"{name}: {words}" for name in names for words in said)))


def test_a_name_inside_a_message_decides_nothing(node):
    for name in NAMES:
        found = node(
            f"INFO: task {name}:4711 blocked for more than 120 seconds.",
            f"Out of memory: Killed process 4711 ({name}) total-vm:1kB",
            f"{name}: page allocation failure: order:5, mode:0x40cc0(GFP_KERNEL)",
            f"XFS (dm-0): {name}(4711) possible memory allocation deadlock size 65536 in kmem_alloc",
            f"usb 1-1: Product: {name}",
        )
        assert sorted(event["kind"] for event in found["findings"]) == ["allocation", "blocked", "out_of_memory"], name
        assert found["xids"] == found["sxids"] == []


def test_only_what_the_kernel_began_is_the_kernels(node, fake_bin, tmp_path):
    others = (
        {"SYSLOG_FACILITY": "1"},
        {"SYSLOG_FACILITY": "3", "SYSLOG_IDENTIFIER": "systemd"},
        {"_TRANSPORT": "syslog", "SYSLOG_IDENTIFIER": "kernel"},
        {"_TRANSPORT": "stdout", "SYSLOG_IDENTIFIER": "kernel"},
        {"_TRANSPORT": "audit"},
        {"_TRANSPORT": "driver"},
    )
    rows = [record(BANNER), *(record(XID_79, 9000000, **fields) for fields in others)]
    # journald's own words about what it missed, from anybody but journald.
    rows += [record("Missed 9 kernel messages", 9000000, **fields) for fields in others[:-1]]
    (tmp_path / "log").write_text("\n".join(rows) + "\n")
    fake_bin("journalctl", f"#!/bin/sh\ncat {tmp_path}/log\n")
    found = read_kernel_log(str(tmp_path))
    assert found is not None and nothing(found) and found["lines"] == 1


def test_only_the_first_second_of_a_boot_has_its_first_words():
    """Without what came before, such words later in the log make it no whole one."""
    late = (Line(XID_79, KERNEL, 5_000_000), Line(BANNER, KERNEL, 9_000_000))
    assert parse_records(late)["from_boot"] is False
    assert parse_records((Line(BANNER, KERNEL, 0), *late))["from_boot"] is True


def test_a_name_with_control_characters_hides_nothing(node, fake_bin, tmp_path):
    """journald prints such a message as bytes; as text, it would be left out."""
    message = list(b"NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=a\x01\xff, GPU has fallen off the bus.")
    (tmp_path / "log").write_text(record("", 9000000, MESSAGE=message) + "\n")
    fake_bin("journalctl", f"#!/bin/sh\ncat {tmp_path}/log\n")
    found = read_kernel_log(str(tmp_path))
    assert found is not None and [event["code"] for event in found["xids"]] == [79]


@pytest.mark.parametrize("separator", ["\u2028", "\x85", "\r", "\x0b", "\x1e"])
def test_a_separator_in_a_message_ends_no_record(node, separator):
    """Python ends lines at these, journald does not: such a record would be lost."""
    found = node(XID_79.replace("python", f"a{separator}b"))
    assert [event["code"] for event in found["xids"]] == [79]


def test_the_kernels_buffer_is_read_as_records(node, fake_bin, tmp_path):
    fake_bin("journalctl", "#!/bin/sh\nexit 1\n")
    rows = [
        f"6,0,0,-;{BANNER}",
        f"4,1,5000000,-;{XID_79.replace('79', '48')}",
        " SUBSYSTEM=pci",
        f"6,2,6000000,-;my prog[4711]: segfault at 0 in a\\x0a4,3,7000000,-;{XID_79}[4+1]",
        f"12,3,7000000,-;{XID_79}",
        f"30,4,8000000,-,caller=T1;systemd[1]: {XID_79}",
        "6,5,9000000,-;Linux version 5[4711]: segfault at 0",
    ]
    HostTree(tmp_path).put("/dev/kmsg", "\n".join(rows) + "\n")
    found = read_kernel_log(str(tmp_path))
    assert found is not None and found["source"] == "/dev/kmsg"
    assert [event["code"] for event in found["xids"]] == [48] and found["findings"] == []
    assert (found["lines"], found["from_boot"], found["whole"]) == (4, True, True)


@pytest.mark.parametrize(
    "line",
    [
        f"Nov 22 10:00:00 a5-01 kernel[99]: {XID_79}",
        f"Nov 22 10:00:00 a5-01 user.notice kernel: {XID_79}",
        f"Nov 22 10:00:00 user.notice kernel: {XID_79}",
        f"<13>Nov 22 10:00:00 a5-01 kernel: {XID_79}",
        f"<12>[    5.000000] {XID_79}",
        f"user  :notice: [    5.000000] {XID_79}",
        f"daemon:info  : 2026-11-22T10:00:00,000000+01:00 {XID_79}",
        f"12,7,5000000,-;{XID_79}",
        f"Nov 22 10:00:00 a5-01 python[4]: x\n                {XID_79}",
        f"[    5.000000] x\n               [    5.000000] {XID_79}",
        f"[    5.000000] x\n\t[    5.000000] {XID_79}",
        f"               [    5.000000] {XID_79}\n[    6.000000] x",
    ],
)
def test_in_a_file_too(line):
    assert nothing(parse_log(line + "\n"))


@pytest.mark.parametrize(
    "stamp", ["[{:5d}.000001] ", "[{:5d}.000001] a5-01 kernel: ", "Nov 22 10:00:{:02d} a5-01 kernel: "]
)
@pytest.mark.parametrize("behind", BEHIND)
def test_no_name_is_a_finding_in_a_file(stamp, behind):
    text = "".join(as_text(name + behind, at, stamp) for at, name in enumerate(NAMES))
    assert nothing(parse_log(text))


def test_no_unit_of_a_user_makes_the_log_incomplete():
    assert nothing(parse_log("[    9.000000] h systemd-journald[1]: Suppressed 9 messages from user@1000.service\n"))


def test_the_kernels_own_messages_begin_with_no_name():
    """The guard takes nothing of the table's own records for a program's line."""
    fits = ("page allocation", "systemd-journald[", "invoked oom-killer")
    lines = {line for _check, status, text in RECORDS if status for line in text.splitlines()}
    taken = {line for line in lines if begins_with_a_name(line)}
    assert {line for line in taken if not any(words in line for words in fits)} == set()
