"""The lock in real runs of ansible-playbook, several at once, on one made-up host whose /run is its own."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import healthy_node
import pytest
import yaml
from conftest import REPOSITORY
from play_roles import tasks_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a /run of its own needs a mount")
PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
RECORD = "/run/gpuwright/operator.json"
# The environment of the plays that change something; the roles between are a task that waits for a file.
ENVIRONMENT = yaml.safe_load((REPOSITORY / "playbooks/system.yml").read_text())[0]["environment"]
WAIT = "touch {0}/{1}.started; until [ -e {0}/{1}.go ]; do sleep 0.1; done"
# Of the process that started a training: the training itself gets none of a run's environment.
OF_MODULE = "tr '\\0' '\\n' < /proc/$PPID/environ | sed -n s/^GPUWRIGHT_RUN=//p"
# A batch asks its record before anything else, which is a file of the controller.
RECORD_FIRST = {"name": "gpuwright.node.rollout", "tasks_from": "begin"}
PLAYBOOKS = [path.stem for path in (REPOSITORY / "playbooks").glob("*.yml")]


# An empty /run, and a /var/lib of its own with the package manager's records, in which a first record finds them.
MOUNTS = (
    "mount -t tmpfs tmpfs /run && mkdir /run/dpkg && mount --bind /var/lib/dpkg /run/dpkg "
    "&& mount -t tmpfs tmpfs /var/lib && mkdir /var/lib/dpkg && mount --bind /run/dpkg /var/lib/dpkg"
)


class Host:
    """A mount namespace with /run and /var/lib of its own, in which runs of ansible-playbook find their node."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        hold = ["unshare", "-m", "sh", "-c", f"{MOUNTS} && echo ready && exec sleep 600"]
        self.holder = subprocess.Popen(hold, stdout=subprocess.PIPE, text=True)
        assert self.holder.stdout and self.holder.stdout.readline() == "ready\n"
        python = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        hosts = {"gpu_nodes": {"hosts": {"node": python}}}
        (folder / "hosts.yml").write_text(json.dumps(hosts))
        lines = f"collections_path = {REPOSITORY / 'collections'}\ncallbacks_enabled = gpuwright.node.lock\n"
        (folder / "ansible.cfg").write_text(f"[defaults]\n{lines}inventory = hosts.yml\n")

    def inside(self, *command: str) -> list[str]:
        return ["nsenter", "-t", str(self.holder.pid), "-m", f"--wdns={self.folder}", *command]

    def play(self, name: str, *shell: str) -> None:
        """A playbook of several plays; each takes the lock and then runs a shell script; the last one gives it back.

        As playbooks do it: in an `always` part.
        """
        base = {"hosts": "gpu_nodes", "gather_facts": False, "become": True, "environment": ENVIRONMENT}
        roles = ["gpuwright.node.operator_lock"]
        plays: list[dict] = [{**base, "roles": roles, "tasks": [{"ansible.builtin.shell": one}]} for one in shell]
        release = {"ansible.builtin.include_role": {"name": "gpuwright.node.operator_lock", "tasks_from": "release"}}
        plays[-1]["tasks"] = [{"block": plays[-1]["tasks"], "always": [release]}]
        (self.folder / name).write_text(json.dumps(plays))

    def start(self, name: str, *arguments: str) -> subprocess.Popen:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
        environment |= {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg")}
        out = (self.folder / f"{name}.log").open("w")
        command = self.inside(str(PLAYBOOK), name, *arguments)
        # nsenter becomes the program, so signals reach it.
        return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def run(self, name: str, *arguments: str) -> tuple[int, str]:
        """Exit status and output in one line."""
        rc = self.start(name, *arguments).wait(timeout=120)
        return rc, self.said(name)

    def said(self, name: str) -> str:
        return re.sub(r"\s+", " ", (self.folder / f"{name}.log").read_text())

    def record(self) -> dict:
        """Who holds the host; {} where nobody does."""
        done = subprocess.run(self.inside("cat", RECORD), capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else {}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    yield made
    for path in ("a", "b", "c"):
        (tmp_path / f"{path}.go").touch()
    made.holder.kill()
    made.holder.wait()


def wait_for(true: Callable[[], object], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def started(host: Host, name: str) -> subprocess.Popen:
    """A run that has taken the lock, and works until the file <name>.go is there."""
    host.play(f"{name}.yml", WAIT.format(host.folder, name), "echo second play of $GPUWRIGHT_RUN")
    run = host.start(f"{name}.yml", "-v")
    wait_for((host.folder / f"{name}.started").exists)
    return run


def test_two_at_once_end_with_one_done_and_one_refused_by_name(host: Host) -> None:
    first = started(host, "a")
    record = host.record()
    assert (record["pid"], record["playbook"], record["run"].split(":")[1]) == (first.pid, "a.yml", str(first.pid))
    host.play("b.yml", "touch changed")
    rc, said = host.run("b.yml")
    who = f"{record['who']} from {record['controller']} since {record['since']} (a.yml, process {first.pid})"
    assert rc != 0 and f"This host is being changed by {who}." in said, said
    assert "next: wait until it has ended, then: ansible-playbook b.yml -l node" in said
    # Who only looks is told, and not stopped.
    rc, said = host.run("b.yml", "--check")
    assert rc == 0 and f"node is being changed by {who}" in said, said
    now = host.record()
    assert not (host.folder / "changed").exists() and now == {**record, "seen_s": now["seen_s"]}
    # It was seen at work, and so its lease was renewed.
    assert now["seen_s"] > record["seen_s"]
    (host.folder / "a.go").touch()
    assert first.wait(timeout=90) == 0
    # Taken once and kept from play to play.
    assert f"second play of {record['run']}" in host.said("a.yml") and "taken over" not in host.said("a.yml")
    assert host.record() == {}
    assert host.run("b.yml")[0] == 0 and not host.record()


def test_break_takes_it_over_visibly_once_nothing_works_there(host: Host) -> None:
    first = started(host, "a")
    host.play("b.yml", "true")
    second = host.start("b.yml", "-e", "gpuwright_lock=break")
    wait_for(lambda: "waiting for them to end" in host.said("b.yml"))
    assert "are still working on this host" in host.said("b.yml") and host.record()["pid"] == first.pid
    # The old run is between two tasks now, or about to end.
    os.kill(first.pid, signal.SIGSTOP)
    (host.folder / "a.go").touch()
    assert second.wait(timeout=90) == 0
    assert re.search(r"node: lock taken over from \S+ from .* \(a\.yml, process \d+\)", host.said("b.yml"))
    os.kill(first.pid, signal.SIGCONT)
    first.wait(timeout=90)


def test_who_has_lost_the_lock_is_stopped_at_its_next_play(host: Host) -> None:
    other = {"run": "ctl-2:1:1", "who": "carol", "controller": "ctl-2", "machine": "x:y:1", "pid": 1, "started": "1"}
    other |= {"playbook": "site.yml", "since": "2026-11-22T06:30:00Z", "schema": 1}
    (host.folder / "other.json").write_text(json.dumps(other))
    script = (
        "import json; a = json.load(open('{0}')); b = json.load(open('other.json'));"
        "json.dump(dict(a, **b), open('{0}', 'w'))"
    )
    host.play("a.yml", f'{sys.executable} -c "{script.format(RECORD)}"', "touch changed")
    rc, said = host.run("a.yml")
    assert rc != 0 and "carol from ctl-2" in said and "another controller, ctl-2" in said, said
    assert not (host.folder / "changed").exists() and host.record()["who"] == "carol", "not this run's to give back"


def test_a_rerun_waits_for_what_a_killed_run_has_left_and_then_takes_it(host: Host) -> None:
    first = started(host, "a")
    first.kill()
    first.wait()
    assert host.record()["pid"] == first.pid
    host.play("b.yml", "echo here I am", "true")
    second = host.start("b.yml", "-v")
    wait_for(lambda: "waiting for them to end" in host.said("b.yml"))
    assert f"a run that was killed (pid {first.pid})" in host.said("b.yml")
    time.sleep(2)
    assert "here I am" not in host.said("b.yml") and host.record()["pid"] == first.pid
    (host.folder / "a.go").touch()
    assert second.wait(timeout=90) == 0
    assert "here I am" in host.said("b.yml") and not host.record()
    assert "the last run ended without releasing it" in host.said("b.yml")


def test_what_goes_on_without_any_worker_is_waited_for_up_to_the_limit_and_named(host: Host) -> None:
    """As a package transaction does whose connection was lost."""
    host.play("a.yml", f"setsid sh -c '{WAIT.format(host.folder, 'a')}' >/dev/null 2>&1 & sleep 1; exit 3")
    assert host.run("a.yml")[0] != 0
    assert host.record() == {}, "given back though the host has failed, and all hosts with it"
    host.play("b.yml", "touch changed")
    rc, said = host.run("b.yml", "-e", "operator_lock_wait_minutes=0")
    assert rc != 0 and "Waited 0 minutes, and sh (" in said and "of a run that has ended are still" in said, said
    assert not (host.folder / "changed").exists()
    (host.folder / "a.go").touch()
    rc, said = host.run("b.yml")
    assert rc == 0 and (host.folder / "changed").exists(), said


def test_after_an_interrupt_a_plain_rerun_goes_on(host: Host) -> None:
    first = started(host, "a")
    os.kill(first.pid, signal.SIGINT)
    assert first.wait(timeout=60) == 99
    (host.folder / "a.go").touch()
    host.play("b.yml", "true")
    rc, said = host.run("b.yml")
    assert rc == 0 and not host.record(), said


def test_a_slip_in_the_word_breaks_nothing(host: Host) -> None:
    host.play("a.yml", "touch changed")
    rc, said = host.run("a.yml", "-e", "gpuwright_lock=brake")
    assert rc != 0 and "gpuwright_lock is brake, expected break" in said
    assert not (host.folder / "changed").exists() and not host.record()


def on_node(host: Host, script: str) -> str:
    return subprocess.run(host.inside("sh", "-c", script), capture_output=True, text=True, check=True).stdout


def test_with_the_lock_comes_a_first_record_and_with_its_end_what_was_changed(host: Host) -> None:
    host.play("a.yml", "stat -c %a:%U /var/lib/gpuwright/first-record.json", "true")
    assert host.run("a.yml", "--check")[0] == 0 and "gpuwright" not in on_node(host, "ls /var/lib")
    rc, said = host.run("a.yml", "-v")
    assert rc == 0 and "600:root" in said and '"first_record": true' in said, said
    first = on_node(host, "sha256sum /var/lib/gpuwright/first-record.json")
    changes = json.loads(on_node(host, "cat /var/lib/gpuwright/changes.json"))
    assert (changes["run"], changes["before"]) == ("", None) and changes["after"]["packages"]
    rc, said = host.run("a.yml", "-v")
    assert rc == 0 and '"first_record": true' not in said
    assert on_node(host, "sha256sum /var/lib/gpuwright/first-record.json") == first


def test_without_a_first_record_nobody_gets_the_lock(host: Host) -> None:
    on_node(host, "mkdir /var/lib/gpuwright && mount -t tmpfs -o ro tmpfs /var/lib/gpuwright")
    host.play("a.yml", "touch changed")
    rc, said = host.run("a.yml")
    assert rc != 0 and "before the first change cannot be recorded in /var/lib/gpuwright" in said, said
    assert "[first_record.write]" in said and not (host.folder / "changed").exists() and not host.record()
    on_node(host, "umount /var/lib/gpuwright")
    assert host.run("a.yml")[0] == 0 and (host.folder / "changed").exists()


def test_a_damaged_record_stops_a_run_before_it_changes_anything(host: Host) -> None:
    host.play("a.yml", "true")
    assert host.run("a.yml")[0] == 0
    on_node(host, "echo '{' > /var/lib/gpuwright/changes.json")
    host.play("b.yml", "touch changed")
    rc, said = host.run("b.yml")
    assert rc != 0 and "changes.json, from which an uninstallation puts this node back, is damaged" in said, said
    assert "[first_record.damaged]" in said and not (host.folder / "changed").exists() and not host.record()
    # As the message says.
    on_node(host, "cd /var/lib/gpuwright && mv first-record.json first-record.json.damaged")
    assert host.run("b.yml")[0] == 0 and (host.folder / "changed").exists()
    record = json.loads(on_node(host, "cat /var/lib/gpuwright/first-record.json"))
    assert record["late"] == ["/var/lib/gpuwright/first-record.json.damaged"]


def test_a_record_of_a_later_version_stops_a_run_before_it_changes_anything(host: Host) -> None:
    host.play("a.yml", "true")
    assert host.run("a.yml")[0] == 0
    on_node(host, """sed -i 's/"schema":1/"schema":2/' /var/lib/gpuwright/changes.json""")
    host.play("b.yml", "touch changed")
    rc, said = host.run("b.yml")
    assert rc != 0 and "a later version of this toolkit has changed this node" in said, said
    assert "[first_record.newer]" in said and not (host.folder / "changed").exists() and not host.record()


def verification(host: Host, name: str, launcher: str, *more: str) -> None:
    """A playbook whose only task on nodes is a verification, as on a finished node; its training is a shell script."""
    script = host.folder / f"{name}.sh"
    script.write_text(f"#!/bin/sh\n{launcher}\n")
    script.chmod(0o755)
    test = {"python": "/v/python", "launcher": str(script), "user": "root", "device": "cpu", "unit": ""}
    task = {"expectations": healthy_node.EXPECTATIONS, "level": "quick", "smoke_test": test, "hold": "how"}
    how = {"state": "taken", "takeover": "{{ gpuwright_lock | default('') }}", "wait_minutes": 1}
    base = {"hosts": "gpu_nodes", "gather_facts": False, "become": True, "vars": {"how": how}}
    tasks = [{"gpuwright.node.gpu_verify": task}, *({"ansible.builtin.shell": one} for one in more)]
    (host.folder / name).write_text(json.dumps([{**base, "tasks": tasks}]))


def test_a_verification_alone_holds_the_host_as_long_as_it_lasts(host: Host) -> None:
    seen = f"cp {RECORD} {host.folder}/seen; {OF_MODULE} > {host.folder}/run"
    verification(host, "a.yml", f"{seen}; {WAIT.format(host.folder, 'a')}", f"test ! -e {RECORD}")
    first = host.start("a.yml", "-v")
    wait_for((host.folder / "a.started").exists)
    record = json.loads((host.folder / "seen").read_text())
    assert record["pid"] == first.pid and (host.folder / "run").read_text().strip() == record["run"]
    host.play("b.yml", "touch changed")
    rc, said = host.run("b.yml")
    assert rc != 0 and f"(a.yml, process {first.pid})" in said and not (host.folder / "changed").exists(), said
    # The other way round, too: in the words of the role, and without a verdict.
    verification(host, "c.yml", f"touch {host.folder}/changed")
    rc, said = host.run("c.yml")
    assert rc != 0 and f"This host is being changed by {record['who']}" in said and "[operator.busy]" in said, said
    assert "next: wait until it has ended, then: ansible-playbook c.yml -l node" in said
    assert host.record()["run"] == record["run"] and not (host.folder / "changed").exists()
    (host.folder / "a.go").touch()
    # It was free as soon as the verification had ended, whatever came after that in the same run.
    assert first.wait(timeout=90) == 0 and '"verdict": "FAIL"' in host.said("a.yml"), host.said("a.yml")
    assert host.record() == {} and "was not released" not in host.said("a.yml")


def test_a_verification_waits_for_what_a_dead_run_has_left(host: Host) -> None:
    host.play("a.yml", f"setsid sh -c '{WAIT.format(host.folder, 'a')}' >/dev/null 2>&1 & sleep 1; exit 3")
    assert host.run("a.yml")[0] != 0
    verification(host, "b.yml", f"touch {host.folder}/trained")
    second = host.start("b.yml")
    wait_for(lambda: "waiting for them to end" in host.said("b.yml"))
    assert not (host.folder / "trained").exists()
    (host.folder / "a.go").touch()
    assert second.wait(timeout=90) == 0 and (host.folder / "trained").exists()
    assert host.record() == {}
    changes = json.loads(on_node(host, "cat /var/lib/gpuwright/changes.json"))
    assert (changes["run"], changes["before"]) == ("", None)


def test_a_verification_that_cannot_hold_the_host_changes_nothing_and_holds_nothing(host: Host) -> None:
    on_node(host, "mkdir /var/lib/gpuwright && mount -t tmpfs -o ro tmpfs /var/lib/gpuwright")
    verification(host, "a.yml", f"sleep 3; touch {host.folder}/over")
    rc, said = host.run("a.yml")
    assert rc != 0 and "[first_record.write]" in said and not host.record(), said
    # A run in a container of this machine is seen here as one that has ended; after a wait, nothing is begun at all.
    assert (host.folder / "over").exists() or "waiting for them to end" in said, "the training was left behind"


def test_a_verification_in_check_mode_holds_nothing(host: Host) -> None:
    first = started(host, "a")
    verification(host, "b.yml", f"touch {host.folder}/trained")
    rc, said = host.run("b.yml", "--check")
    assert rc == 0 and "node is being changed by" in said and not (host.folder / "trained").exists(), said
    assert host.record()["pid"] == first.pid
    (host.folder / "a.go").touch()
    assert first.wait(timeout=90) == 0
    assert host.run("b.yml", "--check")[0] == 0 and host.record() == {}


@pytest.mark.parametrize("ends", [False, True])
def test_only_the_verification_that_ends_a_run_gives_back_what_a_role_took(host: Host, ends: bool) -> None:
    verification(host, "b.yml", f"{OF_MODULE} > {host.folder}/run; exit 3", f"test -e {RECORD} && touch still; true")
    host.play("a.yml", "true")
    first, second = [json.loads((host.folder / name).read_text())[0] for name in ("a.yml", "b.yml")]
    # Its verification, as in a rollout, is followed by other steps; that of playbooks/verify.yml is the last one.
    del first["tasks"][0]["always"]
    second["vars"] |= {"gpu_run_ends": True} if ends else {}
    (host.folder / "a.yml").write_text(json.dumps([first, second]))
    rc, said = host.run("a.yml")
    assert rc == 0 and (host.folder / "still").exists() is not ends, said
    assert bool(host.record()) is not ends
    assert (host.folder / "run").read_text().startswith(f"{platform.node()[:100]}:")
    changes = json.loads(on_node(host, "cat /var/lib/gpuwright/changes.json"))
    assert (changes["run"] == "") is ends
    # Nobody but this controller knows that the run is over: it goes on at once.
    host.play("c.yml", "true")
    rc, said = host.run("c.yml")
    assert rc == 0 and host.record() == {}, said


@pytest.mark.parametrize(
    ("read_by", "arguments", "does", "kept"),
    [
        # A layer by itself has read the host; in site.yml the first play has, and the verification follows.
        ("Layer", (), "true", False),
        ("Preflight", (), "true", True),
        ("Preflight", (), "false", False),
        ("Preflight", ("--tags", "system"), "true", False),
        ("Preflight", ("--skip-tags", "verify"), "true", False),
    ],
)
def test_a_layer_gives_it_back_where_it_failed_or_no_verification_follows(
    host: Host, read_by: str, arguments: tuple[str, ...], does: str, kept: bool
) -> None:
    host.play("a.yml", "true")
    (play,) = json.loads((host.folder / "a.yml").read_text())
    facts = {"name": "Read", "ansible.builtin.set_fact": {"cacheable": True, "gpu_node_settled": {"play": read_by}}}
    (layer,) = yaml.safe_load((REPOSITORY / "playbooks" / "system.yml").read_text())
    (whole,) = layer["tasks"]
    # The end of the layer as its playbook has it, after one task for all its roles.
    whole["block"] = [{"ansible.builtin.command": does}, whole["block"][-1]]
    play |= {"name": "Layer", "tasks": [facts, whole], "tags": ["system"], "vars": {"preflight_layer": "system"}}
    (host.folder / "a.yml").write_text(json.dumps([play]))
    rc, said = host.run("a.yml", *arguments)
    assert (rc == 0) is (does == "true") and bool(host.record()) is kept, said


def test_a_run_of_another_controller_is_over_after_the_quiet_time(host: Host) -> None:
    """Ten minutes after its last call and its last process; until then, nobody else gets the host."""
    other = {"run": "ctl-2:1:1", "who": "carol", "controller": "ctl-2", "machine": "x:y:1", "pid": 1, "started": "1"}
    other |= {"playbook": "site.yml", "since": "2026-11-22T06:30:00Z"}
    script = "import json; a = json.load(open('{0}')); json.dump(dict(a, seen_s=a['seen_s'] - {1}), open('{0}', 'w'))"
    host.play("a.yml", "true")
    host.play("b.yml", "touch changed")
    plays = json.loads((host.folder / "a.yml").read_text())
    del plays[0]["tasks"][0]["always"]
    (host.folder / "a.yml").write_text(json.dumps(plays))
    assert host.run("a.yml")[0] == 0
    record = {**host.record(), **other}
    on_node(host, f"cat > {RECORD} <<'END'\n{json.dumps(record)}\nEND")
    for seconds, given in ((500, False), (101, True)):
        on_node(host, f'{sys.executable} -c "{script.format(RECORD, seconds)}"')
        rc, said = host.run("b.yml")
        assert (rc == 0) is given and (host.folder / "changed").exists() is given, said
    assert host.record() == {}


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_every_play_that_changes_hosts_takes_it_before_any_other_role(name: str) -> None:
    reading = {"preflight", "plan", "knowledge", "lock", "kickstart", "drift", "software", "bundle"}
    # Their first plays only look; the other one is that of the rollout. That of a sweep returns what an earlier one has
    # left in the scheduler, under the lock of that node (roles/sweep/tasks/left.yml).
    reading |= {"upgrade", "patch", "sweep"}
    for play in yaml.safe_load((REPOSITORY / f"playbooks/{name}.yml").read_text()):
        if "ansible.builtin.import_playbook" in play:
            continue
        tasks = [task for task in play.get("pre_tasks", []) if task.get("ansible.builtin.import_role") != RECORD_FIRST]
        tasks += tasks_of(play)
        imported = [task.get("ansible.builtin.import_role") for task in tasks]
        roles = [entry["role"] for entry in play.get("roles", [])] or [role["name"] for role in imported if role]
        if name == "scan":
            # Of anybody's hosts: no role of it changes one, so it takes no lock and leaves none.
            assert not roles and [task["ansible.builtin.include_role"]["tasks_from"] for task in play["tasks"]] == [
                "scan"
            ]
        elif name == "verify" and "environment" not in play:
            # Its module takes the lock by itself, where no play before has it; to end with a verdict takes none.
            assert roles == ["gpuwright.node.verify"]
            assert imported[0] and imported[0]["tasks_from"] in ("judge", "verdict")
        elif name in reading:
            entries = [entry for entry in play.get("roles", []) if entry["role"] == "gpuwright.node.operator_lock"]
            assert all(entry["vars"] == {"operator_lock_take": False} for entry in entries)
            assert "environment" not in play
        else:
            assert roles[:2] == ["gpuwright.node.preflight", "gpuwright.node.operator_lock"]
            steps = play.get("roles") or tasks
            assert len(steps) > 2
            second = steps[1]
            # Where no part of the play has another tag, it is taken for that tag alone.
            ends = ["verify"] if name == "verify" else ["always"]
            assert second["tags"] == ends and "when" not in second and "vars" not in second
            assert play["environment"] == ENVIRONMENT and "operator_run" not in str(play)
