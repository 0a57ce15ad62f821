"""Whole records of kernel logs, each judged by its check.

What is fatal fails, what is corrected does not, and what only looks like a fault is none.
"""

from __future__ import annotations

import healthy_node
import pytest
from gpuwright.checks.all import run_checks
from gpuwright.readings.kernel_log.log import parse_log
from gpuwright.readings.kernel_log.rows import CLASSES, HARMLESS
from gpuwright.readings.kernel_log.table import ROWS, about
from gpuwright.verdict.check import FAIL, PASS, REMEDIES, WARN
from healthy_kernel import KERNEL_LOG
from kernel_records import RECORDS

GPUS = ("0000:3b:00.0",)


def judged(log: str, **readings: object) -> dict[str, dict]:
    """The records of the kernel.* checks on the otherwise healthy node, after this log."""
    node = {**healthy_node.readings(), "kernel_log": {**parse_log(log), "source": "test"}, **readings}
    checks = run_checks(node, healthy_node.expectations(), level="quick")
    return {record["id"]: record for record in checks if record["id"].startswith("kernel.")}


def journal(text: str) -> str:
    """Each line of `text` as journald prints it, from 100 s on; an indented one belongs to the line before it."""
    lines = []
    for number, line in enumerate(text.strip("\n").split("\n")):
        if line.startswith("  "):
            lines.append(f"{' ' * 30}{line.strip()}")
        else:
            speaker = "" if line.startswith("systemd-journald[") else "kernel: "
            lines.append(f"[{100 + number // 8:5d}.{number:06d}] a5-01 {speaker}{line}")
    return KERNEL_LOG + "\n".join(lines) + "\n"


def expected_of(check: str, status: str) -> dict[str, str]:
    return dict(zip(check.split(), status.split(), strict=True))


@pytest.mark.parametrize(("check", "status", "text"), RECORDS, ids=range(len(RECORDS)))
def test_a_record_ends_in_its_check(check, status, text):
    found = judged(journal(text))
    wanted = {name: PASS for name in found}
    wanted.update(expected_of(check, status) if check else {})
    assert {name: record["status"] for name, record in found.items()} == wanted, [
        record["message"] for record in found.values() if record["status"] != wanted[record["id"]]
    ]
    for record in found.values():
        if record["status"] == FAIL:
            assert record["remedy"] in REMEDIES and record["action"], record
            assert "event kernel." in record["message"], record


def test_the_table_is_large_enough_and_agrees(capsys):
    agreed = 0
    for check, status, text in RECORDS:
        found = judged(journal(text))
        wanted = expected_of(check, status) if check else {}
        agreed += all(record["status"] == wanted.get(name, PASS) for name, record in found.items())
    with capsys.disabled():
        print(f"\nrecords: {len(RECORDS)}, agreed: {agreed}")
    assert len({text for _check, _status, text in RECORDS}) == len(RECORDS) >= 150 and agreed == len(RECORDS)


def test_every_row_is_shown_by_a_record():
    seen = {finding["kind"] for _check, _status, text in RECORDS for finding in parse_log(journal(text))["findings"]}
    assert seen == {row.name for row in ROWS if row.kind != HARMLESS} | {"hardware_undecided", "hardware_before"}


def test_rows_are_complete():
    for row in ROWS:
        assert row.kind in CLASSES and row.source and row.remedy in ("", *REMEDIES)
        assert bool(row.check) == (row.kind != HARMLESS)
        assert row.kind != "uncorrected" or row.remedy, row
        # All rows of one name are judged alike, so that a finding's name is enough to judge it.
        found = about(row.name)
        assert found is not None and found[:2] == (row.check, row.kind)


def test_kinds_of_one_record_are_warned_of_or_worse():
    assert {status for _check, statuses, _text in RECORDS for status in statuses.split()} == {FAIL, WARN}
