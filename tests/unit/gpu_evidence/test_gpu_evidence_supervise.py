"""How a part is ended: at its share, with all that descends from it, whatever it does against that."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests/gpu"))
from gpu_evidence.supervise import Ended, Records, Stop, Supervisor, Tail

SHARE_S, LATE_S = 1.5, 7.0
# A part: it reads its job and answers once, then does what is put behind it.
PART = """
import json, os, signal, subprocess, sys, time
job = json.loads(os.fdopen(int(sys.argv[1])).read())
os.write(int(sys.argv[2]), (json.dumps({"got": job}) + "\\n").encode())
"""
DEAF = "for number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)\n"
SLEEP = "time.sleep(3600)\n"
# Forked twice and in a session of its own, so that its parent is gone.
DAEMON = f"""
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(job, "w").write(str(os.getpid()))
        {DEAF.strip()}
        {SLEEP.strip()}
    os._exit(0)
os.wait()
"""


def supervised(code: str, job: object = None, seconds: float = SHARE_S) -> Ended:
    return Supervisor(Stop()).run([sys.executable, "-c", PART + code], job, dict(os.environ), seconds)


def is_there(file: Path) -> bool:
    pid = int(file.read_text())
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_part_that_ends_has_its_record_and_status() -> None:
    assert supervised("sys.exit(3)") == Ended({"got": None}, 3, False, "", [])
    large = {"text": "x" * 300_000}
    assert supervised("", large, 20.0).record == {"got": large}


@pytest.mark.parametrize("code", [SLEEP, DEAF + SLEEP, DEAF + "while True: pass\n"])
def test_a_part_that_hangs_is_ended_and_what_it_found_is_kept(code: str) -> None:
    begin = time.monotonic()
    ended = supervised(code, "job")
    assert ended.record == {"got": "job"} and ended.out_of_time and ended.rc is None and ended.remain == []
    assert time.monotonic() - begin < SHARE_S + LATE_S


@pytest.mark.parametrize("after", ["", SLEEP])
def test_what_a_part_has_started_elsewhere_is_ended_with_it(tmp_path: Path, after: str) -> None:
    file = tmp_path / "pid"
    waits = "while not os.path.exists(job) or not open(job).read(): time.sleep(0.01)\n"
    ended = supervised(DAEMON + waits + after, str(file), 20.0 if not after else 5.0)
    assert ended.record == {"got": str(file)} and ended.out_of_time is bool(after)
    assert ended.remain == [] and not is_there(file)


def test_others_are_left_alone(tmp_path: Path) -> None:
    """A process that another run of this program started."""
    import subprocess

    other = subprocess.Popen(["setsid", "--fork", "sh", "-c", f"echo $$ > {tmp_path / 'pid'}; exec sleep 60"])
    other.wait()
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.01)
    # It is no descendant of a supervisor in a process of its own.
    code = (
        f"import sys, os; sys.path.insert(0, {str(REPOSITORY / 'tests/gpu')!r})\n"
        "from gpu_evidence.supervise import Stop, Supervisor\n"
        "print(Supervisor(Stop()).run(['sh', '-c', 'sleep 60'], None, dict(os.environ), 0.5).out_of_time)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n" and is_there(tmp_path / "pid")
    os.kill(int((tmp_path / "pid").read_text()), 9)


def test_endless_output_fills_no_memory_and_stops_nobody() -> None:
    ended = supervised("for _ in range(2000): sys.stdout.write('y' * 10000)\nsys.exit(0)", None, 30.0)
    assert ended.rc == 0 and 0 < len(ended.words) <= 16 * 1024


def test_a_signal_ends_the_part_that_runs() -> None:
    stop = Stop()
    stop.note(15, None)
    ended = Supervisor(stop).run([sys.executable, "-c", PART + SLEEP], None, dict(os.environ), 60.0)
    assert not ended.out_of_time and ended.rc is None and stop.by == "SIGTERM"


def test_a_program_that_is_not_there_is_a_result() -> None:
    ended = Supervisor(Stop()).run(["/no/such/program"], None, dict(os.environ), 5.0)
    assert ended.record is None and "it cannot be started" in ended.words


def test_half_a_line_is_no_record() -> None:
    records = Records()
    records.take(b'{"a": 1}\n{"a": 2')
    assert records.record() == {"a": 1}
    records.take(b"}\n")
    assert records.record() == {"a": 2}
    records.take(b"nonsense\n")
    assert records.record() is None
    tail = Tail()
    tail.take(b"a" * 20_000)
    assert len(tail.data) == 16 * 1024
