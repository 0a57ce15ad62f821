"""Two operators, a killed controller, a lost connection and a reboot: one run at a time changes a host."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import FLEET, REPOSITORY, on_host, play

FLEET_NAME, HOST = "lock", "a5-51"
INVENTORY = REPOSITORY / ".fleet" / FLEET_NAME / "inventory.yml"
RECORD = "/run/gpuwright/operator.json"
SECONDS = 600
# The build of the driver's module, in the middle of dnf's transaction, waits until the file is there.
SLOW_MAKE = """#!/bin/sh
touch /run/make.started
until [ -e /run/make.go ]; do sleep 0.2; done
exec /usr/bin/make.real "$@"
"""


def host(script: str) -> str:
    return on_host(script, fleet=FLEET_NAME, host=HOST)


@pytest.fixture(scope="module")
def prepared() -> Iterator[None]:
    """A host with compiler and headers, whose driver is not installed yet."""
    chosen = ["--fleet", FLEET_NAME, "--hosts", HOST]
    subprocess.run([*FLEET, "up", *chosen], cwd=REPOSITORY, check=True)
    subprocess.run([*FLEET, "reset", *chosen], cwd=REPOSITORY, check=True)
    done = play("playbooks/system.yml", "--tags", "system_kernel", fleet=FLEET_NAME)
    assert done.rc == 0, done.output
    yield
    subprocess.run([*FLEET, "down", "--fleet", FLEET_NAME], cwd=REPOSITORY, check=True)


@pytest.fixture
def slow_make(prepared: None) -> Iterator[None]:
    host(f"mv /usr/bin/make /usr/bin/make.real; cat > /usr/bin/make <<'END'\n{SLOW_MAKE}END\nchmod 755 /usr/bin/make")
    yield
    host("touch /run/make.go; mv /usr/bin/make.real /usr/bin/make")


class Running:
    """A run of ansible-playbook beside others; its main process is `process`."""

    def __init__(self, log: Path, playbook: str, *arguments: str) -> None:
        self.log = log
        words = ["ansible-playbook", "-i", str(INVENTORY), playbook, "-l", "gpu_nodes", *arguments]
        with log.open("w") as out:
            environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
            self.process = subprocess.Popen(
                words, cwd=REPOSITORY, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    @property
    def said(self) -> str:
        return re.sub(r"\s+", " ", self.log.read_text())

    def workers(self) -> list[int]:
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True)
        return [int(word) for word in found.stdout.split()]

    def ended(self) -> int:
        return self.process.wait(timeout=SECONDS)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def run(playbook: str, *arguments: str) -> Running:
        started.append(Running(tmp_path / f"{len(started)}.log", playbook, *arguments))
        return started[-1]

    yield run
    for one in started:
        one.process.kill()
        one.process.wait()


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.3)


def record() -> dict:
    """The lock of the host; {} where there is none, or while the host boots."""
    try:
        return json.loads(host(f"cat {RECORD} 2>/dev/null || echo '{{}}'"))
    except (AssertionError, ValueError):
        return {}


def started_on_host(path: str) -> bool:
    return host(f"test -e {path} && echo yes || true") == "yes"


@pytest.mark.usefixtures("prepared")
def test_workers_of_a_killed_controller_are_waited_for(start: Callable[..., Running]) -> None:
    """A stopped worker would go on writing to the host whenever somebody wakes it."""
    # The host itself waits for the lock: this run holds it for two seconds, and each look over ssh takes one.
    ssh = ["ssh", "-F", str(INVENTORY.with_name("ssh_config")), HOST]
    waiting = subprocess.Popen([*ssh, f"until [ -e {RECORD} ]; do sleep 0.02; done"])
    first = start("playbooks/system.yml", "--tags", "system_tuning")
    assert waiting.wait(timeout=SECONDS) == 0
    workers: list[int] = []
    while not workers:
        assert first.process.poll() is None, first.said
        workers = first.workers()
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
    assert record()["pid"] == first.process.pid
    first.process.kill()
    first.process.wait()
    second = start("playbooks/system.yml", "--tags", "system_tuning")
    until(lambda: "waiting for them to end" in second.said)
    assert f"a run that was killed (pid {first.process.pid})" in second.said and str(workers[0]) in second.said
    time.sleep(5)
    assert record()["pid"] == first.process.pid and "TASK" not in second.said
    for pid in workers:
        os.kill(pid, signal.SIGCONT)
    assert second.ended() == 0, second.said
    assert "the last run ended without releasing it" in second.said and record() == {}


@pytest.mark.usefixtures("slow_make")
def test_a_lost_connection_ends_no_transaction_and_a_rerun_waits_for_it(start: Callable[..., Running]) -> None:
    first = start("playbooks/system.yml", "--tags", "system_driver")
    until(lambda: started_on_host("/run/make.started"))
    # Another operator, in the middle of it.
    other = start("site.yml", "--tags", "system_tuning")
    assert other.ended() != 0
    held = record()
    assert held["pid"] == first.process.pid and held["playbook"] == "system.yml"
    who = f"{held['who']} from {held['controller']} since {held['since']} (system.yml, process {held['pid']})"
    assert f"This host is being changed by {who}." in other.said and "-e gpuwright_lock=break" in other.said
    # The connection that the transaction runs under: from make up to sshd, which loses its child with it.
    host(
        "pid=$(pgrep -x -o make); top=; while [ $pid -gt 1 ]; do "
        'case $(cat /proc/$pid/comm) in sshd*) top="$top $pid";; esac; '
        "pid=$(awk '/^PPid/ {print $2}' /proc/$pid/status); done; "
        # The listener itself is the last.
        'setsid sh -c "sleep 1; kill -9 ${top% *}" >/dev/null 2>&1 &'
    )
    assert first.ended() != 0 and "unreachable=1" in first.said, first.said
    assert host("pgrep -x make >/dev/null && echo works") == "works"
    again = start("playbooks/system.yml", "--tags", "system_driver")
    until(lambda: "are still working on this host; waiting for them to end" in again.said)
    assert "was killed" not in again.said and record()["pid"] == first.process.pid
    first_boot = held["boot_id"]
    host("touch /run/make.go")
    # The driver asks for a reboot, which ends the lock, and the run takes it again.
    until(lambda: record().get("boot_id", first_boot) != first_boot or again.process.poll() is not None)
    assert record().get("pid") == again.process.pid, again.said
    assert again.ended() == 0, again.said
    assert "Reboot, because" in again.said and record() == {}
    assert host("rpm -q kmod-nvidia-latest-dkms >/dev/null && dkms status | grep -c installed") == "1"


@pytest.mark.usefixtures("prepared")
def test_of_two_runs_of_the_whole_site_one_is_done_and_one_refused(start: Callable[..., Running]) -> None:
    runs = [start("site.yml", "--tags", "system_tuning"), start("site.yml", "--tags", "system_tuning")]
    codes = sorted((run.ended() != 0, position) for position, run in enumerate(runs))
    winner, loser = runs[codes[0][1]], runs[codes[1][1]]
    assert [code for code, _position in codes] == [False, True], [run.said for run in runs]
    assert f"process {winner.process.pid})" in loser.said and "is being changed by" in loser.said
    assert record() == {}
