"""gpuwright-verdict says of a record what gpu-doctor's own gate says, without Python and in some milliseconds."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY
from gpuwright.verdict import boot_check
from gpuwright.verdict.report import write_json

PROGRAM = REPOSITORY / "deploy/gate/gpuwright-verdict"
# Records of parameters are made when the tests are collected, and some are read half an hour later.
HOLDS_S = 86400.0


def check(name: str, status: str, action: Any = "", **more: Any) -> dict[str, Any]:
    return {"id": name, "status": status, "message": "seen", "action": action, **more}


def record(verdict: str, *checks: dict[str, Any]) -> dict[str, Any]:
    """A record of this boot, made by gpu-doctor's own function."""
    good = [check(f"good.{number}", "PASS", measured={"a": [1, {"b": None}]}) for number in range(140)]
    report = {"host": "n1", "time": "2026-01-05T10:40:00Z", "verdict": verdict, "expectations": {}}
    return boot_check.make_record({**report, "checks": [*good, *checks]}, "quick", HOLDS_S)


@pytest.fixture
def ask(tmp_path: Path):
    def asked(content: Any, *options: str) -> tuple[int, str]:
        file = tmp_path / "boot-check.json"
        if isinstance(content, dict):
            write_json(str(file), content)
        elif content is not None:
            file.write_text(content)
        done = subprocess.run(
            [str(PROGRAM), "--record", str(file), *options], capture_output=True, text=True, timeout=20, env={}
        )
        assert done.stderr == ""
        return done.returncode, done.stdout.removesuffix("\n")

    return asked


def test_it_reads_what_a_recorded_check_writes(ask, tmp_path: Path) -> None:
    """The file itself, by gpu-doctor's own writer: its form is a contract."""
    for path in (boot_check.BOOT_ID_PATH, boot_check.UPTIME_PATH):
        copy = tmp_path / path.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(Path(path).read_text())
    (tmp_path / boot_check.RECORD_PATH.lstrip("/")).parent.mkdir(parents=True)
    checks = [check("kernel.xid", "FAIL", "Run: reboot")]
    for verdict, expected in (("PASS", (0, "PASS")), ("FAIL", (1, "FAIL kernel.xid: Run: reboot"))):
        report = {"host": "n1", "time": "2026-01-05T10:40:00Z", "verdict": verdict, "expectations": {}}
        found = checks if verdict == "FAIL" else []
        boot_check.keep_record({**report, "checks": found}, "quick", HOLDS_S, str(tmp_path))
        assert ask((tmp_path / boot_check.RECORD_PATH.lstrip("/")).read_text()) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (record("PASS"), (0, "PASS")),
        (record("WARN", check("disk.space", "WARN", "Run: df")), (0, "WARN")),
        (record("FAIL", check("kernel.xid", "FAIL", "Run: reboot")), (1, "FAIL kernel.xid: Run: reboot")),
        (record("UNKNOWN", check("gpu.ecc", "UNKNOWN", "Look.")), (3, "UNKNOWN gpu.ecc: Look.")),
        # The finding that explains the others comes first in the record, whatever their order in the report.
        (
            record("FAIL", check("a.first", "FAIL", "No.", caused_by="b"), check("b.cause", "FAIL", "Yes.")),
            (1, "FAIL b.cause: Yes."),
        ),
        (record("FAIL", check("a.unknown", "UNKNOWN"), check("b.fail", "FAIL", "Do.")), (1, "FAIL b.fail: Do.")),
        (record("FAIL", check("gpu.count", "FAIL", None)), (1, "FAIL gpu.count: seen")),
        (record("FAIL", check("gpu.count", "FAIL", "")), (1, "FAIL gpu.count: seen")),
        (record("FAIL"), (1, "FAIL verdict: run gpu-doctor")),
    ],
    ids=["pass", "warn", "fail", "unknown", "cause", "fail before unknown", "null", "empty", "no finding"],
)
def test_it_says_the_verdict(ask, content, expected) -> None:
    assert ask(content) == expected


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ('Run: echo "a"', "Run: echo 'a'"),
        ("a\\b\\n c\\u0041", "a\\b\\n c\\u0041"),
        ("two\nlines\tand \x1b[31m", "two lines and ?[31m"),
        ("é \N{MATHEMATICAL BOLD CAPITAL A}", "? ??"),
        ("a, b: c}, ] $(id) `id` %s", "a, b: c}, ] $(id) `id` %s"),
    ],
)
def test_an_action_stays_one_line_of_ascii(ask, action: str, said: str) -> None:
    assert ask(record("FAIL", check("kernel.xid", "FAIL", action))) == (1, f"FAIL kernel.xid: {said}")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "there is no"),
        ("", "damaged"),
        ("[]\n", "damaged"),
        ("{}\n", "damaged"),
        ({**record("PASS"), "boot_id": "0" * 36}, "earlier boot"),
        ({**record("PASS"), "uptime_s": 1e12}, "from the future"),
        ({**record("PASS"), "uptime_s": 0.0, "holds_s": 0.5}, "older than the 0.5 s"),
        ({**record("PASS"), "uptime_s": -1.0}, "damaged"),
        ({**record("PASS"), "uptime_s": True}, "damaged"),
        ({**record("PASS"), "holds_s": "900"}, "damaged"),
        ({**record("PASS"), "holds_s": None}, "damaged"),
        ({**record("PASS"), "schema": 2}, "schema 2"),
        ({**record("PASS"), "schema": "1"}, "schema"),
        ({**record("PASS"), "verdict": "GOOD"}, "no verdict"),
        ({**record("PASS"), "verdict": None}, "no verdict"),
        # Compact JSON is not what gpu-doctor writes.
        (json.dumps(record("PASS")), "damaged"),
        (json.dumps(record("PASS"), indent=4), "damaged"),
    ],
)
def test_what_says_nothing_about_this_moment_is_unknown(ask, content, why: str) -> None:
    status, said = ask(content)
    assert (status, said.partition(" ")[0]) == (3, "UNKNOWN") and why in said


def test_every_record_that_was_cut_off_is_unknown(ask) -> None:
    lines = json.dumps(record("PASS"), indent=2, sort_keys=True).splitlines(keepends=True)
    for kept in (*range(0, len(lines), 40), *range(len(lines) - 6, len(lines))):
        assert ask("".join(lines[:kept]))[0] == 3, kept


def test_a_checks_own_fields_are_not_taken_for_those_of_the_record(ask) -> None:
    liar = check("liar.one", "PASS", "", verdict="FAIL", measured={"verdict": "FAIL", "boot_id": "0"})
    text = check("liar.two", "PASS", '",\n  "verdict": "FAIL",\n}')
    assert ask(record("PASS", liar, text)) == (0, "PASS")


def test_a_shorter_limit_of_the_site_counts(ask) -> None:
    old = record("PASS")
    old["uptime_s"] -= 100
    assert ask(old) == (0, "PASS") and ask(old, "--max-age", "3600") == (0, "PASS")
    assert ask(old, "--max-age", "60") == (3, "UNKNOWN the last check is older than 60 s")


@pytest.mark.parametrize("options", [["--max-age", "soon"], ["--max-age"], ["--other", "1"], ["--max-age", "-1"]])
def test_a_wrong_option_is_refused(options: list[str]) -> None:
    done = subprocess.run([str(PROGRAM), *options], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and "Usage:" in done.stderr and done.stdout == ""


def test_a_pipe_in_the_place_of_the_record_does_not_hold_a_job(tmp_path: Path) -> None:
    pipe = tmp_path / "record"
    subprocess.run(["mkfifo", str(pipe)], check=True)
    done = subprocess.run([str(PROGRAM), "--record", str(pipe)], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout) == (3, f"UNKNOWN {pipe} cannot be read\n")


@pytest.mark.parametrize("verdict", ["PASS", "WARN", "FAIL", "UNKNOWN"])
@pytest.mark.parametrize(
    "change", [{}, {"boot_id": "other"}, {"uptime_s": 1e12}, {"uptime_s": 0.0, "holds_s": 1.0}, {"schema": 3}]
)
def test_it_is_open_exactly_when_the_gate_is(ask, tmp_path: Path, verdict: str, change: dict) -> None:
    # Before the uptime is copied: to the gate, it would be from the future.
    content = {**record(verdict), **change}
    for path in (boot_check.BOOT_ID_PATH, boot_check.UPTIME_PATH):
        target = tmp_path / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    for path in (boot_check.RECORD_PATH, boot_check.UNIT_PATH):
        (tmp_path / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / boot_check.UNIT_PATH.lstrip("/")).touch()
    write_json(str(tmp_path / boot_check.RECORD_PATH.lstrip("/")), content)
    # The uptime of the copy is a little older than that of the program, never by the second that would matter.
    opened = boot_check.gate(str(tmp_path))[0]
    assert (ask(content)[0] == 0) is opened


VALUES: tuple[Any, ...] = (None, True, False, -1, 0, 1, 1.0, 1e400, "", "1", "PASS", [], {}, [{}], {"a": {}})


def damaged_records() -> list[str]:
    """Texts of a record that was good: a byte, a line or a value is gone, twice there, or another one."""
    good = record("PASS", check("disk.space", "WARN", "Run: df"))
    text = json.dumps(good, indent=2, sort_keys=True) + "\n"
    lines = text.splitlines(keepends=True)
    draw = random.Random(17)
    found = []
    for _ in range(60):
        at, where = draw.randrange(len(text)), draw.randrange(len(lines))
        found.append(text[:at] + text[at + 1 :])
        found.append(text[:at] + draw.choice('{}[]",:\\\0\xffx0-.') + text[at + 1 :])
        found.append("".join(lines[:where] + lines[where + 1 :]))
        found.append("".join(lines[: where + 1] + lines[where:]))
    for name in good:
        for value in VALUES:
            found.append(json.dumps({**good, name: value}, indent=2, sort_keys=True) + "\n")
        found.append(json.dumps({key: good[key] for key in good if key != name}, indent=2, sort_keys=True) + "\n")
    # What a person may write, and what a disk may leave.
    found += [text + extra for extra in ("x", "}", "{}\n", "\n", "\0\0", text)]
    found += [text.replace('"PASS"', word, 1) for word in ("'PASS'", "PASS", '"PASS" ', '"PA\\ss"', '"PA\\u12"')]
    found += [
        text.replace(",\n", "\n", 1),
        text.replace(",\n", ",,\n", 1),
        text.replace('": ', '" ', 1),
        "\ufeff" + text,
    ]
    return found


def test_no_damaged_record_is_open_here_and_closed_there(ask, tmp_path: Path) -> None:
    """The gate is open without the program only for a record in a form that gpu-doctor does not write."""
    node = tmp_path / "node"
    for path in (boot_check.BOOT_ID_PATH, boot_check.UPTIME_PATH):
        (node / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, node / path[1:])
    for path in (boot_check.RECORD_PATH, boot_check.UNIT_PATH):
        (node / path[1:]).parent.mkdir(parents=True, exist_ok=True)
    (node / boot_check.UNIT_PATH[1:]).touch()
    records = damaged_records()
    for text in records:
        # The record is as old for both.
        shutil.copyfile(boot_check.UPTIME_PATH, node / boot_check.UPTIME_PATH[1:])
        (node / boot_check.RECORD_PATH[1:]).write_text(text)
        opened, said = boot_check.gate(str(node))[0], ask(text)
        assert not (said[0] == 0 and not opened), (said, text[:2000])
        if opened and said[0]:
            assert json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n" != text, (said, text[:2000])
    assert len(records) > 380


def test_it_takes_less_than_50_milliseconds(ask) -> None:
    """The best of ten, since other tests share the processor."""
    took = []
    ask(record("PASS"))
    for _ in range(10):
        start = time.perf_counter()
        assert ask(None)[0] == 0
        took.append(time.perf_counter() - start)
    assert min(took) < 0.05, took
