"""Root's checks read only what is new in the journal, and find what a reading of all of it finds."""

from __future__ import annotations

import json
import os

import pytest
from gpuwright.readings.kernel_log import log as kernel_log
from gpuwright.readings.kernel_log.events import KernelEvents
from gpuwright.readings.kernel_log.log import read_kernel_log
from gpuwright.readings.kernel_log.position import PATH
from gpuwright.readings.kernel_log.records import journal_record
from healthy_kernel import KERNEL_LOG
from healthy_kernel import records as as_records
from kernel_records import RECORDS
from test_kernel_log_table import journal

# A journalctl that prints what lies behind a cursor, and the number of records of each call.
JOURNALCTL = """#!/usr/bin/env python3
import json, sys
rows = open({path!r}).read().splitlines()
after = next((word.partition("=")[2] for word in sys.argv if word.startswith("--after-cursor=")), None)
names = [json.loads(row)["__CURSOR"] for row in rows]
if after is not None and after not in names:
    sys.exit("Failed to seek to cursor: No such file")
begin = names.index(after) + 1 if after is not None else 0
open({calls!r}, "a").write("%d\\n" % len(rows[begin:]))
print("\\n".join(rows[begin:]))
"""


@pytest.fixture
def node(on_path, tmp_path):
    """(root, write): a node whose journal has these lines."""
    root = tmp_path / "root"
    (root / "var/lib/gpuwright").mkdir(parents=True)
    (root / "proc/sys/kernel/random").mkdir(parents=True)
    boot = root / "proc/sys/kernel/random/boot_id"
    boot.write_text("b1\n")
    data, calls = tmp_path / "journal", tmp_path / "calls"
    script = tmp_path / "fake_bin" / "journalctl"
    on_path("journalctl", "")
    script.write_text(JOURNALCTL.format(path=str(data), calls=str(calls)))

    def write(text: str) -> None:
        rows = as_records(text).splitlines()
        rows = [json.dumps({**json.loads(row), "__CURSOR": f"s=1;i={number}"}) for number, row in enumerate(rows)]
        data.write_text("\n".join(rows) + "\n")
        calls.write_text("")

    def read() -> dict:
        found = read_kernel_log(str(root))
        assert found is not None
        return {name: found[name] for name in ("lines", "from_boot", "whole", "xids", "sxids", "findings")}

    return write, read, lambda: [int(line) for line in calls.read_text().split()], root


pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root keeps how far it has read")


def fed(events: KernelEvents, rows: list[str]) -> KernelEvents:
    for row in rows:
        line = journal_record(row)
        assert line is not None
        if line.speaker:
            events.feed((line.clock or 0) // 1000000, line.text, line.speaker)
    return events


def test_a_log_in_two_readings_is_a_log_in_one():
    for _check, _status, text in RECORDS:
        rows = as_records(journal(text)).splitlines()
        whole = fed(KernelEvents(), rows).result()
        for cut in {1, len(rows) // 2, len(rows) - 1}:
            kept = json.loads(json.dumps(fed(KernelEvents(), rows[:cut]).state()))
            assert fed(KernelEvents.of_state(kept), rows[cut:]).result() == whole, text


def test_only_what_is_new_is_read(node):
    write, read, calls, _root = node
    write(journal("NVRM: Xid (PCI:0000:3b:00): 48, pid=1, name=python"))
    first = read()
    assert len(first["xids"]) == 1 and calls()[0] > 1
    assert read() == first and calls()[1:] == [0]
    write(journal("NVRM: Xid (PCI:0000:3b:00): 48, pid=1, name=python\nNVRM: Xid (PCI:0000:3b:00): 48, pid=2, name=x"))
    assert read()["xids"][0]["count"] == 2 and calls() == [1]


@pytest.mark.parametrize("damage", ["", "{}", "null", '{"schema": 1}', '{"schema": 2}', "[" * 5000])
def test_what_is_damaged_does_not_count(node, damage):
    write, read, calls, root = node
    write(journal("NVRM: Xid (PCI:0000:3b:00): 48, pid=1, name=python"))
    first = read()
    (root / PATH.lstrip("/")).write_text(damage)
    assert read() == first and calls()[1] == calls()[0]


def test_every_damaged_member_is_read_again_and_raises_nothing(node):
    write, read, _calls, root = node
    write(journal("NVRM: Xid (PCI:0000:3b:00): 48, pid=1, name=python"))
    first, path = read(), root / PATH.lstrip("/")
    kept = json.loads(path.read_text())
    for name in kept:
        for value in (None, {"tables": 3}):
            path.write_text(json.dumps({**kept, name: value}))
            assert read() == first, (name, value)


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "proc/sys/kernel/random/boot_id").write_text("b2\n"),
        lambda root: (root / PATH.lstrip("/")).chmod(0o666),
        lambda root: (root / PATH.lstrip("/")).unlink(),
    ],
)
def test_another_boot_and_what_others_may_write_do_not_count(node, change):
    write, read, calls, root = node
    write(journal("NVRM: Xid (PCI:0000:3b:00): 48, pid=1, name=python"))
    first = read()
    change(root)
    assert read() == first and calls()[1] == calls()[0]


def test_a_journal_that_was_replaced_is_read_from_its_beginning(node):
    write, read, _calls, _root = node
    write(journal("NVRM: Xid (PCI:0000:3b:00): 48, pid=1, name=python\nanother"))
    read()
    write(KERNEL_LOG.rpartition("[")[0])
    assert read()["xids"] == []


def test_a_long_log_is_read_in_parts_with_nothing_lost(node, monkeypatch):
    write, read, calls, _root = node
    said = "\n".join(f"NVRM: Xid (PCI:0000:3b:00): 13, pid={number}, name=python" for number in range(200))
    write(journal(said))
    monkeypatch.setattr(kernel_log, "CHUNK_BYTES", 20_000)
    found = read()
    assert found["whole"] and found["xids"][0]["count"] == 200 and len(calls()) > 3
