"""The role system_driver on boards with NVSwitches: exactly the driver's version, or no reboot and no service."""

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

ANSIBLE = Path(sys.executable).parent / "ansible-playbook"
ROLE = REPOSITORY / "roles/system_driver"
BOTH = ["nvidia-fabricmanager", "libnvidia-nscq"]
BOARD: dict[str, Any] = {"id": "hgx-h100", "name": "HGX or DGX H100", "exact": BOTH, "services": [], "modules": []}
PRESENT = {"present": True, "packages": ["nvidia-driver-cuda"], "version": "", "branch": "580"}


def program(folder: Path, name: str, lines: str, status: int = 0) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\necho \"$@\" >> '{folder}/calls'\nprintf '{lines}'\nexit {status}\n")
    file.chmod(0o755)


def run(folder: Path, tasks: list[Any], node: dict[str, Any], plan: dict[str, Any]) -> str:
    """What ansible-playbook says about these tasks, on localhost; programs in `folder` come first."""
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}
    facts = {"gpu_node": node, "gpu_node_plan": plan}
    play["vars"] = {"ansible_facts": facts, "ansible_python_interpreter": sys.executable}
    play["vars_files"] = [str(ROLE / "vars/main.yml")]
    (folder / "play.yml").write_text(json.dumps([play]))
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    command = [str(ANSIBLE), "-i", "localhost,", str(folder / "play.yml")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)
    return f"status {done.returncode} " + " ".join(done.stdout.split())


def tasks_of(file: str) -> list[Any]:
    return yaml.safe_load((ROLE / f"tasks/{file}.yml").read_text())


@pytest.mark.parametrize(
    ("family", "lines", "status", "words"),
    [
        ("redhat", "nvidia-fabricmanager 580.95.05\\nlibnvidia-nscq 580.95.05\\n", 0, ""),
        ("debian", "nvidia-fabricmanager 580.95.05-1\\nlibnvidia-nscq 580.95.05-0ubuntu0.24.04.1\\n", 0, ""),
        (
            "redhat",
            "nvidia-fabricmanager 580.105.08\\nlibnvidia-nscq 580.95.05\\n",
            0,
            "nvidia-fabricmanager 580.105.08",
        ),
        # The beginning of a longer version is another one.
        ("debian", "nvidia-fabricmanager 580.95.051-1\\nlibnvidia-nscq 580.95.05-1\\n", 0, "580.95.051-1"),
        (
            "redhat",
            "package libnvidia-nscq is not installed\\nnvidia-fabricmanager 580.95.05\\n",
            1,
            "exactly the driver",
        ),
        ("debian", "", 1, "and this is installed: nothing"),
    ],
)
def test_another_version_than_the_drivers_stops_before_the_reboot(tmp_path, family, lines, status, words):
    program(tmp_path, "rpm", lines, status)
    program(tmp_path, "dpkg-query", lines, status)
    node = {"os": {"family": family}, "nvidia": {"user_space": "580.95.05"}}
    said = run(tmp_path, tasks_of("platform")[:2], node, {"platform": BOARD, "driver": PRESENT})
    assert said.startswith("status 2" if words else "status 0"), said
    assert words in said and ("[driver.platform]" in said) is bool(words)


@pytest.mark.parametrize(
    ("loaded", "due", "started"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_the_service_is_started_once_the_drivers_module_is_at_work(tmp_path, loaded, due, started):
    program(tmp_path, "modprobe", "")
    node = {"nvidia": {"loaded": {"version": "580.95.05"} if loaded else None}, "reboot": {"required": due}}
    board = {**BOARD, "services": ["nvidia-fabricmanager"], "modules": ["no_such_module"]}
    said = run(tmp_path, tasks_of("switches"), node, {"platform": board, "driver": PRESENT})
    # There is no such unit on this machine: that it was tried is what the role says about it.
    assert ("[driver.switches]" in said and "journalctl -b -u nvidia-fabricmanager" in said) is started, said
    assert (tmp_path / "calls").exists() is started


@pytest.mark.parametrize(
    ("present", "packages", "next_version"),
    [(True, ["nvidia-fabricmanager-580.82.07"], "580.82.07-*"), (False, ["nvidia-driver-cuda"], "580.*")],
)
def test_a_driver_that_stays_gets_only_what_is_beside_it(tmp_path, present, packages, next_version):
    say = "{{ __system_driver_packages | to_json }} {{ __system_driver_next }}"
    plan = {"driver": {**PRESENT, "present": present}, "platform": {"packages": ["nvidia-fabricmanager-580.82.07"]}}
    said = run(tmp_path, [{"ansible.builtin.debug": {"msg": say}}], {"nvidia": {"user_space": "580.82.07"}}, plan)
    assert json.dumps(packages)[2:-2] in said and f"] {next_version}" in said


def test_the_order_of_the_role():
    """Driver, its guards, what is of its version, the reboot, and then the service that needs the module."""
    names = [
        str(task.get("ansible.builtin.include_tasks") or task.get("ansible.builtin.include_role"))
        for task in tasks_of("main")
    ]
    places = [
        next(place for place, name in enumerate(names) if word in name)
        for word in ("beside", "guards", "platform", "system_reboot", "switches")
    ]
    assert places == sorted(places)
