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
    done = call("ansible", HOST, "-i", host, "-b", "-o", "-m", "gpuwright.node.gpu_probe")
    assert done.returncode == 0, done.stdout + done.stderr
    node = json.loads(done.stdout.partition("=>")[2])["ansible_facts"]["gpu_node"]
    assert len(node["gpus"]) == 1 and node["os"]["family"] == "redhat"


ONE_ROLE = {"name": "One role", "hosts": "gpu_nodes", "become": True, "gather_facts": False}
TRAINER = [{**ONE_ROLE, "roles": ["gpuwright.node.model_trainer"]}]


def test_the_trainer_needs_its_user_first(call: Call, host: Path, elsewhere: Path) -> None:
    (elsewhere / "trainer.yml").write_text(yaml.safe_dump(TRAINER))
    done = call("ansible-playbook", "trainer.yml", "-i", host, "-l", HOST)
    said = " ".join(done.stdout.split())
    assert done.returncode == 2 and "run the role gpuwright.node.system_training first" in said, said[-3000:]
    assert f"ansible-playbook gpuwright.node.system --tags system_training -l {HOST}" in said


ALONE = ("system_training", "system_tuning", "system_runtime", "system_cuda")


def role_by_role(call: Call, host: Path, elsewhere: Path, *roles: str) -> str:
    """What a play of each of these roles, one after the other, prints when it has ended well."""
    plays = [{**ONE_ROLE, "name": f"Role {role}", "roles": [f"gpuwright.node.{role}"]} for role in roles]
    (elsewhere / "roles.yml").write_text(yaml.safe_dump(plays))
    done = call("ansible-playbook", "roles.yml", "-i", host, "-l", HOST)
    assert done.returncode == 0 and "is undefined" not in done.stdout, (done.stdout + done.stderr)[-6000:]
    return done.stdout


@pytest.mark.parametrize("role", ALONE)
def test_one_role_alone(call: Call, host: Path, elsewhere: Path, role: str) -> None:
    """It makes the plan, installs its own part, and says which role it needs first where it needs one."""
    role_by_role(call, host, elsewhere, role)


def test_a_role_that_needs_another_first_names_it(call: Call, host: Path, elsewhere: Path) -> None:
    (elsewhere / "trainer.yml").write_text(yaml.safe_dump(TRAINER))
    done = call("ansible-playbook", "trainer.yml", "-i", host, "-l", HOST)
    said = " ".join(done.stdout.split())
    assert done.returncode == 2 and "run the role gpuwright.node.framework_pytorch first" in said, said[-3000:]
    assert f"ansible-playbook gpuwright.node.framework -l {HOST}" in said


def test_the_environment_alone_and_then_the_trainer(call: Call, host: Path, elsewhere: Path) -> None:
    role_by_role(call, host, elsewhere, "framework_pytorch")
    role_by_role(call, host, elsewhere, "model_trainer")


def test_a_second_run_of_these_roles_changes_nothing(call: Call, host: Path, elsewhere: Path) -> None:
    assert "changed=0" in role_by_role(call, host, elsewhere, *ALONE, "framework_pytorch", "model_trainer")
