"""The role drain on a real Slurm: a job is waited for, the deadline, the return, and an administrator's own drain."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster import REPOSITORY, Cluster, commands_here

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
PLANNED = "gpuwright: planned work: driver 580 (alice)"


class Play:
    """ansible-playbook on this machine, whose commands of Slurm run on the controller."""

    def __init__(self, folder: Path, slurm: Cluster) -> None:
        self.folder, self.log = folder, ""
        self.programs = commands_here(folder, slurm.name("controller"))

    def __call__(self, step: str, *arguments: str, **variables: Any) -> int:
        include = {"name": "gpuwright.node.drain", "tasks_from": f"{step}.yml"}
        tasks = [{"name": step, "ansible.builtin.include_role": include}]
        play = {"hosts": "all", "gather_facts": False, "become": False, "tasks": tasks}
        (self.folder / "play.yml").write_text(yaml.safe_dump([play]))
        hosts = {"n1": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}}
        (self.folder / "inventory.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
        known = {"drain_by": "slurm", "drain_owner": "alice", "drain_reason": "driver 580", "__drain_poll_seconds": 1}
        command = [str(PLAYBOOK), "-i", str(self.folder / "inventory.yml"), str(self.folder / "play.yml"), *arguments]
        done = subprocess.run(
            [*command, "-e", json.dumps({**known, "drain_wait_seconds": 120, **variables})],
            cwd=REPOSITORY,
            env={**os.environ, "ANSIBLE_NOCOLOR": "1", "PATH": f"{self.programs}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=400,
        )
        self.log = done.stdout + done.stderr
        return done.returncode

    @property
    def text(self) -> str:
        return " ".join(self.log.split())


@pytest.fixture
def play(slurm: Cluster, tmp_path: Path) -> Play:
    return Play(tmp_path, slurm)


def test_a_running_job_is_waited_for_and_the_node_returned(slurm: Cluster, play: Play) -> None:
    job = slurm.job("-w n1", seconds=20)
    slurm.until(lambda: slurm.job_state(job) == "RUNNING", "the job runs")
    seen: list[str] = []
    watch = threading.Thread(target=lambda: seen.append(seen_reason(slurm)))
    watch.start()
    assert play("drain") == 0, play.log
    watch.join()
    assert slurm.job_state(job) == "COMPLETED", "nothing ended it"
    assert seen == [PLANNED] and (slurm.state("n1"), slurm.reason("n1")) == ("idle+drain", PLANNED)
    # Planned work is not a check's drain: a PASS does not return it.
    assert slurm.says("n1") == "PASS" and slurm.drains() == ""
    assert play("drain") == 0 and "changed=0" in play.log, play.log
    assert play("return", "--check") == 0 and slurm.state("n1") == "idle+drain", play.log
    assert play("return") == 0, play.log
    slurm.until_idle("n1")
    assert play("return") == 0 and "changed=0" in play.log, play.log


def seen_reason(slurm: Cluster) -> str:
    """The reason that others read while the drain waits for the job."""
    return slurm.until(lambda: "drain" in slurm.state("n1") and slurm.reason("n1"), "the node is drained")


def test_after_the_deadline_the_drain_is_taken_back_and_the_job_goes_on(slurm: Cluster, play: Play) -> None:
    job = slurm.job("-w n1")
    slurm.until(lambda: slurm.job_state(job) == "RUNNING", "the job runs")
    before = time.monotonic()
    assert play("drain", drain_wait_seconds=3) == 2
    assert time.monotonic() - before < 120
    assert f"{job} of root (RUNNING)" in play.text and "[drain.wait]" in play.text
    assert slurm.job_state(job) == "RUNNING" and "drain" not in slurm.state("n1")
    # What the message asks for.
    slurm.sh("controller", f"scancel {job}")
    assert play("drain") == 0 and slurm.reason("n1") == PLANNED, play.log


def test_an_administrators_drain_is_left(slurm: Cluster, play: Play) -> None:
    slurm.sh("controller", "scontrol update NodeName=n1 State=DRAIN Reason='bob: fan'")
    assert play("drain") == 0 and "drained by somebody else (bob: fan)" in play.text, play.log
    assert play("return") == 0 and "is not returned" in play.text, play.log
    assert (slurm.state("n1"), slurm.reason("n1")) == ("idle+drain", "bob: fan")


def test_a_checks_drain_is_taken_over_for_the_work(slurm: Cluster, play: Play) -> None:
    slurm.record("n1", "FAIL", "kernel.xid", "Run: reboot")
    slurm.until_says("n1", "FAIL")
    slurm.drains()
    assert slurm.reason("n1") == "gpuwright: kernel.xid: Run: reboot"
    assert play("drain") == 0 and slurm.reason("n1") == PLANNED, play.log
    assert slurm.drains() == ""
    # Not repaired: after the return the check drains it again.
    assert play("return") == 0, play.log
    assert "n1: State=DRAIN Reason=gpuwright: kernel.xid: Run: reboot" in slurm.drains()


def test_a_node_that_slurm_does_not_know_is_refused(play: Play) -> None:
    assert play("drain", drain_node="n9") == 2 and "there is no such node" in play.text and "[drain.node]" in play.text


def test_check_mode_drains_nothing(slurm: Cluster, play: Play) -> None:
    assert play("drain", "--check") == 0 and "changed=1" in play.log, play.log
    assert slurm.state("n1") == "idle"
