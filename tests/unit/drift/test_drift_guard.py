"""Why looking for drift does not begin, and what is said when its record cannot be written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.callback import drift as callback
from ansible_collections.gpuwright.node.plugins.lookup.drift import problems
from ansible_collections.gpuwright.node.plugins.plugin_utils.drift import found, page, table
from ansible_collections.gpuwright.node.plugins.plugin_utils.drift.differences import Difference

GOOD = {"check": True, "diff": True}


@pytest.mark.parametrize(
    ("arguments", "collecting", "ids"),
    [
        (GOOD, True, []),
        ({"check": False, "diff": False}, True, ["[drift.check]"]),
        ({**GOOD, "start_at_task": "x"}, True, ["[drift.start_at]"]),
        (GOOD, False, ["[drift.callback]"]),
        ({}, False, ["[drift.check]", "[drift.callback]"]),
        # Lists contact no host.
        ({"listtasks": True}, False, []),
        ({"syntax": True}, False, []),
    ],
)
def test_each_reason_is_named(arguments: dict[str, Any], collecting: bool, ids: list[str]) -> None:
    assert [text.rpartition(" ")[2] for text in problems(arguments, collecting)] == ids


def test_a_record_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "drift").write_text("a file")
    said: list[str] = []
    made = callback.CallbackModule()
    monkeypatch.setattr(made, "_folder", lambda: tmp_path / "drift")
    monkeypatch.setattr(made._display, "warning", said.append)
    made._write(found.record({}, "2026-01-05T10:15:00Z", {"tags": [], "skip_tags": []}), {})
    (text,) = said
    assert text.startswith(f"{tmp_path}/drift: ") and text.endswith("-e verify_report_dir=FOLDER [drift.record]")


def test_a_check_that_fails_is_a_difference_and_a_warning_is_none() -> None:
    checks = [
        {"id": "a.b", "status": "FAIL", "layer": "system", "value": 1, "expected": 2, "message": "m"},
        {"id": "a.c", "status": "FAIL", "layer": "system", "message": "follows", "caused_by": "a.b"},
        {"id": "a.d", "status": "UNKNOWN", "layer": "model", "message": "cannot be read"},
        {"id": "a.e", "status": "WARN", "message": "old"},
        {"id": "a.f", "status": "PASS", "message": ""},
    ]
    rows, unknown, remarks = found.of_checks(checks)
    assert [(row.what, row.now, row.planned) for row in rows] == [("a.b", "1", "2")]
    assert [row.why for row in unknown] == ["cannot be read"] and remarks == ["a.e: old"]


def test_the_worst_host_comes_first_and_decides() -> None:
    row = Difference("system", "r", "t", "/a", "mode", "1", "2")
    hosts = {
        "a10": found.judged(found.Found(judged=True), verifies=False),
        "a9": found.judged(found.Found(judged=True), verifies=False),
        "b": found.judged(found.Found(ended="it cannot be reached"), verifies=False),
        "c": found.judged(found.Found(judged=True, differences=[row, row]), verifies=False),
        "d": found.judged(found.Found(), verifies=False),
    }
    assert found.worst_first(hosts) == ["c", "b", "d", "a9", "a10"] and found.overall(hosts) == "drift"
    assert found.overall({}) == "unknown"
    lines = table.lines(hosts, "drift", 80)
    assert lines[1:3] == ["c  DRIFT  1 difference (system 1)", "  system  /a: mode 1 -> 2"]
    assert any("the run ended before this host was looked at" in line for line in lines)


def test_what_a_host_says_cannot_become_markup() -> None:
    row = Difference("system", "r", "t", "/<b>", "content", "", "+1 -0 lines", ("+<script>",))
    hosts = {"<i>": found.judged(found.Found(judged=True, differences=[row]), verifies=False)}
    text = page.html(found.record(hosts, "2026-01-05T10:15:00Z", {"tags": [], "skip_tags": []}), hosts)
    assert "<script>" not in text and "<i>" not in text and "&lt;script&gt;" in text
