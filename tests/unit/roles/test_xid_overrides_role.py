"""The role verify writes Xid overrides that the node's reader accepts, and spares an administrator's own file."""

from __future__ import annotations

import getpass
import grp
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from gpuwright.gpu.xid.overrides import parse_overrides
from text_parts import part_of

REPOSITORY = Path(__file__).resolve().parents[3]
ROLE = REPOSITORY / "roles/verify"
OVERRIDES = {
    "xid": {
        63: {"class": "fail", "remedy": "reset", "reason": 'the "vendor" exchanges: C:\\now # at\nonce', "action": "x"},
        74: {"class": "warn", "reason": "yes"},
    },
    "sxid": {20034: {"class": "harmless", "reason": "unplugged"}},
}
OWN = "xid:\n  63:\n    class: warn\n    reason: mine\n"


@pytest.fixture
def role(tmp_path: Path):
    """Run the role's tasks on this machine with its file in `tmp_path`; returns (rc, changed, what was said)."""

    def run(overrides: dict, *options: str) -> tuple[int, int, str]:
        tasks = yaml.safe_load((ROLE / "tasks/xid.yml").read_text())
        owner = {"owner": getpass.getuser(), "group": grp.getgrgid(os.getgid()).gr_name}
        for task in tasks:
            if "ansible.builtin.template" in task:
                task["ansible.builtin.template"].update(owner, src=str(ROLE / "templates/xid.yml.j2"))
        known = yaml.safe_load((ROLE / "vars/main.yml").read_text())
        known = {name: value for name, value in known.items() if name.startswith("__verify_xid")}
        known.update({"__verify_xid_file": str(tmp_path / "xid.yml"), "verify_xid_overrides": overrides})
        known["ansible_python_interpreter"] = sys.executable
        play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks, "vars": known}
        (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
        command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "localhost,", *options]
        environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
        command.append(str(tmp_path / "play.yml"))
        done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
        said = " ".join((done.stdout + done.stderr).split())
        return done.returncode, int(part_of(r"changed=(\d+)", said)), said

    return run


def test_the_file_is_what_the_node_reads(role, tmp_path):
    first = role(OVERRIDES)
    assert first[:2] == (0, 1), first[2]
    rows = {(row["kind"], row["code"]): row for row in parse_overrides((tmp_path / "xid.yml").read_text())}
    assert sorted(rows) == [("sxid", 20034), ("xid", 63), ("xid", 74)]
    assert rows["xid", 63]["reason"] == 'the "vendor" exchanges: C:\\now # at once'
    assert rows["xid", 74]["reason"] == "yes"
    assert role(OVERRIDES)[:2] == (0, 0)
    assert role({}, "--check")[:2] == (0, 1) and (tmp_path / "xid.yml").exists()
    assert role({})[:2] == (0, 1) and not (tmp_path / "xid.yml").exists()
    assert role({})[:2] == (0, 0)


def test_an_administrators_own_file_is_left_alone(role, tmp_path):
    (tmp_path / "xid.yml").write_text(OWN)
    first = role({})
    assert first[:2] == (0, 0), first[2]
    code, changed, said = role(OVERRIDES)
    assert (code, changed) == (2, 0) and "was not written by this role" in said
    assert (tmp_path / "xid.yml").read_text() == OWN
