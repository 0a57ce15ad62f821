"""What a role refuses with is followed: its own assert task stops and names a variable, with whose value it passes.

The tasks are those of the roles, with the roles' own defaults, variables and filters, in one run on localhost.
"""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY
from given_facts import as_facts
from module_refusals import MODULE_REFUSALS, refusing_calls
from role_refusals import NOT_FOLLOWED, refusing_tasks

PLAN = {
    "driver": {"source": "nvidia", "present": False},
    "pytorch": {"locked": False, "lock": "py3.11-torch2.9.9-cu999.txt"},
    "dcgm": {"version": "3.3", "packages": ["datacenter-gpu-manager"], "exporter": ""},
}
KEY = {"certificate": "/var/lib/dkms/mok.pub", "state": "not_enrolled", "because": ""}
NODE = {"os": {"family": "redhat"}, "secure_boot": "disabled", "secure_boot_because": "", "module_key": KEY}
GIVEN = {"gpu_node_plan": PLAN, "gpu_node": NODE}
SETTING = re.compile(r"\b([a-z]+(?:_[a-z]+)+)(?:: | to )(true|false|podman|nvidia)\b")
# Printed as one of a choice between two roads, of which the second is the firmware's.
BOTH_FALSE = re.compile(r"^(\w+) is true, and needs (\w+): true .* Set both variables to false")


@dataclass
class Refusal:
    """An assert task of a role, the variables that make it stop, and the one that its message names."""

    role: str
    file: str
    task: str
    named: str
    given: dict[str, Any] = field(default_factory=dict)


# Somebody's own account, as the module service_account names it.
TERRY = {"uid": 1000, "comment": "Terry Trainer"}
REFUSALS = (
    Refusal("framework_pytorch", "main.yml", "Stop if this plan has no", "framework_pytorch_allow_unlocked"),
    Refusal(
        "framework_pytorch",
        "main.yml",
        "Refuse a repository that could be",
        "framework_pytorch_allow_http",
        {"__framework_pytorch_address": "http://mirror/simple"},
    ),
    Refusal(
        "system_training",
        "user.yml",
        "Refuse to take over an existing account",
        "system_training_adopt_user",
        {"__system_training_account": {"taken": "{{ {} if system_training_adopt_user else " + str(TERRY) + " }}"}},
    ),
    Refusal(
        "system_containers",
        "present.yml",
        "Stop if the site has not installed Docker",
        "system_containers_engine",
        {"system_containers_engine": "docker", "__system_containers_dockerd": {"stat": {"exists": False}}},
    ),
    Refusal(
        "system_monitor",
        "packages.yml",
        "Stop if nothing exports",
        "system_monitor_dcgm_exporter",
        {"system_monitor_dcgm_exporter": True, "system_monitor_dcgm": True},
    ),
    Refusal(
        "system_monitor",
        "packages.yml",
        "Stop if no repository of this node has DCGM",
        "system_monitor_dcgm",
        {"system_monitor_dcgm": True, "gpu_node_plan": {**PLAN, "driver": {"source": "distribution"}}},
    ),
    Refusal(
        "system_repository",
        "main.yml",
        "Refuse a repository that could be",
        "system_repository_allow_http",
        {
            "system_repository_id": "x",
            "system_repository_url": "http://mirror/x",
            "system_repository_packages_signed": False,
            "system_repository_metadata_signed": False,
        },
    ),
)


def role_variables(role: str) -> dict[str, Any]:
    folders = (REPOSITORY / "roles" / role / name / "main.yml" for name in ("defaults", "vars"))
    return {key: value for file in folders if file.exists() for key, value in yaml.safe_load(file.read_text()).items()}


def step(refusal: Refusal, number: int, applied: dict[str, Any]) -> dict[str, Any]:
    """The role's task in a block; what it says is a fact of the host, and the play goes on."""
    tasks = yaml.safe_load((REPOSITORY / "roles" / refusal.role / "tasks" / refusal.file).read_text())
    [task] = [copy.deepcopy(task) for task in tasks if task["name"].startswith(refusal.task)]
    values = {**role_variables(refusal.role), **GIVEN, **refusal.given, **applied}
    task["vars"] = as_facts({**values, **task.get("vars", {})})
    said = {f"said_{number}": "{{ ansible_failed_result.msg }}"}
    return {"block": [task], "rescue": [{"ansible.builtin.set_fact": said}]}


def said_by(folder: Path, applied: list[dict[str, Any]]) -> list[str]:
    """What each refusal says with these variables, "" where its task passes."""
    folder.mkdir()
    steps = [step(row, number, applied[number]) for number, row in enumerate(REFUSALS)]
    # A file for each would take as long again as all the roles' tasks.
    said = ", ".join(f"said_{number} | default('')" for number in range(len(REFUSALS)))
    copied = {"content": "{{ [" + said + "] | to_json }}", "dest": f"{folder}/said", "mode": "0644"}
    steps.append({"ansible.builtin.copy": copied})
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": steps}
    play["vars"] = {"ansible_python_interpreter": sys.executable}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
    program = Path(sys.executable).parent / "ansible-playbook"
    done = subprocess.run(
        [program, "-i", "localhost,", folder / "play.yml"], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "said").read_text())


def asked_for(text: str) -> dict[str, Any]:
    """The variables that a message names with a value, the last of a choice."""
    both = BOTH_FALSE.match(text)
    if both:
        return {both.group(1): False, both.group(2): False}
    found = SETTING.findall(text)
    assert found, f"nobody can follow {text!r}"
    name, value = found[-1]
    return {name: {"true": True, "false": False}.get(value, value)}


def test_what_a_role_names_gets_past_it(tmp_path: Path) -> None:
    refused = said_by(tmp_path / "refused", [{} for _row in REFUSALS])
    assert all(refused), refused
    followed = [asked_for(text) for text in refused]
    assert [row.named in names for row, names in zip(REFUSALS, followed, strict=True)] == [True] * len(REFUSALS)
    assert said_by(tmp_path / "followed", followed) == [""] * len(REFUSALS)


def test_every_task_that_refuses_is_followed_or_says_why_not() -> None:
    rows = {(f"{row.role}/{row.file}", row.task) for row in REFUSALS} | set(NOT_FOLLOWED)
    tasks = refusing_tasks()
    without = [task for task in tasks if not any(task[0] == file and task[1].startswith(name) for file, name in rows)]
    gone = [row for row in rows if not any(file == row[0] and name.startswith(row[1]) for file, name in tasks)]
    assert (without, gone) == ([], [])


def test_every_refusal_of_a_module_says_who_goes_on_and_how() -> None:
    calls = refusing_calls()
    without = [
        call for call in calls if not any(call[0] == row[0] and call[1].startswith(row[1]) for row in MODULE_REFUSALS)
    ]
    gone = [
        row
        for row in MODULE_REFUSALS
        if not any(module == row[0] and text.startswith(row[1]) for module, text in calls)
    ]
    assert (without, gone) == ([], [])


@pytest.mark.parametrize("how", sorted(set(MODULE_REFUSALS.values())))
def test_a_test_that_is_named_is_there(how: str) -> None:
    there = {path.name for path in (REPOSITORY / "tests").rglob("test_*.py")}
    assert {Path(name).name for name in re.findall(r"[\w/]*test_\w+\.py", how)} <= there


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda row: f"{row.role}: {row.task}")
def test_the_variable_is_one_of_a_role(refusal: Refusal) -> None:
    defaults = [yaml.safe_load(file.read_text()) for file in (REPOSITORY / "roles").glob("*/defaults/main.yml")]
    assert any(refusal.named in (row or {}) for row in defaults)
