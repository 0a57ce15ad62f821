"""preflight.yml with a finished host beside others: what concerns some hosts ends no run, and all remarks are told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from own_collection import own_collection

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
# Answers as the inventory says; no host is contacted.
ACTION = """
from ansible.plugins.action import ActionBase
class ActionModule(ActionBase):
    _requires_connection = False
    def run(self, tmp=None, task_vars=None):
        return {"changed": False, "ansible_facts": task_vars["facts"]}
"""
REMARK = {"problem": "somebody works there", "evidence": "", "next": "", "stops": False}
WRONG = {"problem": "wrong [variable.value]", "evidence": "", "next": "Correct it.", "stops": True}


def facts(finished: bool, variables: list[str], *rows: dict[str, Any]) -> dict[str, Any]:
    found = {"gpu_node_preflight": {"finished": finished, "variables": variables, "rows": list(rows)}}
    return {**found, "gpu_node_plan": {}} if finished else found


def played(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit status and output of the play in the folder, with its hosts and its own collection."""
    done = subprocess.run(
        [str(PLAYBOOK), "-i", "hosts.yml", "play.yml", *arguments],
        cwd=folder,
        env={
            **os.environ,
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_COLLECTIONS_PATH": str(folder / "collections"),
            "ANSIBLE_STDOUT_CALLBACK": "default",
        },
        capture_output=True,
        text=True,
        timeout=200,
    )
    return done.returncode, done.stdout + done.stderr


def run(folder: Path, **hosts: dict[str, Any]) -> str:
    action = own_collection(folder) / "plugins/action/host_plan.py"
    action.unlink()
    action.write_text(ACTION)
    (folder / "verify.yml").write_text(
        "- hosts: gpu_nodes\n  gather_facts: false\n  tasks: [{debug: {msg: 'MARK {{ inventory_hostname }}'}}]\n"
    )
    book = own_collection(folder) / "playbooks/preflight.yml"
    (folder / "play.yml").write_text(f"- import_playbook: {book}\n- import_playbook: verify.yml\n")
    inventory = {"gpu_nodes": {"hosts": {name: {"facts": one} for name, one in hosts.items()}}}
    (folder / "hosts.yml").write_text(json.dumps(inventory))
    return played(folder)[1]


def test_a_wrong_variable_of_one_host_does_not_end_the_run_of_finished_ones(tmp_path: Path) -> None:
    said = run(tmp_path, a=facts(True, []), b=facts(False, ["wrong"], WRONG), c=facts(True, []))
    assert "MARK a" in said and "MARK c" in said and "MARK b" not in said, said
    assert "Nothing was done" not in said and "b is left out (refused)" in said


def test_a_wrong_variable_of_every_host_ends_it(tmp_path: Path) -> None:
    said = run(tmp_path, a=facts(False, ["wrong"], WRONG), b=facts(False, ["wrong"], WRONG))
    assert "Nothing was done: 1 problem(s) on 2 host(s)" in said and "MARK" not in said, said


@pytest.mark.parametrize("other", [facts(True, []), facts(False, ["wrong"], WRONG)], ids=["finished", "left out"])
def test_a_remark_on_a_finished_host_is_told_once(tmp_path: Path, other: dict[str, Any]) -> None:
    said = run(tmp_path, a=facts(True, [], REMARK), b=other, c=facts(True, []))
    assert said.count("remark: somebody works there") == 1, said


# Verified without a node: the host's variable has the verdict, and the page is a line in a file.
VERIFIED = """
from ansible.plugins.action import ActionBase
class ActionModule(ActionBase):
    _requires_connection = False
    def run(self, tmp=None, task_vars=None):
        fact = {"verdict": task_vars["judged"], "findings": [], "message": task_vars["judged"] + " of this host"}
        return {"changed": False, "verdict": task_vars["judged"], "ansible_facts": {"gpu_node_verdict": fact}}
"""
PAGED = """
from ansible.plugins.action import ActionBase
class ActionModule(ActionBase):
    _requires_connection = False
    def run(self, tmp=None, task_vars=None):
        return {"changed": False, "msg": "PAGE " + task_vars["inventory_hostname"]}
"""


def verified(folder: Path, *arguments: str, **verdicts: str) -> tuple[int, str]:
    """Exit status and output of playbooks/verify.yml and a play after it, for finished hosts with these verdicts."""
    collection = own_collection(folder)
    for name, text in {"host_plan": ACTION, "gpu_verify": VERIFIED, "report_page": PAGED}.items():
        (collection / f"plugins/action/{name}.py").unlink()
        (collection / f"plugins/action/{name}.py").write_text(text)
    ready = {"gpu_node_preflight": {"finished": True, "ready": True, "variables": [], "rows": []}, "gpu_node_plan": {}}
    own = {"facts": ready, "verify_smoke_device": "cpu"}
    hosts = {name: {**own, "judged": verdict} for name, verdict in verdicts.items()}
    (folder / "hosts.yml").write_text(json.dumps({"gpu_nodes": {"hosts": hosts}}))
    (folder / "after.yml").write_text(
        "- hosts: gpu_nodes\n  gather_facts: false\n  tasks: [{debug: {msg: 'MARK {{ inventory_hostname }}'}}]\n"
    )
    book = collection / "playbooks/verify.yml"
    (folder / "play.yml").write_text(f"- import_playbook: {book}\n- import_playbook: after.yml\n")
    return played(folder, "-v", *arguments)


def test_a_bad_verdict_ends_the_run_of_its_host_alone_and_after_the_page(tmp_path: Path) -> None:
    rc, said = verified(tmp_path, a="FAIL", b="PASS", c="UNKNOWN", d="WARN")
    assert rc == 2 and said.count("FAIL of this host") >= 1 and "UNKNOWN of this host" in said, said
    assert "MARK b" in said and "MARK d" in said and "MARK a" not in said and "MARK c" not in said
    assert said.count("PAGE a") == 1 and said.index("PAGE a") < said.index("End with the verdict")


def test_good_verdicts_cost_no_task_and_nobody_s_run_ends(tmp_path: Path) -> None:
    rc, said = verified(tmp_path, a="PASS", b="WARN")
    assert rc == 0 and "End with the verdict" not in said and "MARK a" in said and "MARK b" in said, said


def test_verdicts_of_which_none_is_good_end_the_run(tmp_path: Path) -> None:
    rc, said = verified(tmp_path, a="FAIL", b="FAIL")
    assert rc == 2 and said.count("PAGE") == 1 and "MARK" not in said, said


def test_check_mode_ends_with_no_verdict(tmp_path: Path) -> None:
    rc, said = verified(tmp_path, "--check", a="FAIL", b="PASS")
    assert rc == 0 and "MARK a" in said and "PAGE" not in said, said
