"""A site's own checks: what they say counts as any check does, and what they do wrong is one UNKNOWN row."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import healthy_node
import pytest
from gpuwright.checks import collect
from gpuwright.checks.all import CHECKS, run_checks
from gpuwright.checks.site import reading, rows
from gpuwright.doctor.metrics import metrics, nagios_line
from gpuwright.verdict.check import judge
from gpuwright.verdict.report import make_report
from host_tree import HostTree

IDS = {check.id for check in CHECKS}
GOOD = '{"status": "PASS", "message": "/scratch is mounted"}'
BAD = '{"status": "FAIL", "message": "/scratch is gone", "action": "Run: mount /scratch", "value": 0, "expected": 1}'
NOW = "2026-01-05T10:00:00Z"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root's programs are run by root alone")


@pytest.fixture
def host(tmp_path: Path) -> HostTree:
    tree = HostTree(tmp_path)
    (tmp_path / "etc/gpuwright/checks.d").mkdir(parents=True)
    for folder in (tmp_path / "etc", tmp_path / "etc/gpuwright", tmp_path / "etc/gpuwright/checks.d"):
        folder.chmod(0o755)
    return tree


def put(host: HostTree, name: str | bytes, script: str, mode: int = 0o755) -> Path:
    folder = host.folder / "etc/gpuwright/checks.d"
    path = folder / os.fsdecode(name)
    path.write_text(script if script.startswith("#!") else f"#!/bin/sh\n{script}\n")
    path.chmod(mode)
    return path


def asked(host: HostTree) -> list[dict]:
    """The rows of the site as a report has them."""
    readings = {**healthy_node.readings(), rows.READING: reading.read_site_checks(host.root, IDS)}
    records = run_checks(readings, healthy_node.expectations(), healthy_node.smoke())
    return [record for record in records if record["id"].startswith("site.")]


def one(host: HostTree) -> dict:
    [record] = asked(host)
    return record


def test_without_the_folder_there_are_no_rows(tmp_path):
    assert reading.read_site_checks(str(tmp_path), IDS) is None
    assert rows.site_rows(healthy_node.readings()) == []


def test_what_a_program_says_is_its_row(host):
    put(host, "scratch", f"echo '{GOOD}'")
    put(host, "10-Scratch.sh", f"echo '{BAD}'")
    put(host, "warm", """echo '{"status": "WARN", "message": "warm", "id": "site.warm"}'""")
    put(host, "skip", """echo '{"status": "SKIP", "message": "no such disk here"}'""")
    put(host, "known", """echo '{"status": "UNKNOWN", "message": "the switch is silent"}'""")
    found = {row["id"]: row for row in asked(host)}
    assert {name: (row["status"], row["message"]) for name, row in found.items()} == {
        "site.10_scratch.sh": ("FAIL", "/scratch is gone"),
        "site.known": ("UNKNOWN", "the switch is silent"),
        "site.scratch": ("PASS", "/scratch is mounted"),
        "site.skip": ("SKIP", "no such disk here"),
        "site.warm": ("WARN", "warm"),
    }
    bad = found["site.10_scratch.sh"]
    assert (bad["action"], bad["remedy"], bad["value"], bad["expected"]) == ("Run: sudo mount /scratch", "drain", 0, 1)
    assert found["site.warm"]["action"].startswith("Run: sudo /etc/gpuwright/checks.d/warm #")


# name: what the program does, the code of its row, a part of its sentence
WRONG = {
    "silence": ("true", "no-answer", "printed nothing"),
    "blank": ("echo; echo ' '", "no-answer", "printed nothing"),
    "crash": (f"echo '{GOOD}'; echo no licence >&2; exit 3", "crashed", "exit status 3: no licence"),
    "killed": ("kill -SEGV $$", "crashed", "signal 11"),
    "huge": ("yes x", "too-long", "more than 16384 bytes"),
    "huge errors": ("yes x >&2", "too-long", "more than 16384 bytes"),
    "no text": (r"printf '{\"status\": \"PASS\", \"message\": \"\377\376\"}'", "no-text", "no text in UTF-8"),
    "null": (r"printf '\0\0\0'", "no-text", "no text in UTF-8"),
    "prose": ("echo all is well", "no-form", "not JSON"),
    "two lines": (f"echo '{GOOD}'; echo '{GOOD}'", "no-form", "more than one line"),
    "list": ("echo '[]'", "no-form", "record"),
    "no message": ("""echo '{"status": "PASS"}'""", "no-form", "message"),
    "empty message": ("""echo '{"status": "PASS", "message": " "}'""", "no-form", "empty message"),
    "status": ("""echo '{"status": "GOOD", "message": "x"}'""", "no-form", "status"),
    "small letters": ("""echo '{"status": "pass", "message": "x"}'""", "no-form", "status"),
    "remedy": ("""echo '{"status": "FAIL", "message": "x", "remedy": "sell"}'""", "no-form", "remedy"),
    "deep": ("""python3 -c 'print("["*9000)'""", "no-form", "its line"),
    "strange key": ("""echo '{"status": "PASS", "message": "x", "verdict": 1}'""", "no-form", "verdict"),
    "id of ours": ("""echo '{"status": "PASS", "message": "x", "id": "gpu.count"}'""", "other-id", "gpu.count"),
    "other id": ("""echo '{"status": "PASS", "message": "x", "id": "site.else"}'""", "other-id", "site.else"),
    "child": (f"sleep 60 & echo '{GOOD}'", "left-behind", "sleep"),
    "daemon": (f"setsid -f sleep 60 >/dev/null 2>&1 </dev/null; echo '{GOOD}'", "left-behind", "sleep"),
    "no interpreter": ("#!/nowhere/sh\n", "not-started", "cannot be run"),
    "no program": ("#!\n\x7fELF", "not-started", "cannot be run"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_program_does_wrong_is_one_unknown_row(host, name):
    script, code, words = WRONG[name]
    put(host, "own", script)
    put(host, "well", f"echo '{GOOD}'")
    begin = time.monotonic()
    row, well = asked(host)
    assert (row["id"], row["status"], row["code"]) == ("site.own", "UNKNOWN", code), row
    assert words in row["message"] and row["action"]
    assert well["status"] == "PASS"
    assert time.monotonic() - begin < 9


def test_nothing_of_a_program_is_left(host, tmp_path):
    put(host, "own", f"(setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 61' &) ; sleep 0.2; echo '{GOOD}'")
    assert one(host)["code"] == "left-behind"
    pid = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()


def test_a_program_has_a_limit_of_time_and_so_have_all(host, monkeypatch, tmp_path):
    monkeypatch.setattr(reading, "SECONDS", 1.5)
    monkeypatch.setattr(reading, "ALL_SECONDS", 2.9)
    for name in "abc":
        put(host, name, f"touch {tmp_path}/{name}; setsid -f sleep 62 >/dev/null 2>&1; sleep 63")
    begin = time.monotonic()
    assert [row["code"] for row in asked(host)] == ["late", "late", "no-time-left"]
    assert time.monotonic() - begin < 20 and not (tmp_path / "c").exists()
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"sleep\x0062\0" in _bytes(path)]
    assert not left


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_no_more_than_so_many_are_run(host, monkeypatch):
    monkeypatch.setattr(reading, "MOST_PROGRAMS", 2)
    for name in "abc":
        put(host, name, f"echo '{GOOD}'")
    assert [(row["status"], row["code"]) for row in asked(host)] == [
        ("PASS", "ok"),
        ("PASS", "ok"),
        ("UNKNOWN", "too-many"),
    ]


def test_only_programs_that_root_alone_can_change_are_run(host, tmp_path):
    ran = f"touch {tmp_path}/ran; echo '{GOOD}'"
    put(host, "group", ran, 0o775)
    put(host, "others", ran, 0o757)
    put(host, "plain", ran, 0o644)
    os.chown(put(host, "users", ran), 65534, 0)
    put(host, "gpu.count", ran)
    target = tmp_path / "elsewhere"
    target.write_text(f"#!/bin/sh\n{ran}\n")
    target.chmod(0o755)
    folder = host.folder / "etc/gpuwright/checks.d"
    (folder / "link").symlink_to(target)
    (folder / "lost").symlink_to(tmp_path / "nothing")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    assert {row["id"]: (row["status"], row["code"]) for row in asked(host)} == {
        "site.folder": ("UNKNOWN", "no-file"),
        "site.gpu.count": ("UNKNOWN", "id-of-ours"),
        "site.group": ("UNKNOWN", "not-roots"),
        "site.link": ("UNKNOWN", "link"),
        "site.lost": ("UNKNOWN", "link"),
        "site.others": ("UNKNOWN", "not-roots"),
        "site.pipe": ("UNKNOWN", "no-file"),
        "site.plain": ("UNKNOWN", "not-executable"),
        "site.users": ("UNKNOWN", "not-roots"),
    }
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("what", ["others", "group", "owner", "above", "link", "file"])
def test_nothing_of_a_folder_that_others_can_change_is_run(host, tmp_path, what):
    put(host, "own", f"touch {tmp_path}/ran; echo '{GOOD}'")
    folder = host.folder / "etc/gpuwright/checks.d"
    if what == "owner":
        os.chown(folder, 65534, 0)
    elif what == "group":
        os.chown(folder, 0, 65534)
        folder.chmod(0o775)
    elif what in ("link", "file"):
        folder.rename(tmp_path / "other")
        folder.symlink_to(tmp_path / "other") if what == "link" else folder.write_text("")
    else:
        (folder.parent if what == "above" else folder).chmod(0o777)
    row = one(host)
    assert (row["id"], row["status"], row["code"]) == ("site.folder", "UNKNOWN", "not-roots")
    assert not (tmp_path / "ran").exists()


def test_each_file_has_an_id_of_its_own(host):
    for name in ("a b", "a_b", "A-B", "..hidden", ".swp", "ümlaut", b"\xff\xfe", "x" * 90, "two..dots."):
        put(host, name, f"echo '{GOOD}'")
    found = asked(host)
    names = [row["id"] for row in found]
    assert len(set(names)) == len(names) == 7 and {"site.a_b", "site.a_b_2", "site.a_b_3", "site.two.dots"} <= set(
        names
    )
    assert all(row["status"] == "PASS" for row in found)
    report = make_report("a5-01", NOW, found, {}, healthy_node.expectations(), None)
    json.dumps(report).encode("ascii")


def test_texts_are_fit_for_a_terminal_and_hold_no_secrets(host):
    line = json.dumps({"status": "FAIL", "message": "\x1b[2J\u202e token=abcdef123456 " + "x" * 999})
    put(host, "own", f"cat <<'END'\n{line}\nEND")
    message = one(host)["message"]
    assert "\x1b" not in message and "\u202e" not in message and "abcdef123456" not in message and len(message) < 320


def test_a_row_counts_in_verdict_gate_metrics_and_a_monitors_line(host):
    put(host, "scratch", f"echo '{BAD}'")
    readings = {**healthy_node.readings(), rows.READING: reading.read_site_checks(host.root, IDS)}
    records = run_checks(readings, healthy_node.expectations(), healthy_node.smoke())
    report = make_report("a5-01", NOW, records, readings, healthy_node.expectations(), None)
    assert report["verdict"] == "FAIL"
    assert 'gpuwright_check{id="site.scratch",layer="system"} 2' in metrics(report, "standard", 1.0)
    assert nagios_line(records, "FAIL").startswith("GPU CRITICAL: site.scratch: /scratch is gone")


def test_programs_inherit_no_variable_that_names_code(host, monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "/tmp/theirs.so")
    monkeypatch.setenv("PYTHONPATH", "/tmp/theirs")
    put(host, "own", """echo "{\\"status\\": \\"PASS\\", \\"message\\": \\"[$LD_PRELOAD$PYTHONPATH] in $(pwd)\\"}" """)
    assert one(host)["message"] == "[] in /"


def test_a_damaged_reading_is_no_pass():
    answers: list[Any] = [None, {}, [], {"status": "PASS"}, {"status": "GOOD", "message": "x"}, {"unreadable": "x"}]
    for answer in answers:
        readings = {**healthy_node.readings(), rows.READING: [{"id": "site.own", "path": "/p", "answer": answer}]}
        [check] = rows.site_rows(readings)
        assert judge(check, readings, healthy_node.expectations())["status"] == "UNKNOWN", answer


def test_only_a_quick_answer_is_given_without_them(monkeypatch):
    """Level quick promises seconds, and a program of the site may take longer."""
    called = []

    def read(*_arguments: Any) -> list[Any]:
        called.append(1)
        return []

    monkeypatch.setattr(collect, "read_site_checks", read)
    monkeypatch.setattr(collect, "READERS", ())
    for site in (False, True):
        found = collect.collect(healthy_node.expectations(), "/nowhere", 1, "quick", site=site)
        assert (rows.READING in found) is site
    assert called == [1]


def test_a_folder_that_cannot_be_read_is_a_row():
    """Otherwise all that a site checks would be gone from the verdict."""
    readings = {**healthy_node.readings(), rows.READING: {"unreadable": "Input/output error"}}
    [check] = rows.site_rows(readings)
    found = judge(check, readings, healthy_node.expectations())
    assert (found["id"], found["status"]) == ("site.folder", "UNKNOWN") and "Input/output error" in found["message"]
    assert found["action"].startswith("Run: ls -la /etc/gpuwright/checks.d")


@pytest.mark.parametrize("message", ["[nfs] is not mounted on [/data]", "n/a", "unknown"])
def test_any_words_are_a_message(host, message):
    put(host, "own", f"""echo '{{"status": "FAIL", "message": "{message}"}}'""")
    assert (one(host)["status"], one(host)["message"]) == ("FAIL", message)


def test_nobody_is_told_to_run_what_root_does_not_run(host):
    put(host, "own", f"echo '{GOOD}'")
    (host.folder / "etc/gpuwright/checks.d/own").chmod(0o777)
    assert one(host)["status"] == "UNKNOWN" and "checks.d/own" not in one(host)["action"]
