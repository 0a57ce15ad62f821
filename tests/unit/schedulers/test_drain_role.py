"""The role drain, run by ansible-playbook against stand-ins of Slurm and kubectl; tests/schedulers has a real Slurm."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY
from kubectl_stand_in import Kubernetes
from slurm_stand_in import Slurm

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
PLANNED = "gpuwright: planned work: driver 580 (alice)"
CHECK = "gpuwright: kernel.xid: Run: reboot"
NOTE = "gpuwright.node/planned-work"


class Site:
    """Plays on this machine, which write the fact that the role leaves after each step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.slurm = Slurm(folder)
        self.kubernetes = Kubernetes(folder)
        for name in ("n1", "n2"):
            self.slurm.node(name)
            self.kubernetes.node(name)
        self.log = ""
        self.results: list[dict[str, Any]] = []

    def play(self, *steps: str, check: bool = False, **variables: Any) -> int:
        tasks: list[dict[str, Any]] = []
        for step in steps:
            include = {"name": "gpuwright.node.drain", "tasks_from": f"{step}.yml"}
            tasks.append({"name": step, "ansible.builtin.include_role": include})
            write = f"printf '%s\\n' {{{{ drain_result | to_json | quote }}}} >> '{self.folder}/results'"
            tasks.append({"name": "Write the fact", "ansible.builtin.raw": write, "check_mode": False})
            tasks[-1]["changed_when"] = False
        play = {"hosts": "all", "gather_facts": False, "become": False, "tasks": tasks}
        play["hosts"] = "n1"
        (self.folder / "play.yml").write_text(yaml.safe_dump([play]))
        hosts = {"n1": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}}
        hosts["ctl"] = {**hosts["n1"], "ansible_connection": "ssh", "ansible_ssh_executable": str(self.folder / "ssh")}
        (self.folder / "inventory.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
        known = {"drain_owner": "alice", "drain_reason": "driver 580", "__drain_poll_seconds": 1, **variables}
        known.setdefault("drain_wait_seconds", 2)
        command = [str(PLAYBOOK), "-i", str(self.folder / "inventory.yml"), str(self.folder / "play.yml")]
        command += ["-e", json.dumps(known), *(["--check"] if check else [])]
        environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "PATH": f"{self.slurm.folder}:{os.environ['PATH']}"}
        done = subprocess.run(
            command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=200, check=False
        )
        self.log = done.stdout + done.stderr
        written = self.folder / "results"
        self.results = [json.loads(line) for line in written.read_text().splitlines()] if written.exists() else []
        written.unlink(missing_ok=True)
        return done.returncode

    @property
    def text(self) -> str:
        return " ".join(self.log.split())

    @property
    def changed(self) -> int:
        return int(re.findall(r"changed=(\d+)", self.log)[-1])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_without_a_scheduler_nothing_is_asked(site: Site) -> None:
    assert site.play("drain", "return", drain_owner="") == 0, site.log
    assert site.slurm.read()["log"] == [] and site.kubernetes.changes() == [] and site.changed == 0
    assert site.results[0] == {"by": "none", "node": "n1", "drained": False, "own": False, "new": False, "reason": ""}


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"drain_by": "slurm", "drain_owner": " "}, "Set drain_owner"),
        ({"drain_by": "command"}, "Set both"),
        ({"drain_by": "command", "drain_command": "true"}, "Set both"),
        ({"drain_by": "pbs"}, 'drain_by is "pbs", and must be one of none, slurm, kubernetes, command'),
        ({"drain_by": "slurm", "drain_node": "n9"}, "there is no such node"),
        ({"drain_by": "kubernetes", "drain_node": "n9"}, 'nodes "n9" not found'),
    ],
)
def test_what_cannot_be_drained_is_refused(site: Site, variables: dict, words: str) -> None:
    assert site.play("drain", **variables) == 2 and words in site.text.replace('\\"', '"')
    assert site.slurm.updates() == [] and site.kubernetes.changes() == []


# -- A controller that is reached by ssh -------------------------------------------------------------------------------


def lose(site: Site, calls: Iterable[int], *, late: bool = False) -> None:
    """Let the stand-in of ssh lose these calls, counted from 1; it runs the others here, and late ones, too."""
    ssh = site.folder / "ssh"
    ssh.write_text(f"""#!/bin/sh
for last; do :; done
echo call >> {site.folder}/calls
export PATH={site.slurm.folder}:$PATH
case " {" ".join(map(str, calls))} " in
*" $(grep -c . {site.folder}/calls) "*) {'/bin/sh -c "$last" > /dev/null;' if late else ""} echo lost >&2; exit 255 ;;
esac
exec /bin/sh -c "$last"
""")
    ssh.chmod(0o755)
    (site.folder / "calls").unlink(missing_ok=True)


AFAR: dict[str, Any] = {"drain_controller": "ctl", "__drain_become": False}


def test_a_short_loss_of_the_controller_is_tried_again(site: Site) -> None:
    lose(site, [1, 3])
    assert site.play("drain", "return", drain_by="slurm", **AFAR) == 0, site.log
    assert site.slurm.drained() == [] and [row["drained"] for row in site.results] == [True, False]


def test_work_whose_answer_was_lost_is_known_as_that_of_this_run(site: Site) -> None:
    lose(site, [2], late=True)
    assert site.play("drain", "undo", drain_by="slurm", drain_only_idle=True, **AFAR) == 0, site.log
    assert site.results[0]["new"] and site.results[0]["own"] and site.slurm.drained() == []
    lose(site, [2, 4, 7], late=True)
    assert site.play("drain", "return", drain_by="kubernetes", **AFAR) == 0, site.log
    assert site.kubernetes.changes().count("uncordon") == 2 and site.kubernetes.get("n1")["spec"] == {}
    assert site.kubernetes.get("n1")["metadata"]["annotations"] == {}


RESUME = "`scontrol update NodeName=n1 State=RESUME`"
UNCORDON = f" && kubectl uncordon n1 && kubectl annotate node n1 {NOTE}-`"


@pytest.mark.parametrize(
    ("scheduler", "steps", "first", "said"),
    [
        ("slurm", ["drain"], 3, RESUME),
        ("slurm", ["drain", "return"], 5, RESUME),
        ("slurm", ["drain", "return"], 6, RESUME),
        ("kubernetes", ["drain"], 2, UNCORDON),
        ("kubernetes", ["drain"], 3, UNCORDON),
        ("kubernetes", ["drain", "return"], 5, UNCORDON),
        ("command", ["drain"], 1, "`GPUWRIGHT_NODE=n1 GPUWRIGHT_REASON='gpuwright: planned work: "),
        ("command", ["drain", "return"], 2, "/online`"),
    ],
)
def test_a_long_loss_of_the_controller_fails_the_node_and_names_the_way_back(
    site: Site, scheduler: str, steps: list[str], first: int, said: str
) -> None:
    lose(site, range(first, 60))
    words: dict[str, Any] = {"drain_by": scheduler, "ansible_ssh_retries": 0, **AFAR, **commands(site, "exit 0")}
    assert site.play(*steps, **words) == 2, site.log
    assert re.search(r"unreachable=0 +failed=1", site.log) and "[drain.node]" in site.text, site.log
    assert said in site.text and "ssh: lost" in site.text, site.log
    assert len(site.results) == len(steps) - 1, "the step that is lost is the last one"


def test_a_node_that_has_kept_the_reason_of_earlier_work_is_drained(site: Site) -> None:
    """As one that is down: of the same work, the reason is the same text."""
    site.slurm.node("n1", "down", PLANNED)
    assert site.play("drain", drain_by="slurm") == 0, site.log
    assert site.slurm.drained() == ["n1"] and "State=DRAIN" in site.slurm.updates()[-1]


@pytest.mark.parametrize("scheduler", ["slurm", "kubernetes", "command"])
def test_a_wait_that_is_lost_takes_the_drain_back(site: Site, scheduler: str) -> None:
    lose(site, [1 if scheduler == "command" else 3])
    words: dict[str, Any] = {"drain_by": scheduler, "ansible_ssh_retries": 0, **AFAR, **commands(site, "exit 0")}
    assert site.play("drain", **words) == 2, site.log
    assert re.search(r"unreachable=0 +failed=1", site.log) and "[drain.wait]" in site.text, site.log
    assert "ssh: lost" in site.text
    assert site.slurm.drained() == [] and site.kubernetes.get("n1")["spec"] == {}
    assert [line.split()[0] for line in ran(site)] == (["online"] if scheduler == "command" else [])


def test_an_uncordon_that_is_refused_leaves_the_note(site: Site) -> None:
    site.kubernetes.node("n1", True, {NOTE: PLANNED})
    site.kubernetes.change(refuses={"uncordon": "the server is overloaded"})
    assert site.play("return", drain_by="kubernetes") == 2
    assert "the server is overloaded" in site.text
    assert site.kubernetes.get("n1")["metadata"]["annotations"] == {NOTE: PLANNED}


# -- Slurm -------------------------------------------------------------------------------------------------------------


def test_slurm_is_drained_waited_for_and_returned(site: Site) -> None:
    site.slurm.change(jobs={"n1": ["7 of bob (RUNNING)"]}, after=[["7 of bob (COMPLETING)"], []])
    assert site.play("drain", "return", drain_by="slurm", drain_wait_seconds=20) == 0, site.log
    assert site.results[0] == {
        "by": "slurm",
        "node": "n1",
        "drained": True,
        "own": True,
        "new": True,
        "reason": PLANNED,
    }
    assert site.results[1] == {"by": "slurm", "node": "n1", "drained": False, "own": False, "new": False, "reason": ""}
    assert site.slurm.updates() == [
        ["NodeName=n1", "State=DRAIN", f"Reason={PLANNED}"],
        ["NodeName=n1", "State=RESUME"],
    ]
    assert site.changed == 2 and site.slurm.drained() == []


def test_a_second_drain_and_a_second_return_change_nothing(site: Site) -> None:
    site.slurm.node("n1", "idle+drain", PLANNED, since=time.time())
    assert site.play("drain", drain_by="slurm") == 0, site.log
    assert site.changed == 0 and site.results[0]["own"] and site.slurm.updates() == []
    site.slurm.node("n1")
    assert site.play("return", drain_by="slurm") == 0, site.log
    assert site.changed == 0 and site.slurm.updates() == []


@pytest.mark.parametrize("reason", ["bob: fan", "Prolog error", "gpuwright"])
def test_an_administrators_drain_is_left_and_said(site: Site, reason: str) -> None:
    site.slurm.node("n1", "idle+drain", reason, since=time.time())
    assert site.play("drain", "return", drain_by="slurm") == 0, site.log
    assert site.slurm.updates() == [] and site.changed == 0 and site.slurm.get("n1")["reason"] == reason
    assert f"is drained by somebody else ({reason})" in site.text and "is not returned" in site.text
    assert [result["own"] for result in site.results] == [False, False]
    assert [result["drained"] for result in site.results] == [True, True]


def test_the_drain_of_a_check_is_taken_over_and_put_back_if_the_node_is_not_empty(site: Site) -> None:
    site.slurm.node("n1", "allocated+drain", CHECK, since=time.time())
    assert site.play("drain", drain_by="slurm") == 0, site.log
    assert site.slurm.get("n1")["reason"] == PLANNED
    site.slurm.node("n1", "allocated+drain", CHECK, since=time.time())
    site.slurm.change(jobs={"n1": ["7 of bob (RUNNING)"]})
    assert site.play("drain", drain_by="slurm", drain_wait_seconds=1) == 2
    assert site.slurm.get("n1")["reason"] == CHECK and site.slurm.drained() == ["n1"]


def test_after_the_deadline_the_own_drain_is_taken_back(site: Site) -> None:
    site.slurm.change(jobs={"n1": ["7 of bob (RUNNING)", "8 of eve (SUSPENDED)"]})
    assert site.play("drain", drain_by="slurm", drain_wait_seconds=1) == 2
    assert (
        "did not become empty within drain_wait_seconds (1 s): on it: 7 of bob (RUNNING), 8 of eve (SUSPENDED)."
        in site.text
    )
    assert "Its drain was taken back" in site.text and "[drain.wait]" in site.text
    assert site.slurm.drained() == [] and site.results == []


def test_after_the_deadline_an_administrators_drain_stays(site: Site) -> None:
    site.slurm.node("n1", "allocated+drain", "bob: fan", since=time.time())
    site.slurm.change(jobs={"n1": ["7 of bob (RUNNING)"]})
    assert site.play("drain", drain_by="slurm", drain_wait_seconds=0) == 2
    assert "It stays drained by somebody else" in site.text and site.slurm.updates() == []


@pytest.mark.parametrize(
    ("state", "reason"),
    [("allocated", "none"), ("idle+planned", "none"), ("idle*", "none"), ("idle+drain", "bob: fan"),
     ("idle+drain", CHECK), ("idle+drain", PLANNED)],
)  # fmt: skip
def test_only_an_idle_node_is_taken_where_that_is_asked_for(site: Site, state: str, reason: str) -> None:
    site.slurm.node("n1", state, reason, since=time.time())
    site.slurm.change(jobs={"n1": ["7 of bob (RUNNING)"]})
    assert site.play("drain", drain_by="slurm", drain_only_idle=True) == 0, site.log
    assert site.slurm.updates() == [] and site.changed == 0 and not site.results[0]["own"]


def test_an_idle_node_on_which_a_job_begins_meanwhile_is_given_back_at_once(site: Site) -> None:
    site.slurm.change(jobs={"n1": ["7 of bob (CONFIGURING)"]})
    begun = time.monotonic()
    assert site.play("drain", drain_by="slurm", drain_only_idle=True, drain_wait_seconds=3600) == 0, site.log
    assert time.monotonic() - begun < 60 and [words[1] for words in site.slurm.updates()] == [
        "State=DRAIN",
        "State=RESUME",
    ]
    assert not site.results[0]["own"] and not site.results[0]["drained"] and site.slurm.drained() == []


def test_a_node_that_is_found_bad_is_kept_and_returned_by_no_run(site: Site) -> None:
    words: dict[str, Any] = {
        "drain_by": "slurm",
        "drain_only_idle": True,
        "drain_finding": "sweep: accept.product: other bits",
    }
    assert site.play("drain", "keep", "keep", "return", **words) == 0, site.log
    assert site.slurm.get("n1")["reason"] == "gpuwright: sweep: accept.product: other bits"
    assert site.slurm.drained() == ["n1"] and len(site.slurm.updates()) == 2
    # What somebody else has drained meanwhile keeps that reason.
    site.slurm.node("n1", "idle+drain", "bob: fan", since=time.time())
    assert site.play("drain", "keep", **words) == 0 and site.slurm.get("n1")["reason"] == "bob: fan", site.log


BOBS = {"state": "idle+drain", "reason": "bob: fan"}


@pytest.mark.parametrize("only_idle", [True, False])
@pytest.mark.parametrize("program", ["sinfo", "squeue"], ids=["before ours", "after ours"])
def test_a_persons_drain_in_the_same_moment_is_left_alone(site: Site, program: str, only_idle: bool) -> None:
    site.slurm.change(meanwhile=[[program, "n1", BOBS]])
    assert site.play("drain", "undo", "keep", "return", drain_by="slurm", drain_only_idle=only_idle) == 0, site.log
    assert site.slurm.get("n1")["reason"] == "bob: fan" and site.slurm.drained() == ["n1"]
    assert [words[1] for words in site.slurm.updates()] == (["State=DRAIN"] if program == "squeue" else [])
    assert [result["own"] for result in site.results] == [False] * 4 and site.results[0]["reason"] == "bob: fan"


@pytest.mark.parametrize("step", ["return", "keep", "undo"])
def test_a_persons_drain_in_the_moment_of_the_return_is_left_alone(site: Site, step: str) -> None:
    # A drain asks three times, and each of the others once before it acts.
    later = [["sinfo", "n2", {}]] * 3 + [["sinfo", "n1", BOBS]]
    site.slurm.change(meanwhile=later)
    assert site.play("drain", step, drain_by="slurm", drain_finding="sweep: fan") == 0, site.log
    assert site.slurm.get("n1")["reason"] == "bob: fan" and site.slurm.drained() == ["n1"], site.log
    assert len(site.slurm.updates()) == 1


def test_a_job_that_begins_while_a_person_drains_takes_nothing_back(site: Site) -> None:
    site.slurm.change(jobs={"n1": ["7 of bob (CONFIGURING)"]}, meanwhile=[["squeue", "n1", BOBS]])
    assert site.play("drain", drain_by="slurm", drain_only_idle=True) == 0, site.log
    assert site.slurm.get("n1")["reason"] == "bob: fan" and site.slurm.drained() == ["n1"]


@pytest.mark.parametrize("program", ["sinfo", "squeue"])
def test_a_node_that_somebody_returns_in_the_same_moment_is_not_worked_on(site: Site, program: str) -> None:
    site.slurm.node("n1", "idle+drain", CHECK, since=time.time())
    site.slurm.change(meanwhile=[[program, "n1", {"state": "idle", "reason": "none"}]])
    assert site.play("drain", drain_by="slurm") == 2 and "[drain.changed]" in site.text
    assert site.slurm.drained() == []


def test_before_any_work_a_drain_of_this_run_is_taken_back_and_an_older_one_stays(site: Site) -> None:
    assert site.play("drain", "undo", "undo", drain_by="slurm") == 0, site.log
    assert site.slurm.drained() == [] and len(site.slurm.updates()) == 2 and not site.results[1]["drained"]
    site.slurm.node("n1", "idle+drain", CHECK, since=time.time())
    assert site.play("drain", "undo", drain_by="slurm") == 0 and site.slurm.get("n1")["reason"] == CHECK, site.log
    # Half of a work that failed.
    site.slurm.node("n1", "idle+drain", PLANNED, since=time.time())
    assert site.play("drain", "undo", drain_by="slurm") == 0 and site.slurm.get("n1")["reason"] == PLANNED, site.log


def test_a_controller_that_does_not_answer_is_no_empty_node(site: Site) -> None:
    site.slurm.change(refuses="Unable to contact slurm controller (connect failure)")
    assert site.play("drain", drain_by="slurm") == 2
    assert "Unable to contact slurm controller" in site.text and "[drain.node]" in site.text


def test_check_mode_is_true_and_changes_nothing(site: Site) -> None:
    site.slurm.change(jobs={"n1": ["7 of bob (RUNNING)"]})
    assert site.play("drain", "return", check=True, drain_by="slurm") == 0, site.log
    assert site.slurm.updates() == [] and site.changed == 1 and "State=DRAIN" in site.text
    assert [(result["drained"], result["own"]) for result in site.results] == [(False, False)] * 2
    site.slurm.node("n1", "idle+drain", PLANNED, since=time.time())
    assert site.play("return", check=True, drain_by="slurm") == 0, site.log
    assert site.slurm.updates() == [] and site.changed == 1 and site.results[0]["drained"]


# -- Kubernetes --------------------------------------------------------------------------------------------------------


def test_kubernetes_is_cordoned_drained_and_returned(site: Site) -> None:
    site.kubernetes.change(pods=["gan-train-0"])
    assert site.play("drain", drain_by="kubernetes", drain_wait_seconds=900) == 0, site.log
    node = site.kubernetes.get("n1")
    assert node["spec"] == {"unschedulable": True} and node["metadata"]["annotations"] == {NOTE: PLANNED}
    condition = site.kubernetes.condition("n1")
    assert (condition["status"], condition["message"]) == ("True", PLANNED)
    assert site.kubernetes.changes() == ["patch", "annotate", "cordon", "drain"]
    drain = next(words for words in site.kubernetes.read()["log"] if words[0] == "drain")
    assert drain == ["drain", "n1", "--timeout=900s", "--ignore-daemonsets", "--delete-emptydir-data"]
    assert site.results[0] == {
        "by": "kubernetes",
        "node": "n1",
        "drained": True,
        "own": True,
        "new": True,
        "reason": PLANNED,
    }
    assert site.play("return", drain_by="kubernetes") == 0, site.log
    node = site.kubernetes.get("n1")
    assert node["spec"] == {} and node["metadata"]["annotations"] == {}
    assert site.kubernetes.condition("n1")["status"] == "False" and not site.results[0]["drained"]


def test_a_second_time_kubernetes_changes_nothing(site: Site) -> None:
    site.kubernetes.node("n1", True, {NOTE: PLANNED})
    assert site.play("drain", drain_by="kubernetes") == 0, site.log
    assert site.changed == 0 and site.results[0]["own"]
    site.kubernetes.node("n1")
    assert site.play("return", drain_by="kubernetes") == 0, site.log
    assert site.changed == 0 and site.kubernetes.changes() == ["drain"]


def test_before_any_work_only_the_cordon_of_this_run_is_taken_back(site: Site) -> None:
    assert site.play("drain", "undo", drain_by="kubernetes") == 0, site.log
    assert site.kubernetes.get("n1")["spec"] == {} and site.kubernetes.get("n1")["metadata"]["annotations"] == {}
    site.kubernetes.node("n1", True, {NOTE: PLANNED})
    assert site.play("drain", "undo", drain_by="kubernetes") == 0, site.log
    assert site.kubernetes.get("n1")["spec"] == {"unschedulable": True}


def test_an_administrators_cordon_is_left_and_said(site: Site) -> None:
    site.kubernetes.node("n1", True)
    assert site.play("drain", "return", drain_by="kubernetes") == 0, site.log
    assert site.kubernetes.get("n1")["spec"] == {"unschedulable": True} and site.kubernetes.changes() == ["drain"]
    assert "is cordoned by somebody else" in site.text and "is not returned" in site.text


@pytest.mark.parametrize("own", [True, False])
def test_pods_that_stay_are_named_and_only_our_cordon_is_taken_back(site: Site, own: bool) -> None:
    site.kubernetes.node("n1", not own)
    site.kubernetes.change(pods=["gan-train-0", "web-1"], stays=["web-1"])
    assert site.play("drain", drain_by="kubernetes", drain_wait_seconds=0) == 2
    said = site.text.replace('\\"', '"')
    assert 'pods/"web-1"' in said and "disruption budget" in said and "[drain.wait]" in said
    assert ("Its cordon was taken back" in said) is own
    assert site.kubernetes.get("n1")["spec"] == ({} if own else {"unschedulable": True})
    # 0 would be no limit for kubectl.
    assert "--timeout=1s" in next(words for words in site.kubernetes.read()["log"] if words[0] == "drain")


def test_check_mode_leaves_kubernetes_as_it_is(site: Site) -> None:
    assert site.play("drain", check=True, drain_by="kubernetes") == 0, site.log
    assert site.kubernetes.changes() == [] and site.changed == 1 and not site.results[0]["drained"]
    site.kubernetes.node("n1", True, {NOTE: PLANNED})
    assert site.play("return", check=True, drain_by="kubernetes") == 0, site.log
    assert site.kubernetes.changes() == [] and site.changed == 1 and site.results[0]["drained"]


# -- a command of the site ---------------------------------------------------------------------------------------------


def commands(site: Site, drain: str) -> dict[str, Any]:
    """Two programs that write what they were told to `ran`."""
    for name, then in (("offline", drain), ("online", "exit 0")):
        program = site.folder / name
        program.write_text(f'#!/bin/sh\necho "{name} $GPUWRIGHT_NODE $GPUWRIGHT_REASON" >> {site.folder}/ran\n{then}\n')
        program.chmod(0o755)
    return {"drain_command": f"{site.folder}/offline", "drain_return_command": f"{site.folder}/online"}


def ran(site: Site) -> list[str]:
    file = site.folder / "ran"
    return file.read_text().splitlines() if file.exists() else []


def test_a_command_drains_and_returns(site: Site) -> None:
    words = commands(site, "exit 0")
    assert site.play("drain", "return", drain_by="command", **words) == 0, site.log
    assert ran(site) == [f"offline n1 {PLANNED}", f"online n1 {PLANNED}"]
    assert [result["own"] for result in site.results] == [True, False]


@pytest.mark.parametrize(
    ("then", "said"), [("echo no licence >&2; exit 3", "no licence"), ("exec sleep 4242", "it took longer")]
)
def test_a_command_that_fails_or_takes_too_long_is_undone(site: Site, then: str, said: str) -> None:
    assert site.play("drain", drain_by="command", drain_wait_seconds=2, **commands(site, then)) == 2
    assert [line.split()[0] for line in ran(site)] == ["offline", "online"]
    assert said in site.text and "[drain.wait]" in site.text, site.log
    # A command whose time is over does not go on working.
    assert subprocess.run(["pgrep", "-f", "^sleep 4242$"], capture_output=True).returncode == 1


def test_before_any_work_the_drain_of_a_command_is_taken_back_once(site: Site) -> None:
    assert site.play("drain", "undo", "undo", drain_by="command", **commands(site, "exit 0")) == 0, site.log
    assert [line.split()[0] for line in ran(site)] == ["offline", "online"]


def test_a_command_returns_only_what_this_run_drained(site: Site) -> None:
    assert site.play("return", drain_by="command", **commands(site, "exit 0")) == 0, site.log
    assert ran(site) == [] and "was not drained by this run" in site.text


def test_check_mode_runs_no_command(site: Site) -> None:
    assert site.play("drain", "return", check=True, drain_by="command", **commands(site, "exit 0")) == 0, site.log
    assert ran(site) == [] and site.changed == 1
