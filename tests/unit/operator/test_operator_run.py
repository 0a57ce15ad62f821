"""Whether another run lives, as the controller can tell: pids used again, workers that are left, containers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.action import operator_lock as plugin

PLUGINS = Path(__file__).resolve().parents[3] / "plugins"
runs = plugin.runs

# Marks itself as the main process of a run, forks a worker as ansible-playbook does, starts a program, and waits.
MAIN = """
import importlib.util, os, subprocess, sys, time
spec = importlib.util.spec_from_file_location("operator_run", sys.argv[1])
runs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(runs)
marker = runs.mark(os.getpid(), runs.start_of(os.getpid()))
worker = os.fork()
if worker == 0:
    os.setsid()
    exec(sys.argv[2])
    time.sleep(300)
program = subprocess.Popen(["sleep", "300"], start_new_session=True)
print(worker, program.pid, marker is not None, flush=True)
time.sleep(300)
"""


def record(**changes: object) -> dict:
    """The record of a run that is this very process."""
    pid = os.getpid()
    own = {
        "run": "r", "who": "alice", "controller": socket.gethostname(), "machine": runs.machine(), "pid": pid,
        "started": runs.start_of(pid), "playbook": "site.yml", "since": "2026-11-22T06:30:00Z",
    }  # fmt: skip
    return {**own, **changes}


# What a worker does: the main process has forked it, so that both have both ends of every pipe.
ANSWERS = "reader, writer = os.pipe(); os.write(writer, bytes(1 << 20))"
# One worker at a time answers; one that was ended in its answer never makes way for the next.
WAITS = "import multiprocessing; turn = multiprocessing.Lock(); turn.acquire(); turn.acquire()"
JOINS = "import threading; thread = threading.Thread(target=time.sleep, args=(300,)); thread.start(); thread.join()"
TALKS = "program = subprocess.Popen(['sleep', '300'], stdin=subprocess.PIPE); program.stdin.write(bytes(1 << 20))"


@pytest.fixture
def killed_run(request: pytest.FixtureRequest) -> Iterator[dict]:
    """A run whose main process was killed; `worker` and `program` of it go on. The parameter: what the worker does."""
    file = PLUGINS / "plugin_utils/operator_run.py"
    words = [sys.executable, "-c", MAIN, str(file), getattr(request, "param", "")]
    main = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert main.stdout is not None
    worker, program, marked = main.stdout.readline().split()
    assert marked == "True"
    started = runs.start_of(main.pid)
    assert runs.state_of(record(pid=main.pid, started=started)) == runs.LIVES
    main.kill()
    main.wait()
    yield {**record(pid=main.pid, started=started), "worker": int(worker), "program": int(program)}
    for pid in (worker, program):
        subprocess.run(["kill", "-9", pid], check=False, stderr=subprocess.DEVNULL)


def eventually(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not true() and time.monotonic() < deadline:
        time.sleep(0.05)
    return true()


def test_a_run_lives_while_its_main_process_does() -> None:
    assert runs.state_of(record()) == runs.LIVES
    assert runs.state_of(record(started="12")) == runs.GONE, "another process has got the pid since"
    child = subprocess.Popen(["true"])
    started = runs.start_of(child.pid)
    child.wait()
    for pid in (child.pid, 2**22 + 1, 2**70):
        assert runs.state_of(record(pid=pid, started=started)) == runs.GONE


@pytest.mark.parametrize("stopped", [False, True], ids=["working", "stopped"])
def test_workers_of_a_killed_run_are_left_until_they_end(killed_run: dict, stopped: bool) -> None:
    if stopped:
        os.kill(killed_run["worker"], signal.SIGSTOP)
    assert runs.state_of(killed_run) == runs.LEFTOVER
    assert runs.leftover_pids(killed_run) == [killed_run["worker"]], "and not what a worker has started"
    assert (f"pid {killed_run['pid']}", [killed_run["worker"]]) in runs.leftovers()
    os.kill(killed_run["worker"], signal.SIGKILL)
    assert eventually(lambda: runs.state_of(killed_run) == runs.GONE)
    assert f"pid {killed_run['pid']}" not in dict(runs.leftovers())


@pytest.mark.parametrize(
    "killed_run", [ANSWERS, WAITS], indirect=True, ids=["its answer is longer than the pipe", "it waits for its turn"]
)
def test_a_worker_whose_answer_nobody_takes_is_ended(killed_run: dict) -> None:
    """It has both ends of the pipe, so it would write for ever, and every later run waited for it."""

    def ended() -> bool:
        runs.end_unheard()
        return runs.state_of(killed_run) == runs.GONE

    assert eventually(ended)


@pytest.mark.parametrize(
    "killed_run", ["", TALKS, JOINS], indirect=True, ids=["it works", "it talks to a node", "it waits for a thread"]
)
def test_a_worker_that_is_not_done_goes_on(killed_run: dict) -> None:
    time.sleep(0.5)
    for _look in range(3):
        runs.end_unheard()
    assert runs.state_of(killed_run) == runs.LEFTOVER
    subprocess.run(["pkill", "-KILL", "--parent", str(killed_run["worker"])], check=False)


def test_a_run_that_lives_is_no_leftover() -> None:
    marker = runs.mark(os.getpid(), runs.start_of(os.getpid()))
    assert marker is not None
    try:
        assert f"pid {os.getpid()}" not in dict(runs.leftovers())
        assert runs.mark(os.getpid(), runs.start_of(os.getpid())) is None
    finally:
        marker.close()


def machine_with(**parts: str) -> str:
    names = ("id", "boot", "namespace")
    return ":".join(parts.get(name, own) for name, own in zip(names, runs.machine().split(":"), strict=True))


@pytest.mark.parametrize(
    ("machine", "changes", "state"),
    [
        ({"id": "other", "boot": "other"}, {"controller": "ctl-2"}, "unknown"),
        ({"namespace": "4026532999"}, {}, "unknown"),
        ({"boot": "before"}, {}, "gone"),
        # Virtual machines copied from one image have one machine id.
        ({"boot": "before"}, {"controller": "ctl-2"}, "unknown"),
        ({"boot": "before", "namespace": "4026532999"}, {}, "unknown"),
        ({"id": "", "boot": "before"}, {}, "unknown"),
    ],
)
def test_what_this_controller_cannot_see_is_unknown(
    monkeypatch: pytest.MonkeyPatch, machine: dict, changes: dict, state: str
) -> None:
    monkeypatch.setattr(runs, "machine", lambda own=f"id:boot:{runs.FIRST_PID_NAMESPACE}": own)
    assert runs.state_of(record(machine=machine_with(**machine), pid=2**22 + 1, **changes)) == state


@pytest.mark.parametrize("machine", ["", "::", "a:b", "a:b:c:d", "id::4026531836"])
def test_a_record_that_names_no_machine_is_unknown(machine: str) -> None:
    assert runs.state_of(record(machine=machine)) == runs.UNKNOWN


def test_a_controller_that_cannot_name_its_own_boot_knows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "machine", lambda: "::")
    assert runs.state_of(record(machine="::")) == runs.UNKNOWN


def test_the_claim_is_of_this_process() -> None:
    claim = runs.claim()
    assert claim["run"] == f"{socket.gethostname()}:{os.getpid()}:{runs.start_of(os.getpid())}"
    assert all(isinstance(claim[name], str) for name in claim if name != "pid") and claim["who"]


def test_who_is_shown_to_others_in_one_printable_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "al\x1b[31mice\n")
    assert runs.claim()["who"].startswith("al?[31mice? as ")


WORK = [{"pid": 12, "command": "dnf", "run": "r"}]
AGAIN = "ansible-playbook site.yml -l a5-01"
LIMIT_S = 7200.0


def judged(state: str, work: list | None = None, quiet_s: float = 60, takeover: bool = False, **answer: object):
    answer = {"holder": record(), "work": work or [], "quiet_s": quiet_s, "damaged": "", **answer}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugin.runs, "state_of", lambda holder: state)
        return plugin.judge(answer, takeover, LIMIT_S, AGAIN)


@pytest.mark.parametrize(
    ("state", "work", "quiet_s", "takeover", "kind"),
    [
        ("lives", [], 60, False, "refusal"),
        ("lives", WORK, 60, False, "refusal"),
        ("lives", [], 1e6, False, "refusal"),
        ("lives", [], 60, True, "replace"),
        ("lives", WORK, 60, True, "wait"),
        ("leftover", [], 60, False, "wait"),
        ("leftover", WORK, 60, False, "wait"),
        ("leftover", WORK, 60, True, "wait"),
        ("leftover", [], 60, True, "wait"),
        ("gone", [], 60, False, "replace"),
        ("gone", WORK, 60, False, "wait"),
        ("gone", WORK, 1e6, True, "wait"),
        ("unknown", [], 60, False, "refusal"),
        ("unknown", [], LIMIT_S - 1, False, "refusal"),
        ("unknown", [], LIMIT_S, False, "replace"),
        ("unknown", WORK, 1e6, False, "refusal"),
        ("unknown", [], 60, True, "replace"),
        ("unknown", WORK, 60, True, "wait"),
    ],
)
def test_what_follows_from_a_holder(state: str, work: list, quiet_s: float, takeover: bool, kind: str) -> None:
    step = judged(state, work, quiet_s, takeover)
    assert [name for name in ("wait", "replace", "refusal") if getattr(step, name)][0] == kind
    text = step.wait + step.refusal
    # Of a run that is over, the module ends what only waits to be heard.
    assert step.replace == ("r" if kind == "replace" or (state == "gone" and work) else "")
    if kind == "replace":
        assert text == ""
    else:
        assert "alice from " in text and "2026-11-22T06:30:00Z" in text and "site.yml" in text
    if kind == "wait" and work:
        assert "dnf (12)" in text
    if kind == "refusal":
        assert AGAIN in step.next and "-e gpuwright_lock=break" in step.next


@pytest.mark.parametrize(
    ("work", "quiet_s", "takeover", "kind"),
    [
        ([], 60, False, "refusal"),
        ([], LIMIT_S, False, "replace"),
        ([], 60, True, "replace"),
        (WORK, 1e6, False, "wait"),
        (WORK, 60, True, "wait"),
    ],
)
def test_what_follows_from_a_damaged_record(work: list, quiet_s: float, takeover: bool, kind: str) -> None:
    step = judged("lives", work, quiet_s, takeover, holder=None, damaged="operator.json is damaged: no JSON")
    assert [name for name in ("replace", "wait", "refusal") if getattr(step, name)] == [kind]
    assert kind != "replace" or step.replace == plugin.DAMAGED
    assert kind != "refusal" or "no JSON" in step.refusal


def test_another_container_of_the_same_machine_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "machine", lambda: "id:boot:4026532001")
    assert "another container" in runs.why_unknown(record(machine="id:boot:4026532002"))
    assert "another controller, ctl-2" in runs.why_unknown(record(machine="x:y:4026531836", controller="ctl-2"))


def test_minutes_that_a_task_does_not_give_are_those_of_the_role() -> None:
    """`operator_lock: {state: taken}` in a playbook of a site is held as long as by the role."""
    role = yaml.safe_load((PLUGINS.parent / "roles/operator_lock/defaults/main.yml").read_text())
    defaults = {name: float(role[f"operator_lock_{name}"]) for name in plugin.OF_THE_ROLE}
    action = object.__new__(plugin.ActionModule)
    action._templar = SimpleNamespace(template=lambda value, **_options: value)
    none = dict.fromkeys(plugin.OF_THE_ROLE)
    assert action._limits(none, {}) == defaults
    assert action._limits(none, {"operator_lock_quiet_minutes": 7}) == {**defaults, "quiet_minutes": 7}
    assert action._limits({**none, "wait_minutes": 0.0}, {}) == {**defaults, "wait_minutes": 0}
