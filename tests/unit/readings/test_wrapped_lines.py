"""Kernel messages as collectors and other systems write them."""

from __future__ import annotations

import json
import time

import pytest
from gpuwright.readings.kernel_log.boots import machines
from gpuwright.readings.kernel_log.log import parse_log
from gpuwright.readings.kernel_log.saved import read_saved

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python, GPU has fallen off the bus."
STAMP = "2026-01-05T10:00:00.123456789Z"
VERBOSE = f"""\
Mon 2026-01-05 10:00:00.123456 UTC [s=ab;i=1;b=b1;m=5;t=6;x=7]
    PRIORITY=2
    _TRANSPORT=kernel
    SYSLOG_FACILITY=0
    _BOOT_ID=11111111111111111111111111111111
    _SOURCE_MONOTONIC_TIMESTAMP=99000000
    MESSAGE={XID}
Mon 2026-01-05 10:00:01.123456 UTC [s=ab;i=2;b=b1;m=5;t=6;x=7]
    _TRANSPORT=syslog
    MESSAGE={XID}
"""
FORMS = {
    "Talos": f"kern:     err: [{STAMP}]: {XID}",
    "Talos, several nodes": f"10.5.0.2: kern: warning: [{STAMP}]: {XID}",
    "dmesg --json": '{\n   "dmesg": [\n      {\n         "pri": 2,\n'.replace("\n", " ") + "\n"
    f'      {{"pri":2, "time":   99.000001, "msg":{json.dumps(XID)}}},',
    "CRI": f"{STAMP} stdout F [   99.000001] {XID}",
    "CRI, bare": f"{STAMP} stderr F {XID}",
    "docker json-file": json.dumps(
        {"log": f"[   99.000001] {XID}\n", "stream": "stdout", "time": STAMP}, separators=(",", ":")
    ),
    "docker logs -t": f"{STAMP} [   99.000001] {XID}",
    "JSON of a collector": json.dumps({"host": "a5-01", "message": f"[   99.000001] {XID}", "timestamp": STAMP}),
    "JSON that names the kernel": json.dumps({"ident": "kernel", "time": STAMP, "log": XID + "\n"}),
    "column of a console": f"2026-01-05T10:00:00.000Z\tJan  5 10:00:00 a5-01 kernel: [   99.000001] {XID}",
    "column of a console, without T": f"2026-01-05 10:00:00.123\t[   99.000001] {XID}",
    "kubectl logs --prefix": f"[pod/dmesg-x7k2p/dmesg] [   99.000001] {XID}",
    "kubectl logs --prefix --timestamps": f"[pod/dmesg-x7k2p/dmesg] {STAMP} [   99.000001] {XID}",
    "stern": f"dmesg-x7k2p dmesg [   99.000001] {XID}",
    "stern -t": f"dmesg-x7k2p dmesg {STAMP} [   99.000001] {XID}",
    "docker compose": f"dmesg-1  | [   99.000001] {XID}",
    "a host's column": f"a5-01 | [Mon Jan  5 10:00:00 2026] {XID}",
    "NHC": f"a5-01 | ERROR: nhc: Health check failed: check_gpu_xid: GPU Xid errors detected: [   99.000001] {XID}",
    "Ansible": f'    "stdout_lines": [\n        "[   99.000001] {XID}",\n        "[   99.000002] mlx5_core: up"\n    ]',
    "CSV": f'"{STAMP}","a5-01","{XID}"',
    "a list": f"- [   99.000001] {XID}\n- [   99.000002] mlx5_core: up",
    "a list of code": f"1. `[   99.000001] {XID}`",
    "a table": f"| [   99.000001] {XID} |",
    "cat -n": f"     9\t[   99.000001] {XID}\n    10\t[   99.000002] mlx5_core: up",
    "logfmt": f'time="{STAMP}" level=error msg="{XID}"',
    "logfmt, more behind": f'ts=1 level=error msg="kernel: {XID}" unit=kernel',
    "ESXi": f"2026-01-05T10:00:00.123Z cpu12:2098143){XID}",
    "ESXi, newer": f"2026-01-05T10:00:00.123Z In(182) vmkernel: cpu12:2098143){XID}",
    "wall": f"Message from syslogd@a5-01 at Jan  5 10:00:00 ...\n kernel:[   99.000001] {XID}",
    "syslog without a host": f"Jan  5 10:00:00 kernel: {XID}",
    "journalctl -o verbose": VERBOSE,
}


@pytest.mark.parametrize("name", FORMS)
def test_a_message_is_found_in_what_is_written_around_it(name):
    lines = [line for line in read_saved(FORMS[name] + "\n", bare=True).lines if getattr(line, "text", "") == XID]
    assert [getattr(line, "speaker", "") for line in lines] == ["kernel"], read_saved(FORMS[name], bare=True)


def test_several_nodes_in_one_paste_are_judged_apart():
    text = "".join(
        f"10.5.0.{node}: kern: err: [{STAMP}]: {XID if node == 3 else 'all is well'}\n" for node in (2, 3, 4)
    )
    found = {machine.name: len(machine.parsed["xids"]) for machine in machines(read_saved(text).lines)}
    assert found == {"10.5.0.2": 0, "10.5.0.3": 1, "10.5.0.4": 0}


@pytest.mark.parametrize(
    "line",
    [
        f'{STAMP} stdout F {{"msg": "{XID}"}}'.replace("NVRM", "nvrm"),
        f"{STAMP} stdout F python: I saw {XID}",
        f'level=error msg="I saw {XID}"',
        f'{{"pri":12, "time": 99.0, "msg":"{XID}"}}',
        f"user:     err: [{STAMP}]: {XID}",
        json.dumps({"ident": "python", "message": XID}),
        json.dumps({"app": "python", "log": f"[   99.000001] {XID}"}),
        json.dumps({"_TRANSPORT": "stdout", "MESSAGE": "x", "message": XID}),
        json.dumps({"_TRANSPORT": "stdout", "MESSAGE": f'"message": "{XID}"'}),
        f'"I saw {XID}",',
        f"     9\t[   99.000001] {XID}\nand a line without a number",
        f"Jan  5 10:00:00 a5-01 python[7]: x\n                               7\t[   99.000001] {XID}",
    ],
)
def test_what_another_program_says_is_not_the_kernels(line):
    assert parse_log(line + "\n")["xids"] == []


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: API mismatch: the client has the version 580.105.08, but",
        "NVRM: No NVIDIA GPU found.",
        "NVRM: Can't find an IRQ for your NVIDIA card!",
        "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10",
        "nvidia 0000:3b:00.0: probe with driver nvidia failed with error -1",
    ],
)
def test_picked_lines_without_a_time_are_messages(line):
    lines = read_saved(line + "\n", bare=True).lines
    assert [getattr(found, "text", "") for found in lines] == [line]


def test_the_further_lines_of_a_message_without_times_are_its_own():
    lost = (
        "nvidia-nvlink: Nvlink Core is being initialized\n"
        "NVRM: The NVIDIA GPU 0000:b3:00.0\n"
        "NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
        "NVRM: fallen off the bus and is not responding to commands.\n"
    )
    (line,) = read_saved(lost, bare=True).lines
    assert getattr(line, "text", "").count("\n") == 2
    # What begins a sentence of its own, or stands behind other words, is nobody's further line.
    for text in ("NVRM: GPU 0000:b3:00.0: x\nNVRM: Some other words\n", "words\nNVRM: fallen off the bus\n"):
        assert [row for row in read_saved(text, bare=True).rest if row and row.startswith("NVRM: ")]


WIDE = {
    "CSV": STAMP + ',","' * 9 + ",end",
    "CSV, quoted": f'"{STAMP}"' + ',"a, b"' * 400 + ",end",
    "logfmt": 'level="info" ' * 18 + "end",
    "logfmt, quoted": 'caller="a b" ' * 400 + "end",
    "table": f"| [   99.000001] words{' ' * 4000}end",
}


@pytest.mark.parametrize("name", WIDE)
def test_a_wide_row_that_holds_no_message_costs_what_its_length_does(name):
    begin = time.process_time()
    assert parse_log((WIDE[name] + "\n") * 10)["xids"] == []
    assert time.process_time() - begin < 0.5


@pytest.mark.parametrize(
    "line",
    [
        f'"{STAMP}","a5-01",","," said ""no"" ",,plain,"{XID}"',
        f'{STAMP},a5-01,"{XID}"',
        f'time="{STAMP}" caller="a \\"b\\" c" level=error text="" msg="{XID}"',
        f"| a5-01 | `[   99.000001] {XID}`   |",
    ],
)
def test_fields_of_every_form_stand_before_a_message(line):
    lines = read_saved(line + "\n", bare=True).lines
    assert [getattr(found, "text", "") for found in lines] == [XID]
