"""run_bounded returns in time whatever the program does, and says what became of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from gpuwright.host import bounded
from gpuwright.host.bounded import find_program, run_bounded

FREEZER = Path("/sys/fs/cgroup/freezer")


def shell(script: str) -> list[str]:
    return ["sh", "-c", script]


def seconds_of(function):
    start = time.monotonic()
    answer = function()
    return answer, time.monotonic() - start


def is_running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def wait_until(condition, seconds: float = 5) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_a_program_that_hangs_is_killed_at_the_deadline():
    finished, took = seconds_of(lambda: run_bounded(shell("echo $$; sleep 60"), 0.3))
    assert (finished.rc, finished.timed_out, finished.missing) == (None, True, False)
    assert took < 30
    assert "did not finish within 0.3 s" in finished.problem
    assert wait_until(lambda: not is_running(int(finished.stdout)))


def test_a_program_that_ignores_every_polite_signal_is_killed():
    finished, took = seconds_of(lambda: run_bounded(shell("trap '' TERM INT HUP; echo $$; while :; do :; done"), 0.3))
    assert finished.timed_out and took < 30
    assert wait_until(lambda: not is_running(int(finished.stdout)))


def test_a_program_that_ignores_the_chosen_signal_is_left_behind():
    script = "trap '' TERM; echo $$; while :; do sleep 0.1; done"
    finished, took = seconds_of(lambda: run_bounded(shell(script), 0.3, stop_signal=signal.SIGTERM))
    try:
        assert finished.timed_out and took < 30
        assert is_running(int(finished.stdout))
    finally:
        os.kill(int(finished.stdout), signal.SIGKILL)


@pytest.mark.skipif(os.geteuid() != 0 or not FREEZER.is_dir(), reason="needs root and the cgroup v1 freezer")
def test_a_program_that_cannot_be_killed_is_not_waited_for():
    """A frozen process keeps SIGKILL queued, as one in uninterruptible sleep does."""
    group = FREEZER / f"gpuwright-test-{os.getpid()}"
    group.mkdir()
    try:
        script = f"echo $$ | tee {group}/cgroup.procs; echo FROZEN > {group}/freezer.state; sleep 60"
        finished, took = seconds_of(lambda: run_bounded(shell(script), 0.5))
        assert finished.timed_out and took < 30
        assert is_running(int(finished.stdout))
    finally:
        (group / "freezer.state").write_text("THAWED")
        wait_until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def test_a_helper_that_keeps_the_pipe_open_is_not_waited_for():
    finished, took = seconds_of(lambda: run_bounded(shell("setsid sleep 60 & echo done"), 300))
    assert (finished.rc, finished.stdout) == (0, "done\n")
    assert took < 30


def test_a_helper_outside_the_group_does_not_hold_up_the_deadline():
    finished, took = seconds_of(lambda: run_bounded(shell("setsid sleep 60 & sleep 60"), 0.3))
    assert finished.timed_out and took < 30


def test_a_program_that_has_closed_its_output_is_asked_soon_and_then_seldom(monkeypatch):
    pauses, sleep = [], time.sleep

    def noted(seconds: float) -> None:
        pauses.append(seconds)
        sleep(seconds)

    monkeypatch.setattr(bounded.time, "sleep", noted)
    assert run_bounded(shell("exec >&- 2>&-; sleep 0.5; exit 3"), 300).rc == 3
    # The last is none at all, to collect what came at the end.
    assert pauses[-1] == 0 < pauses[0] < 0.001
    assert pauses[:-1] == sorted(pauses[:-1]) and max(pauses) == bounded.POLL_SECONDS


def test_too_much_output_stops_the_program():
    finished, took = seconds_of(lambda: run_bounded(["yes"], 300, limit_bytes=100_000))
    assert finished.truncated and finished.rc is None and took < 100
    assert len(finished.stdout) == 100_000


def test_much_output_on_both_streams_arrives_whole():
    script = "import sys; sys.stdout.write('o' * 900000); sys.stderr.write('e' * 900000)"
    finished = run_bounded([sys.executable, "-c", script], 30)
    assert (finished.rc, len(finished.stdout), len(finished.stderr)) == (0, 900_000, 900_000)


def test_what_came_before_the_deadline_is_kept():
    finished = run_bounded(shell("echo half; echo words >&2; sleep 60"), 0.5)
    assert (finished.stdout, finished.stderr, finished.timed_out) == ("half\n", "words\n", True)


@pytest.mark.parametrize(
    ("script", "rc"), [("exit 0", 0), ("exit 18", 18), ("kill -9 $$", -9), ("exec >&- 2>&-; sleep 0.3; exit 7", 7)]
)
def test_exit_status(script, rc):
    finished = run_bounded(shell(script), 30)
    assert (finished.rc, finished.timed_out, finished.problem) == (rc, False, "")


def test_a_missing_program():
    finished = run_bounded(["gpuwright-no-such-program"], 5)
    assert (finished.rc, finished.missing) == (None, True)
    assert "is not installed" in finished.problem


@pytest.mark.parametrize(
    ("mode", "text", "expected"),
    [
        (0o644, "#!/bin/sh\n", "is not executable"),
        (0o755, "#!/no/such/interpreter\n", "cannot be run"),
        (0o755, "no program at all\n", "cannot be run"),
    ],
)
def test_a_file_that_is_no_program(tmp_path, mode, text, expected):
    program = tmp_path / "broken"
    program.write_text(text)
    program.chmod(mode)
    finished = run_bounded([str(program)], 5)
    assert (finished.rc, finished.missing) == (None, False)
    assert expected in finished.problem and str(program) in finished.problem


def test_undecodable_output_is_replaced():
    assert run_bounded(shell(r"printf 'a\377b'"), 5).stdout == "a�b"


def test_nothing_can_be_asked_of_the_caller():
    assert run_bounded(["cat"], 5).rc == 0


def test_messages_are_not_translated(monkeypatch):
    # Not in the C library's own environment: it would keep a German strerror for all tests that follow in this process.
    monkeypatch.setattr(os, "environ", {**os.environ, "LANGUAGE": "de", "LC_ALL": "de_DE.UTF-8"})
    assert run_bounded(shell("echo $LANGUAGE,$LC_ALL"), 5).stdout == ",C.UTF-8\n"


def test_administration_programs_are_found_without_a_path(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert find_program("ldconfig")


def test_the_same_under_python_3_6(node_python):
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from gpuwright.host.bounded import run_bounded;"
        "print(run_bounded(['sleep', '60'], 0.2).timed_out, run_bounded(['echo', 'x'], 5)[:2])"
    )
    folder = str(Path(__file__).resolve().parents[3] / "tests/node_library")
    done = subprocess.run([node_python, "-c", script, folder], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "True (0, 'x\\n')\n"


@pytest.mark.parametrize("moment", ["as it begins", "as it works"])
def test_an_interruption_stops_the_program_with_its_helpers(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a session of its own, so that Ctrl-C reaches it through its caller alone."""
    children: list[subprocess.Popen] = []

    class Interrupted(subprocess.Popen):
        def __init__(self, *words, **options):
            super().__init__(*words, **options)
            children.append(self)
            if moment == "as it begins":
                os.kill(os.getpid(), signal.SIGINT)

    def interrupt(*_words) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    if moment == "as it works":
        monkeypatch.setattr(bounded, "_collect", interrupt)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run_bounded(shell("sleep 60 & wait"), 60)
    assert signal.getsignal(signal.SIGINT) is handler
    assert children[0].wait(20) == -signal.SIGKILL


def test_an_interruption_lets_a_transaction_end_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupt(*_words) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bounded, "_collect", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_bounded(shell(f"sleep 0.3; touch {tmp_path}/done"), 60, stop_signal=signal.SIGTERM)
    assert wait_until((tmp_path / "done").exists)


def test_of_several_signals_none_is_lost_and_all_handlers_are_put_back() -> None:
    told: list[int] = []

    def note(number: int, _frame: object) -> None:
        told.append(number)

    before = {number: signal.signal(number, note) for number in bounded.INTERRUPTIONS}
    own = {number: signal.getsignal(number) for number in before}
    try:
        with bounded.interruption_held():
            for number in before:
                signal.raise_signal(number)
            assert told == []
        assert told == list(before)
        assert {number: signal.getsignal(number) for number in before} == own
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_thread_starts_programs_too():
    answers: list[bounded.Finished] = []
    thread = threading.Thread(target=lambda: answers.append(run_bounded(["echo", "x"], 20)))
    thread.start()
    thread.join()
    assert answers[0].stdout == "x\n"
