"""What system_reboot says of a node that came back: its tasks after the reboot, with a probe that answers as told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from own_collection import own_module

REPOSITORY = Path(__file__).resolve().parents[3]
TASKS = REPOSITORY / "roles/system_reboot/tasks/reboot.yml"
PROBE = "#!{python}\n# WANT_JSON\nprint({answer!r})\n"


def node(boot_id: str, version: str | None) -> dict:
    return {"kernel": {"boot_id": boot_id}, "nvidia": {"loaded": {"version": version} if version else None}}


@pytest.mark.parametrize(
    ("answer", "expected", "code", "words"),
    [
        ({"ansible_facts": {"gpu_node": node("new", "580.95.05")}}, "580.95.05", 0, ""),
        ({"ansible_facts": {"gpu_node": node("new", None)}}, "", 0, ""),
        ({"ansible_facts": {"gpu_node": node("new", None)}}, "580.95.05", 2, "module not loaded (expected 580.95.05)"),
        ({"ansible_facts": {"gpu_node": node("old", "580.95.05")}}, "580.95.05", 2, "it did not reboot"),
        ({"failed": True, "msg": "/sys cannot be read"}, "580.95.05", 2, "/sys cannot be read"),
        ({"failed": True, "msg": "/sys cannot be read"}, "", 2, "/sys cannot be read"),
    ],
)
def test_a_node_that_came_back(answer: dict, expected: str, code: int, words: str, tmp_path: Path) -> None:
    tasks = [task for task in yaml.safe_load(TASKS.read_text()) if "ansible.builtin.reboot" not in task]
    probe = next(task for task in tasks if "gpuwright.node.gpu_probe" in task)
    probe.update(retries=1, delay=0)
    # The old node is a fact, too, which that of the probe replaces.
    before = {"ansible.builtin.set_fact": {"gpu_node": "{{ given }}", "cacheable": True}}
    known = {"given": node("old", None), "system_reboot_expected_module": expected}
    known["ansible_python_interpreter"] = sys.executable
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": {"localhost": known}}}))
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [before, *tasks]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    text = PROBE.format(python=sys.executable, answer=json.dumps(answer))
    own_module(tmp_path, "gpu_probe", text)
    program = Path(sys.executable).with_name("ansible-playbook")
    command = [str(program), "-i", str(inventory), str(tmp_path / "play.yml")]
    done = subprocess.run(command, cwd=REPOSITORY, env={**os.environ, "ANSIBLE_NOCOLOR": "1"}, capture_output=True)
    said = " ".join((done.stdout + done.stderr).decode().split())
    assert done.returncode == code and words in said, said
    assert "conditional check" not in said
