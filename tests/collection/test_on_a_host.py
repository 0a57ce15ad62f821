"""On a bare host of the fleet: a dry run of everything, one module alone, and roles alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from conftest import HOST, Call


def test_a_dry_run_of_everything(call: Call, host: Path, elsewhere: Path) -> None:
    done = call("ansible-playbook", "gpuwright.node.site", "-i", host, "-l", HOST, "--check")
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    assert "failed=0" in done.stdout and "unreachable=0" in done.stdout
    assert not (elsewhere / "reports").exists() or not list((elsewhere / "reports").glob("*.json"))


def test_one_module_alone(call: Call, host: Path) -> None:
    done = call(
        "ansible",
        HOST,
        "-i",
        host,
        "-b",
        "-m",
        "gpuwright.node.gpu_probe",
        ANSIBLE_LOAD_CALLBACK_PLUGINS="1",
        ANSIBLE_STDOUT_CALLBACK="json",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)["plays"][0]["tasks"][0]["hosts"][HOST]
    assert answer["ansible_facts"]["gpu_node"]["gpus"][0]["id"] or answer["ansible_facts"]["gpu_node"]["gpus"]


@pytest.mark.parametrize("role", ["system_tuning", "system_runtime", "system_cuda"])
def test_one_role_alone(call: Call, host: Path, elsewhere: Path, role: str) -> None:
    """It makes the plan, installs its own part, and says which role it needs first where it needs one."""
    play = {"name": "One role", "hosts": "gpu_nodes", "become": True, "gather_facts": False}
    (elsewhere / f"{role}.yml").write_text(yaml.safe_dump([{**play, "roles": [f"gpuwright.node.{role}"]}]))
    done = call("ansible-playbook", f"{role}.yml", "-i", host, "-l", HOST)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    again = call("ansible-playbook", f"{role}.yml", "-i", host, "-l", HOST)
    assert again.returncode == 0 and "changed=0" in again.stdout, (again.stdout + again.stderr)[-6000:]
    assert "is undefined" not in done.stdout + again.stdout
