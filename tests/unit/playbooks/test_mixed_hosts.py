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
    done = subprocess.run(
        [str(PLAYBOOK), "-i", "hosts.yml", "play.yml"],
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
    return done.stdout + done.stderr


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
