"""playbooks/scan.yml: one file goes to the host and leaves again; the report is beside the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.action import gpu_scan
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.facts import from_plan
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.folder import pages
from conftest import REPOSITORY
from gpuwright.doctor.scan.scope import NO_PLAN, NOT_A_NODE
from test_plan_scanned import report
from test_scan import SCHEMA, pythons

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
OLDEST, NEWEST = (sorted(pythons(), key=lambda text: tuple(map(int, text.split("."))))[place] for place in (0, -1))


class Play:
    """The playbook on this machine, whose part of a remote host has a temporary folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.remote, self.reports = folder, folder / "remote", folder / "reports"

    def __call__(self, *arguments: str, interpreter: str = sys.executable) -> subprocess.CompletedProcess:
        host = {
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_remote_tmp": str(self.remote),
            "ansible_python_interpreter": interpreter,
        }
        (self.folder / "hosts.yml").write_text(yaml.safe_dump({"gpu_nodes": {"hosts": {"here": host}}}))
        command = [str(PLAYBOOK), "-i", str(self.folder / "hosts.yml"), "playbooks/scan.yml", *arguments]
        command += ["-e", f"verify_report_dir={self.reports}"]
        environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "COLUMNS": "200"}
        return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture
def play(tmp_path: Path) -> Play:
    return Play(tmp_path)


def python_that(tmp_path: Path, script: str) -> str:
    """An interpreter that is new enough, and does something else with the program."""
    file = tmp_path / "python3"
    file.write_text(f'#!/bin/sh\ncase "$*" in *version_info*) exit 0;; esac\n{script}\n')
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize("version", sorted({OLDEST, NEWEST}))
def test_a_host_is_scanned_with_its_own_python_and_nothing_is_left(play, version):
    done = play(interpreter=pythons()[version])
    said = done.stdout + done.stderr
    assert list(play.remote.iterdir()) == [], said
    found = json.loads((play.reports / "here.json").read_text())
    jsonschema.validate(found, SCHEMA)
    assert done.returncode == (0 if found["verdict"] in ("PASS", "WARN") else 2), said
    assert "changed=0" in said and f"Report: {play.reports}/here.json" in said
    assert "here" in (play.reports / "hosts/here.html").read_text()
    assert NOT_A_NODE in {check["message"] for check in found["checks"]}
    # The one before it is what the page compares with.
    play(interpreter=pythons()[version])
    assert json.loads((play.reports / "previous/here.json").read_text()) == found


def test_check_mode_scans_and_writes_nothing(play):
    done = play("--check")
    assert done.returncode == 0, done.stdout
    assert not play.reports.exists() and list(play.remote.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo boom >&2; exit 1", "ended with 1 and no report"),
        ("echo '{\"schema\": 1}'", "ended with 0 and no report"),
        ('printf \'{"schema": 1, "checks"\'; kill -9 $$', "and no report"),
    ],
    ids=["broken", "another program", "killed"],
)
def test_a_scan_that_fails_leaves_nothing_either(play, tmp_path, script, words):
    done = play(interpreter=python_that(tmp_path, script))
    assert done.returncode == 2 and words in " ".join(done.stdout.split()), done.stdout
    assert list(play.remote.iterdir()) == [] and not (play.reports / "here.json").exists()


def test_the_first_python_that_is_new_enough_is_taken(tmp_path):
    for name, script in (("old", "exit 1"), ("good", 'case "$*" in *version*) exit 0;; esac\necho "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    text = gpu_scan.command("/tmp/a b/gpu-doctor.pyz", "quick", str(tmp_path / "old"))
    text = text.replace(" ".join(gpu_scan.PYTHONS), f"/nowhere/python {tmp_path / 'good'}")
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True)
    assert done.stdout == "-I -S -B /tmp/a b/gpu-doctor.pyz --json --level quick\n"
    none = text.replace(str(tmp_path / "good"), "")
    assert subprocess.run(["sh", "-c", none]).returncode == gpu_scan.NO_PYTHON


def test_a_host_without_python_is_told_what_is_missing():
    with pytest.raises(ValueError, match=r"no Python 3\.6 or newer; expected one of /usr/libexec/platform-python"):
        gpu_scan.report_of({"rc": gpu_scan.NO_PYTHON, "stdout": "", "stderr": ""})


def test_a_greeting_around_the_report_does_not_hide_it():
    record = report()
    text = f"Welcome to a5-01!\r\n{json.dumps(record)}\r\nlogout\r\n"
    assert gpu_scan.report_of({"rc": 1, "stdout": text, "stderr": ""}) == record


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema": 1, "expectations": {"scan": "x"}}', "{" * 100_000])
def test_what_is_no_report_of_a_scan_is_refused(text):
    with pytest.raises(ValueError, match="no report"):
        gpu_scan.report_of({"rc": 0, "stdout": text, "stderr": "Traceback\nKeyError: 'x'"})


def test_the_report_of_a_verification_is_not_replaced(tmp_path):
    (tmp_path / "a5-01.json").write_text("{}")
    record = report()
    record["expectations"]["scan"] = NO_PLAN
    assert gpu_scan.keep(tmp_path, "a5-01", record) == tmp_path / "a5-01.scan.json"
    assert (tmp_path / "a5-01.json").read_text() == "{}"
    assert oct((tmp_path / "a5-01.scan.json").stat().st_mode & 0o777) == "0o644"


def test_the_page_shows_a_scan_as_held_to_no_plan(tmp_path):
    record = report()
    gpu_scan.keep(tmp_path, "a5-01", record)
    texts = dict(pages(tmp_path, ["a5-01"], record["time"]))
    assert "a5-01" in texts["index.html"] and NOT_A_NODE in texts["hosts/a5-01.html"]
    assert from_plan(record) is None
