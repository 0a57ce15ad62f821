"""The clock of a node is compared with the controller's in whatever time zone the controller is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY
from gpuwright.verdict.report import TIME_FORMAT, age_seconds, now_utc

TASKS = REPOSITORY / "roles/preflight/tasks/host.yml"
ANSIBLE = Path(sys.executable).parent / "ansible"
ZONES = ["UTC", "America/New_York", "Asia/Kolkata", "Pacific/Chatham", "Pacific/Kiritimati", "EST5EDT4,0/0,J365/25"]


MODULE = "gpuwright.node.preflight_checks"


@pytest.mark.parametrize("zone", ZONES)
def test_the_controller_tells_seconds_since_1970(zone: str) -> None:
    tasks = yaml.safe_load(TASKS.read_text())
    expression = next(task[MODULE]["controller_time"] for task in tasks if MODULE in task)
    before = time.time()
    done = subprocess.run(
        [str(ANSIBLE), "localhost", "-i", "localhost,", "-c", "local", "-m", "debug", "-a", f'msg="{expression}"'],
        cwd=REPOSITORY,
        env={**os.environ, "TZ": zone, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_STDOUT_CALLBACK": "json"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = re.search(r"msg[\"']?: [\"']?([0-9.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    assert before - 1 <= float(found.group(1)) <= time.time() + 1


@pytest.mark.parametrize("zone", ZONES)
def test_a_report_is_as_old_as_it_is(zone: str) -> None:
    """Ages and metrics are told on the node, whose zone is its own."""
    program = (
        "import json, time; from gpuwright.doctor import metrics; from gpuwright.verdict import report; "
        "print(json.dumps([report.now_utc(), report.age_seconds('2026-03-08T06:59:00Z', '2026-03-08T07:01:00Z')]))"
    )
    environment = {**os.environ, "TZ": zone, "PYTHONPATH": str(REPOSITORY / "tests/node_library")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    told, age = json.loads(done.stdout)
    assert age == 120
    assert 0 <= age_seconds(told, now_utc()) < 60


NAIVE = re.compile(r"utcnow|utcfromtimestamp|now\(utc|datetime\.now\(\)|localtime|mktime|ansible_date_time")


def test_nobody_asks_for_a_time_without_its_zone() -> None:
    files = [path for folder in ("roles", "playbooks", "library", "plugins") for path in _sources(folder)]
    assert len(files) > 100
    naive = [
        f"{path.relative_to(REPOSITORY)}: {line.strip()}"
        for path in files
        for line in _lines(path)
        if NAIVE.search(line)
    ]
    assert naive == []
    assert TIME_FORMAT.endswith("Z")


def _sources(folder: str) -> list[Path]:
    return [
        path for path in (REPOSITORY / folder).rglob("*") if path.suffix in (".py", ".yml", ".j2") and path.is_file()
    ]


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if not line.strip().startswith("#")]
