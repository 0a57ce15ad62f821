"""Rollouts that stop in time, with ansible-playbook itself, and the second start that finishes them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from left_out_site import LAYERS, PLAYBOOK, reached
from rollout_site import HANGING, Rollout, table

FIVE = ("a1", "a2", "a3", "a4", "a5")
ALL = list(LAYERS)
# In place of the release of the lock.
RELEASED = [{"ansible.builtin.debug": {"msg": "RELEASED {{ inventory_hostname }}"}}]


@pytest.fixture
def rollout(tmp_path: Path) -> Rollout:
    made = Rollout(tmp_path)
    made.hosts(*FIVE)
    return made


def order(output: str) -> list[str]:
    """Hosts in the order in which their layers ended."""
    return [line.split()[-2] for line in output.splitlines() if "MARK" in line and line.endswith("verify")]


def test_check_mode_prints_the_batches_and_does_nothing_else(rollout: Rollout) -> None:
    done = rollout.run("--check", "-e", "gpuwright_down_at_once=2")
    assert done.returncode == 0, done.stdout
    assert 'Rollout "default": 5 hosts in 4 batches' in done.stdout and "at most 2 hosts are down" in done.stdout
    assert "batch 3   2 hosts    a3, a4" in done.stdout and reached(done.stdout) == {}
    assert not list((rollout.folder / "logs").glob("*.json")) and "GPU nodes, worst first" not in done.stdout


@pytest.mark.parametrize(
    ("settings", "folder"),
    [("", "reports/logs"), ("\n[gpuwright_screen]\nlog_folder = kept/logs\n", "kept/logs")],
    ids=["nothing is set", "ansible.cfg names a folder"],
)
def test_its_record_is_where_the_logs_of_runs_are(
    rollout: Rollout, monkeypatch: pytest.MonkeyPatch, settings: str, folder: str
) -> None:
    """Other tests set the variable, so that they leave no logs in the checkout; users do not."""
    monkeypatch.delenv("GPUWRIGHT_LOG_FOLDER")
    with (rollout.folder / "ansible.cfg").open("a") as file:
        file.write(settings)
    done = rollout.site.run("playbooks/rollout.yml", "-l", "a1")
    assert done.returncode == 0 and reached(done.stdout) == {"a1": ALL}, done.stdout
    names = sorted(path.suffix for path in (rollout.folder / folder).iterdir() if path.is_file())
    assert names == [".json", ".log"], names


def test_a_batch_is_verified_before_the_next_one_begins(rollout: Rollout) -> None:
    # A task that fails, and whose failure a role deals with, is no failure of its host.
    rollout.fault("a1", "rescued")
    done = rollout.run(batches=[1, 2])
    assert done.returncode == 0, done.stdout
    assert reached(done.stdout) == dict.fromkeys(FIVE, ALL)
    marks = [line.split()[-2:] for line in done.stdout.splitlines() if "MARK" in line]
    ends = {host: place for place, (host, layer) in enumerate(marks) if layer == "verify"}
    starts = {host: place for place, (host, layer) in enumerate(marks) if layer == "system"}
    assert ends["a1"] < min(starts["a2"], starts["a3"]) and max(ends["a2"], ends["a3"]) < starts["a4"]
    assert table(done.stdout) == {"done": "a1..a5"} and "To continue" not in done.stdout
    again = rollout.run(batches=[1, 2])
    assert again.returncode == 0 and reached(again.stdout) == {}
    assert "every selected host is done already with the same plan: a1..a5." in " ".join(again.stdout.split())


def test_hosts_are_done_with_the_same_tags_in_any_order(rollout: Rollout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible keeps tags in a set, so that their order differs from process to process."""
    for seed, expected in (("1", ["a1"]), ("2", [])):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        done = rollout.run("-l", "a1", "--tags", "system,framework,model,verify")
        assert done.returncode == 0 and list(reached(done.stdout)) == expected, done.stdout


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        (("--tags", "system_tuning,verify"), ["tuning", "verify"]),
        (("--tags", "framework,verify"), ["framework", "verify"]),
        (("--skip-tags", "system,model"), ["framework", "verify"]),
        (("--tags", "tagged"), ["system", "tuning", "framework", "model", "verify"]),
    ],
)
def test_tags_choose_roles_and_the_host_is_taken_and_returned(
    rollout: Rollout, given: tuple[str, ...], chosen: list[str]
) -> None:
    """As in site.yml; what begins and ends a batch is done with any tags."""
    log = rollout.folder / "drains"
    rollout.site.tasks("system_tuning", [rollout.site.mark("tuning")])
    rollout.site.tasks("operator_lock", RELEASED, "release.yml")
    words = {"drain_by": "command", "drain_owner": "alice"}
    words |= {"drain_command": f"sh -c 'echo drain >> {log}'", "drain_return_command": f"sh -c 'echo return >> {log}'"}
    done = rollout.run(*given, "-e", json.dumps(words), "-l", "a1")
    assert done.returncode == 0 and reached(done.stdout) == {"a1": chosen}, done.stdout
    assert log.read_text().split() == ["drain", "return"] and "RELEASED a1" in done.stdout
    assert rollout.states() == {"a1": "done"}


@pytest.mark.parametrize(
    ("fault", "canaries", "group", "status", "why"),
    [
        pytest.param("lost", 1, "lost", 4, 'in "Go on with a lost host": ', id="lost-alone"),
        # Ansible itself would begin the next batch here: a lost host is counted neither by max_fail_percentage nor by
        # any_errors_fatal, and a batch of which one host is left goes on.
        pytest.param("lost", 2, "lost", 4, 'in "Go on with a lost host": ', id="lost-of-two"),
        pytest.param("silent", 1, "lost", 2, 'in "Ask a host that hangs": The host cannot be', id="silent"),
        pytest.param("cut", 1, "lost", 2, "cannot be reached: there is no route to 10.0.0.3", id="cut"),
        pytest.param("failed", 2, "failed", 2, "system_driver: the driver is not built", id="fails"),
        pytest.param("hangs", 1, "failed", 2, "system_driver: ", id="hangs"),
        pytest.param("never_back", 1, "failed", 2, "system_driver: timed out waiting for ping module", id="never-back"),
    ],
)
def test_a_canary_that_does_not_come_through_stops_within_its_batch(
    rollout: Rollout, fault: str, canaries: int, group: str, status: int, why: str
) -> None:
    rollout.fault("a1", fault)
    step = ("-e", "gpuwright_step_timeout=4") if fault == "hangs" else ()
    done = rollout.run(*step, batches=[canaries, "100%"])
    assert done.returncode == status, done.stdout
    # The second canary goes on to its end; nothing of the next batch begins.
    assert reached(done.stdout) == ({"a2": ALL} if canaries == 2 else {}), done.stdout
    after = {"not reached": "a2..a5"} if canaries == 1 else {"done": "a2", "not reached": "a3..a5"}
    assert table(done.stdout) == {group: "a1", **after}, done.stdout
    assert "[rollout.canary]" in done.stdout and why in " ".join(rollout.record()["hosts"]["a1"]["why"].split())
    (command,) = [line for line in done.stdout.splitlines() if line.startswith("To continue with those")]
    assert "ansible-playbook -i hosts.yml playbooks/rollout.yml -e" in command and "To continue:" not in done.stdout
    if (fault, canaries) == ("lost", 2):
        rollout.fault("a1", "")
        again = rollout.run(batches=[canaries, "100%"])
        assert again.returncode == 0 and sorted(reached(again.stdout)) == ["a1", "a3", "a4", "a5"], again.stdout
        assert table(again.stdout) == {"done": "a1..a5"}


def test_the_breaker_lets_a_few_fail_and_stops_at_more(rollout: Rollout) -> None:
    rollout.fault("a2", "lost")
    percent = ("-e", "gpuwright_breaker_percent=34")
    done = rollout.run(*percent, batches=[1, 2])
    assert done.returncode == 4 and sorted(reached(done.stdout)) == ["a1", "a3", "a4", "a5"], done.stdout
    assert table(done.stdout) == {"done": "a1, a3..a5", "lost": "a2"} and "Stopped" not in done.stdout
    stopped = rollout.run("-e", "gpuwright_rollout_again=true", batches=[1, 2])
    assert stopped.returncode == 4 and sorted(reached(stopped.stdout)) == ["a1", "a3"], stopped.stdout
    assert table(stopped.stdout) == {"done": "a1, a3", "lost": "a2", "not reached": "a4, a5"}
    assert "[rollout.breaker]" in " ".join(stopped.stdout.split())


def test_hosts_that_are_down_leave_room_for_fewer(rollout: Rollout) -> None:
    rollout.fault("a2", "failed")
    allowed = ("-e", "gpuwright_breaker_percent=50", "-e", "gpuwright_down_at_once=2")
    done = rollout.run(*allowed, batches=[1, "100%"])
    assert done.returncode == 2 and sorted(reached(done.stdout)) == ["a1", "a3", "a4"], done.stdout
    assert table(done.stdout) == {"done": "a1, a3, a4", "failed": "a2", "not reached": "a5"}


def test_a_busy_host_is_skipped_and_stops_nothing(rollout: Rollout) -> None:
    rollout.busy({"a1": "alice"})
    rollout.site.tasks("operator_lock", RELEASED, "release.yml")
    done = rollout.run(batches=[1, 2])
    assert done.returncode == 0 and "RELEASED a1" in done.stdout, done.stdout
    # Nobody has proven anything yet, so the next batch has no more hosts than the first.
    assert sorted(reached(done.stdout)) == ["a2", "a4", "a5"]
    assert table(done.stdout) == {"done": "a2, a4, a5", "skipped": "a1", "not reached": "a3"}
    assert "a1: busy: a1 is in use: alice." in done.stdout


def test_idle_hosts_come_first_and_busy_ones_are_waited_for(rollout: Rollout) -> None:
    rollout.busy({"a1": "alice", "a3": "bob"})
    # In the second turn, a1 is idle; on a3, work goes on for longer than the role waits.
    held = "{{ 'a3 is in use by bob.' if inventory_hostname == 'a3' else '' }}"
    rollout.site.tasks("system_busy", [{"ansible.builtin.set_fact": {"system_busy_held": held}}])
    rollout.site.tasks("operator_lock", RELEASED, "release.yml")
    done = rollout.run("-e", "gpuwright_busy=wait", batches=[2, "100%"])
    assert done.returncode == 0 and "RELEASED a3" in done.stdout, done.stdout
    assert sorted(order(done.stdout)[:3]) == ["a2", "a4", "a5"] and order(done.stdout)[3:] == ["a1"]
    assert table(done.stdout) == {"done": "a1, a2, a4, a5", "skipped": "a3"}
    assert "a3: busy: a3 is in use by bob." in done.stdout and "Stopped" not in done.stdout


def test_a_node_is_drained_before_the_first_change_and_returned_once_it_is_verified(rollout: Rollout) -> None:
    """By the real role, and commands of the site that note what they are asked."""
    log = rollout.folder / "drains"
    for word in ("drain", "return"):
        script = rollout.folder / f"site-{word}"
        script.write_text(f'#!/bin/sh\necho {word} "$GPUWRIGHT_NODE: $GPUWRIGHT_REASON" >> {log}\n')
        script.chmod(0o755)
    rollout.fault("a2", "failed")
    words = {"drain_by": "command", "drain_owner": "alice", "drain_reason": "driver 580"}
    words |= {"drain_command": f"{rollout.folder}/site-drain", "drain_return_command": f"{rollout.folder}/site-return"}
    done = rollout.run("-e", json.dumps(words), batches=[1, 1])
    assert done.returncode == 2 and reached(done.stdout) == {"a1": ALL}, done.stdout
    why = "gpuwright: planned work: driver 580 (alice)"
    # A node that did not come through stays drained.
    assert log.read_text().splitlines() == [f"drain a1: {why}", f"return a1: {why}", f"drain a2: {why}"]


@pytest.mark.parametrize("given", [(), ("-e", "gpuwright_busy=skip")], ids=["by default", "skip"])
def test_the_plan_of_a_busy_node_refuses_nothing_that_a_drain_would_end(
    rollout: Rollout, given: tuple[str, ...]
) -> None:
    """A new driver is a reason for preflight to refuse a node with a job; a rollout has not drained it yet then."""
    rollout.site.tasks("preflight", [{"ansible.builtin.debug": {"msg": "LOOKS {{ __preflight_busy }}"}}])
    done = rollout.run(*given, "-l", "a1")
    assert done.returncode == 0 and "LOOKS later" in done.stdout and "LOOKS skip" not in done.stdout, done.stdout


def test_a_node_that_cannot_be_drained_is_not_changed(rollout: Rollout) -> None:
    words = {"drain_by": "command", "drain_owner": "alice", "drain_command": "false", "drain_return_command": "true"}
    done = rollout.run("-e", json.dumps(words), batches=[1, 1])
    assert done.returncode == 2 and reached(done.stdout) == {}, done.stdout
    assert table(done.stdout) == {"failed": "a1", "not reached": "a2..a5"}
    assert "[drain.wait]" in rollout.record()["hosts"]["a1"]["why"]


@pytest.mark.parametrize("scheduler", ["slurm", "command"])
def test_a_lost_controller_is_a_failure_of_the_drain_and_no_lost_node(rollout: Rollout, scheduler: str) -> None:
    """Nobody answers on that port; the node itself is there."""
    words = {"drain_by": scheduler, "drain_owner": "alice", "drain_command": "true", "drain_return_command": "true"}
    words |= {"drain_controller": "127.0.0.2", "ansible_port": "1", "ansible_ssh_retries": "0"}
    done = rollout.run("-e", json.dumps(words), batches=[1, 1])
    assert done.returncode == 2 and reached(done.stdout) == {}, done.stdout
    assert table(done.stdout) == {"failed": "a1", "not reached": "a2..a5"}
    assert "[drain.node]" in rollout.record()["hosts"]["a1"]["why"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-e", '{"gpuwright_batches": [0]}'], "gpuwright_batches has 0, expected a list of whole numbers"),
        (["--tags", "system"], "[rollout.tags]"),
        (["-e", "gpuwright_batchs=1"], "did you mean gpuwright_batches? [rollout.variable]"),
    ],
)
def test_what_cannot_be_done_is_refused_before_any_host(rollout: Rollout, arguments: list[str], words: str) -> None:
    done = rollout.run(*arguments)
    said = " ".join(done.stdout.split())
    assert done.returncode == 1 and "Nothing was done: " in said and words in said
    assert said.count("ERROR!") == 1 and reached(done.stdout) == {}


def start(rollout: Rollout) -> subprocess.Popen[bytes]:
    """A rollout whose second batch hangs; returns once it does.

    A worker that is being started when Ctrl-C comes begins its task all the same, and Ansible waits for it.
    """
    rollout.fault("a2", "hangs")
    rollout.site.write()
    command = [str(PLAYBOOK), "-i", "hosts.yml", "playbooks/rollout.yml", "-e", '{"gpuwright_batches": [1, 2]}']
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment = {**kept, "HOME": str(rollout.folder), **rollout.environment()}
    with (rollout.folder / "out").open("w") as out:
        run = subprocess.Popen(
            command, cwd=rollout.folder, env=environment, stdout=out, stderr=out, start_new_session=True
        )
    deadline = time.monotonic() + 120
    while not list((rollout.folder / "logs").glob("*.json")) or rollout.states()["a2"] != "begun":
        assert run.poll() is None and time.monotonic() < deadline, (rollout.folder / "out").read_text()
        time.sleep(0.2)
    while not any(HANGING in words for words in commands_of(run.pid)):
        assert run.poll() is None and time.monotonic() < deadline, (rollout.folder / "out").read_text()
        time.sleep(0.1)
    return run


def commands_of(session: int) -> Iterator[str]:
    """The command lines of a session's processes."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            if os.getsid(int(folder.name)) == session:
                yield (folder / "cmdline").read_text().replace("\0", " ")


def test_ctrl_c_ends_with_the_table(rollout: Rollout) -> None:
    run = start(rollout)
    os.killpg(run.pid, signal.SIGINT)
    run.wait(180)
    out = (rollout.folder / "out").read_text()
    assert run.returncode != 0 and re.search(r"^  done +1  a1$", out, re.MULTILINE), out
    assert re.search(r"^  unfinished +2  a2, a3$", out, re.MULTILINE) and "not reached    2  a4, a5" in out
    assert out.count("To continue with those") == 1 and rollout.record()["ended"]


def test_a_killed_controller_leaves_a_record_that_a_second_start_continues(rollout: Rollout) -> None:
    run = start(rollout)
    second = rollout.run(batches=[1, 2])
    assert second.returncode == 1 and "[rollout.running]" in second.stdout, second.stdout
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    states = {"a1": "done", "a2": "begun", "a3": "begun", "a4": "pending", "a5": "pending"}
    assert rollout.states() == states and rollout.record()["ended"] == ""
    rollout.fault("a2", "")
    done = rollout.run(batches=[1, 2])
    assert done.returncode == 0 and sorted(reached(done.stdout)) == ["a2", "a3", "a4", "a5"], done.stdout
    assert set(rollout.states().values()) == {"done"}
