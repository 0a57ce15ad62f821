"""What ansible-core does about a lost host, which is why a rollout asks its own record."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from left_out_site import PLAYBOOK

PLAY = """---
- name: Rollout by Ansible's own means
  hosts: all
  gather_facts: false
  serial: {serial}
{words}
  tasks:
    - name: Install
      ansible.builtin.raw: "true"
    - name: Say so
      ansible.builtin.debug:
        msg: "DONE {{{{ inventory_hostname }}}}"
"""
FATAL, PERCENT = "  any_errors_fatal: true", "  max_fail_percentage: 0"


@pytest.mark.parametrize(
    ("serial", "words", "done"),
    [
        # The other host of the batch is ended, and all other hosts begin.
        ([2, 2], FATAL, ["a3", "a4"]),
        ([1, 3], FATAL, ["a2", "a3", "a4"]),
        ([2, 2], PERCENT, ["a2", "a3", "a4"]),
        ([1, 3], "", []),
    ],
)
def test_a_lost_canary_stops_ansible_only_if_it_was_the_whole_batch(
    tmp_path: Path, serial: list[int], words: str, done: list[str]
) -> None:
    lost = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    hosts = {"a1": lost, **{name: {"ansible_connection": "local"} for name in ("a2", "a3", "a4")}}
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    (tmp_path / "play.yml").write_text(PLAY.format(serial=serial, words=words))
    (tmp_path / "ansible.cfg").write_text("[defaults]\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    run = subprocess.run(
        [str(PLAYBOOK), "-i", "hosts.json", "play.yml"],
        cwd=tmp_path, env={**kept, "ANSIBLE_NOCOLOR": "1"}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert run.returncode == 4
    found = sorted(line.split()[-1].strip('"') for line in run.stdout.splitlines() if "DONE" in line)
    assert found == done, run.stdout
