"""The gate before a training: open for a good, fresh record of this boot, or where nobody monitors; else closed."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import healthy_node
import pytest
from gpuwright.checks.all import run_checks
from gpuwright.verdict import boot_check
from gpuwright.verdict.report import make_report
from host_tree import HostTree

BOOT = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
THEN = "2026-01-05T10:00:00Z"


@pytest.fixture
def host(tmp_path: Path) -> HostTree:
    tree = HostTree(tmp_path)
    tree.put(boot_check.BOOT_ID_PATH, BOOT + "\n")
    tree.put(boot_check.UPTIME_PATH, "1000.00 3000.00\n")
    tree.put(boot_check.UNIT_PATH, "[Unit]\n")
    (tmp_path / "var/lib/gpuwright").mkdir(parents=True)
    return tree


def report(**changes: object) -> dict:
    readings = healthy_node.readings()
    readings["probe"]["nvidia"]["uvm_loaded"] = changes.pop("uvm", True)
    checks = run_checks(readings, healthy_node.expectations(), level="quick")
    return {**make_report("a5-01", THEN, checks, readings, healthy_node.expectations(), None), **changes}


def record(host: HostTree) -> dict:
    return json.loads((host.folder / boot_check.RECORD_PATH[1:]).read_text())


def put(host: HostTree, **changes: object) -> None:
    """A good record with some values changed; one changed to `...` is taken out."""
    value = {**boot_check.make_record(report(), "quick", 900, host.root), **changes}
    host.put(boot_check.RECORD_PATH, json.dumps({name: part for name, part in value.items() if part is not ...}))


@pytest.mark.parametrize("verdict", ["PASS", "WARN"])
def test_a_good_check_of_this_boot_opens(host, verdict):
    boot_check.keep_record(report(verdict=verdict), "quick", 900, host.root)
    assert boot_check.gate(host.root) == (True, f"open: verdict {verdict} of {THEN}")


def test_a_failed_check_closes_with_check_and_action(host):
    boot_check.keep_record(report(uvm=False), "quick", 900, host.root)
    is_open, sentence = boot_check.gate(host.root)
    assert not is_open
    assert sentence.startswith(f"closed: verdict FAIL of {THEN}: driver.uvm: ") and " -> " in sentence
    assert len(sentence) < 500 and "\n" not in sentence


def test_an_unknown_verdict_closes_and_failures_are_named_first(host):
    checks = [
        {"id": "a", "layer": "system", "status": "UNKNOWN", "message": "m", "action": "x"},
        {"id": "b", "layer": "system", "status": "FAIL", "message": "n\x1b[2J\no", "action": "y"},
    ]
    boot_check.keep_record(report(checks=checks, verdict="FAIL"), "quick", 900, host.root)
    assert boot_check.gate(host.root)[1].endswith("b: n [2J o -> y")
    boot_check.keep_record(report(checks=checks[:1], verdict="UNKNOWN"), "quick", 900, host.root)
    assert boot_check.gate(host.root) == (False, f"closed: verdict UNKNOWN of {THEN}: a: m -> x")


@pytest.mark.parametrize("verdict", ["SKIP", "pass", "", "unknown", "OK"])
def test_a_word_that_is_no_verdict_closes(host, verdict):
    put(host, verdict=verdict)
    assert not boot_check.gate(host.root)[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"boot_id": "00000000-0000-0000-0000-000000000000"}, "from an earlier boot"),
        ({"boot_id": None}, "from an earlier boot"),
        ({"boot_id": ...}, "from an earlier boot"),
        ({"uptime_s": 99.0}, "is 901 s old and was valid for 900 s"),
        ({"uptime_s": 1000.5}, "old and was valid"),
        ({"uptime_s": "1000"}, "expected seconds"),
        ({"uptime_s": True}, "expected seconds"),
        ({"uptime_s": float("nan")}, "expected seconds"),
        ({"uptime_s": ...}, "expected seconds"),
        ({"holds_s": float("inf")}, "expected seconds"),
        ({"holds_s": -1}, "expected seconds"),
        ({"holds_s": ...}, "expected seconds"),
        ({"schema": 2}, "schema 2"),
        ({"schema": True}, "schema True"),
        ({"schema": ...}, "schema None"),
        ({"verdict": ...}, "no verdict"),
        ({"verdict": ["PASS"]}, "no verdict"),
        ({"time": ...}, "no verdict or no time"),
    ],
)
def test_a_record_that_says_nothing_of_now_closes(host, changes, words):
    put(host, **changes)
    is_open, sentence = boot_check.gate(host.root)
    assert not is_open
    assert words in sentence and sentence.endswith("run systemctl start gpuwright-check.service")


def test_the_last_second_of_a_record_counts(host):
    put(host, uptime_s=100.0)
    assert boot_check.gate(host.root)[0]


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"{", b'"PASS"', b"\xff\xfe{}", b"{}"])
def test_a_damaged_record_closes(host, content):
    host.put(boot_check.RECORD_PATH, content)
    assert not boot_check.gate(host.root)[0]


def test_a_missing_record_closes_and_the_next_step_fits(host):
    is_open, sentence = boot_check.gate(host.root)
    assert not is_open
    assert os.strerror(errno.ENOENT) in sentence and sentence.endswith("ansible-playbook site.yml --tags verify")
    host.put("/etc/gpuwright/expectations.json", "{}")
    is_open, sentence = boot_check.gate(host.root)
    assert not is_open and sentence.endswith("run systemctl start gpuwright-check.service")


def test_something_else_in_the_records_place_closes(host):
    (host.folder / boot_check.RECORD_PATH[1:]).mkdir()
    assert not boot_check.gate(host.root)[0]


@pytest.mark.parametrize("path", [boot_check.BOOT_ID_PATH, boot_check.UPTIME_PATH])
@pytest.mark.parametrize("content", [None, "", "\n", "soon"])
def test_a_boot_that_cannot_be_told_closes(host, path, content):
    put(host)
    (host.folder / path[1:]).unlink()
    if content is not None:
        host.put(path, content)
    assert not boot_check.gate(host.root)[0]


def test_without_monitoring_there_is_no_gate(host):
    boot_check.keep_record(report(uvm=False), "quick", 900, host.root)
    (host.folder / boot_check.UNIT_PATH[1:]).unlink()
    is_open, sentence = boot_check.gate(host.root)
    assert is_open and "monitoring is not installed" in sentence


def test_a_masked_unit_is_no_absent_unit(host):
    unit = host.folder / boot_check.UNIT_PATH[1:]
    unit.unlink()
    unit.symlink_to("/nowhere")
    assert not boot_check.gate(host.root)[0]


def test_a_folder_of_units_that_cannot_be_read_closes(host):
    folder = (host.folder / boot_check.UNIT_PATH[1:]).parent
    (folder / "gpuwright-boot-check.service").unlink()
    folder.rmdir()
    folder.write_text("a file, so that looking below it is an error that is not absence")
    is_open, sentence = boot_check.gate(host.root)
    assert not is_open and "cannot be examined" in sentence


def test_what_a_record_holds(host):
    boot_check.keep_record(report(uvm=False), "quick", 900, host.root)
    found = record(host)
    assert {name: found[name] for name in ("schema", "boot_id", "uptime_s", "holds_s", "level", "verdict", "host")} == {
        "schema": 1,
        "boot_id": BOOT,
        "uptime_s": 1000.0,
        "holds_s": 900,
        "level": "quick",
        "verdict": "FAIL",
        "host": "a5-01",
    }
    assert [set(finding) for finding in found["findings"]] == [{"id", "status", "code", "message", "action"}]


def test_a_record_that_cannot_be_written_takes_the_old_one_with_it(host, monkeypatch):
    put(host)

    def full(path, text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(boot_check, "write_json", full)
    with pytest.raises(OSError, match="No space"):
        boot_check.keep_record(report(), "quick", 900, host.root)
    assert not boot_check.gate(host.root)[0]
    assert not (host.folder / boot_check.RECORD_PATH[1:]).exists()


def test_a_record_without_a_boot_is_not_written(host):
    put(host)
    (host.folder / boot_check.BOOT_ID_PATH[1:]).unlink()
    with pytest.raises(ValueError, match="boot_id"):
        boot_check.keep_record(report(), "quick", 900, host.root)
    assert not (host.folder / boot_check.RECORD_PATH[1:]).exists()
