"""The role system_busy asks who works and waits, leaves the host out or goes on; run by ansible-playbook.

Who works is answered as told, look by look, so that work can begin and end between two looks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY
from given_facts import as_facts
from own_collection import own_collection, own_module

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
# One answer for each look, the last one again and again; what was asked is kept.
LOOK = """#!{python}
# WANT_JSON
import json, sys
from pathlib import Path
folder = Path({folder!r})
asked = [json.loads(line) for line in folder.joinpath("asked").read_text().splitlines()]
answers = json.loads(folder.joinpath("answers").read_text())
arguments = json.loads(Path(sys.argv[1]).read_text())
with folder.joinpath("asked").open("a") as file:
    file.write(json.dumps(arguments) + "\\n")
who = answers[min(len(asked), len(answers) - 1)]
more = who if isinstance(who, dict) else {{}}
who = more.pop("who", "") if more else who
row = {{"what": who, "pid": 7, "by_link": more.pop("by_link", False), "unreadable": more.pop("unreadable", "")}}
found = {{"in_way": [row] if who else [], "who": who, "msg": "in use by " + who if who else "", "users": ["bob"]}}
found.update(workloads=found["in_way"], environments={{}}, uptime_s=1.0, changed=False)
print(json.dumps({{**found, **more}}))
"""
ALICE = "python3.11 (pid 7, alice, since 2026-01-05T10:40:00Z)"


class Site:
    """Plays on this machine, with what is asked of it and what it answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        own_module(folder, "workload_info", LOOK.format(python=sys.executable, folder=str(folder)))
        self.log = ""

    def module(self, name: str, text: str) -> None:
        """A module that answers as told, in place of the toolkit's; it writes its name and check mode to `ran`."""
        note = f"open({str(self.folder / 'ran')!r}, 'a').write('{name} %s\\n' % ('check' if check else 'real'))"
        head = "import json, sys\narguments = json.load(open(sys.argv[1]))\ncheck = arguments['_ansible_check_mode']\n"
        program = f"#!{sys.executable}\n# WANT_JSON\n{head}{note}\nprint(json.dumps({text}))\n"
        own_module(self.folder, name, program)

    def ran(self) -> list[str]:
        file = self.folder / "ran"
        return file.read_text().splitlines() if file.exists() else []

    def play(self, answers: list[Any], tasks: list[dict[str, Any]], *arguments: str, **variables: Any) -> int:
        (self.folder / "answers").write_text(json.dumps(answers))
        (self.folder / "asked").write_text("")
        play = {"hosts": "all", "gather_facts": False, "become": False, "tasks": tasks}
        play["roles"] = [{"role": "gpuwright.node.preflight", "when": False}]
        (self.folder / "play.yml").write_text(yaml.safe_dump([play]))
        hosts = {"a5-01": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}}
        (self.folder / "inventory.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
        # A role of a layer would have the host read and its plan decided first.
        known = {"__system_busy_poll_seconds": 0, "gpu_node_plan": {}, **variables}
        command = [str(PLAYBOOK), "-i", str(self.folder / "inventory.yml"), str(self.folder / "play.yml"), *arguments]
        done = subprocess.run(
            [*command, "-e", json.dumps(as_facts(known))],
            cwd=REPOSITORY,
            env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
            capture_output=True,
            text=True,
            timeout=200,
        )
        self.log = done.stdout + done.stderr
        return done.returncode

    def ask(self, answers: list[str], *arguments: str, step: dict[str, Any] | None = None, **variables: Any) -> int:
        """A play that asks before it would write the file `done`, and writes `after` whatever becomes of that."""
        asking = {"name": "Ask", "ansible.builtin.include_role": {"name": "gpuwright.node.system_busy"}}
        asking["vars"] = {"system_busy_before": "replace the driver", "system_busy_touches": "gpu", **(step or {})}
        write = {"name": "Do it", "ansible.builtin.raw": f"touch '{self.folder}/done'"}
        after = {"name": "Go on", "ansible.builtin.raw": f"touch '{self.folder}/after'"}
        return self.play(
            answers, [asking, {**write, "when": "system_busy_held | length == 0"}, after], *arguments, **variables
        )

    @property
    def text(self) -> str:
        return " ".join(self.log.split())

    @property
    def looks(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "asked").read_text().splitlines()]

    def wrote(self) -> list[str]:
        return [name for name in ("done", "after") if (self.folder / name).exists()]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_nobody_is_in_the_way(site: Site) -> None:
    assert site.ask([""], preflight_agents=["nvitop"]) == 0, site.log
    assert site.wrote() == ["done", "after"] and len(site.looks) == 1 and "in use" not in site.text
    assert site.looks[0]["touches"] == "gpu" and site.looks[0]["agents"] == ["nvitop"]


# Whoever asked for it gets what was asked for, which is no failure; whoever did not is told by the exit code.
@pytest.mark.parametrize(("variables", "code"), [({}, 2), ({"gpuwright_busy": "skip"}, 0)])
def test_skip_leaves_the_host_out_and_says_who(site: Site, variables: dict, code: int) -> None:
    assert site.ask([ALICE], **variables) == code, site.log
    assert site.wrote() == [] and len(site.looks) == 1
    assert f"a5-01 is in use, so this run did not replace the driver: {ALICE}." in site.text
    assert "next: run again when the work has ended" in site.text and "-e gpuwright_busy=wait" in site.text


def test_wait_looks_again_until_the_work_has_ended(site: Site) -> None:
    variables: dict[str, Any] = {
        "gpuwright_busy": "wait",
        "gpuwright_busy_wait_seconds": 30,
        "__system_busy_poll_seconds": 1,
    }
    assert site.ask([ALICE, ALICE, ""], **variables) == 0, site.log
    assert site.wrote() == ["done", "after"] and len(site.looks) == 3
    assert "in use by python3.11 (pid 7, alice" in site.text


def test_wait_has_an_end(site: Site) -> None:
    variables: dict[str, Any] = {
        "gpuwright_busy": "wait",
        "gpuwright_busy_wait_seconds": 2,
        "__system_busy_poll_seconds": 1,
    }
    assert site.ask([ALICE], **variables) != 0
    assert site.wrote() == [] and len(site.looks) == 3
    assert "did not replace the driver (still after 2 s): python3.11" in site.text


def test_wait_for_no_time_looks_once(site: Site) -> None:
    variables: dict[str, Any] = {
        "gpuwright_busy": "wait",
        "gpuwright_busy_wait_seconds": 0,
        "__system_busy_poll_seconds": 1,
    }
    assert site.ask([ALICE, ""], **variables) != 0 and site.wrote() == []


def test_force_goes_on_without_what_ends_the_job(site: Site) -> None:
    assert site.ask([ALICE], gpuwright_busy="force") == 0, site.log
    assert site.wrote() == ["after"] and f"did not replace the driver: {ALICE}" in site.text


def test_force_does_what_only_disturbs(site: Site) -> None:
    assert site.ask([ALICE], step={"system_busy_ends": False}, gpuwright_busy="force") == 0, site.log
    assert site.wrote() == ["done", "after"] and f"In use by {ALICE}" in site.text


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("busy", ["skip", "wait"])
def test_a_role_that_can_do_without_is_not_left_out(site: Site, busy: str, ends: bool) -> None:
    step = {"system_busy_leaves_out": False, "system_busy_ends": ends}
    variables = {"gpuwright_busy": busy, "gpuwright_busy_wait_seconds": 1, "__system_busy_poll_seconds": 1}
    assert site.ask([ALICE], step=step, **variables) == 0, site.log
    assert site.wrote() == ["after"] and ALICE in site.text


@pytest.mark.parametrize("busy", ["skip", "wait", "force"])
def test_check_mode_only_says_it(site: Site, busy: str) -> None:
    assert site.ask([ALICE], "--check", gpuwright_busy=busy) == 0, site.log
    assert len(site.looks) == 1 and f"In use by {ALICE}; a run would then: {busy}" in site.text


def test_another_word_is_refused(site: Site) -> None:
    assert site.ask([ALICE], gpuwright_busy="kill") != 0
    assert site.wrote() == [] and site.looks == [] and "skip" in site.text and "kill" in site.text


def test_an_answer_is_not_that_of_an_earlier_step(site: Site) -> None:
    asking = {
        "ansible.builtin.include_role": {"name": "gpuwright.node.system_busy"},
        "vars": {"system_busy_before": "x"},
    }
    tell = {"ansible.builtin.debug": {"msg": "held=<{{ system_busy_held }}>"}}
    assert site.play([ALICE, ""], [asking, tell, asking, tell], gpuwright_busy="force") == 0, site.log
    assert "held=<a5-01 is in use" in site.text and site.text.count("held=<>") == 1


@pytest.mark.parametrize(
    ("busy", "variables", "code", "rebooted", "words"),
    [
        ("", {"users": []}, 0, True, ""),
        ("", {"policy": "auto"}, 0, False, "not done: logged in: bob; allow it with system_reboot_policy"),
        ("", {"policy": "allowed"}, 0, True, ""),
        (ALICE, {"policy": "allowed"}, 2, False, f"did not reboot it: {ALICE}"),
        (ALICE, {"policy": "auto"}, 2, False, f"did not reboot it: {ALICE}"),
        (ALICE, {"policy": "auto", "gpuwright_busy": "skip"}, 0, False, f"did not reboot it: {ALICE}"),
        (ALICE, {"policy": "allowed", "gpuwright_busy": "force"}, 0, False, "not done: a5-01 is in use, so"),
        (ALICE, {"policy": "auto", "verified": True}, 0, False, "not done: it is in service"),
        (ALICE, {"policy": "never", "gpuwright_busy": "force"}, 0, False, "not done: system_reboot_policy is never"),
    ],
)  # fmt: skip
def test_no_policy_ends_a_job(
    site: Site, tmp_path: Path, busy: str, variables: dict, code: int, rebooted: bool, words: str
) -> None:
    """system_reboot's own tasks; reboot and proof are marks in a folder, and the connection is not called local."""
    tasks = yaml.safe_load((REPOSITORY / "roles/system_reboot/tasks/main.yml").read_text())
    tasks[0]["ansible.builtin.set_fact"]["__system_reboot_refusal"] = tasks[0]["ansible.builtin.set_fact"][
        "__system_reboot_refusal"
    ].replace("ansible_connection in", "'ssh' in")
    site.module("reboot_node", "{'changed': True}")
    (tmp_path / "reboot.yml").write_text(yaml.safe_dump([{"ansible.builtin.raw": f"touch '{tmp_path}/proved'"}]))
    if variables.get("users") == []:
        look = own_collection(tmp_path) / "plugins/modules/workload_info.py"
        look.write_text(look.read_text().replace('["bob"]', "[]"))
    known = {
        "system_reboot_policy": variables.get("policy", "auto"),
        "system_reboot_timeout": 900,
        "gpu_node": {"verified": variables.get("verified", False)},
        "system_reboot_limit": 1,
        "system_reboot_reason": "the module is another one",
    }
    known.update({name: word for name, word in variables.items() if name == "gpuwright_busy"})
    assert site.play([busy], tasks, **known) == code, site.log
    assert site.ran() == ["reboot_node real"] * rebooted, site.log
    assert (tmp_path / "proved").exists() is rebooted and words in site.text, site.log
