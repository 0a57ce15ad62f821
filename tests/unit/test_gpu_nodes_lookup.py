"""A run that would do nothing, or cannot work, says so and ends with an error: tried with ansible-playbook itself."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
SPEC = importlib.util.spec_from_file_location("gpu_nodes", REPOSITORY / "playbooks/lookup_plugins/gpu_nodes.py")
LOOKUP = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(LOOKUP)
HOSTS = "gpu_nodes: {hosts: {a5-01: {}, a5-02: {}}}\nother: {hosts: {web: {}}}\n"


def play(tmp_path: Path, inventory: str | None, *arguments: str) -> subprocess.CompletedProcess:
    file = tmp_path / "inventory.yml"
    if inventory is not None:
        file.write_text(inventory)
    command = [str(PLAYBOOK), "-i", str(file), "site.yml", "--list-tasks", *arguments]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize(
    ("inventory", "arguments", "message"),
    [
        ("gpu_nodes: {hosts: {}}\n", [], "no host in the group gpu_nodes"),
        ("gpu_node: {hosts: {a5-01: {}}}\n", [], "no host in the group gpu_nodes"),
        ("", [], "no host in the group gpu_nodes"),
        (None, [], "parse"),
        (HOSTS, ["-l", "web"], "--limit web selects none of the hosts of gpu_nodes: a5-01, a5-02"),
        (HOSTS, ["-l", "a5-03"], "a5-03"),
        (HOSTS, ["--tags", "systm"], "no task has the tag systm (did you mean system?)"),
        (HOSTS, ["--skip-tags", "framwork"], "did you mean framework?"),
    ],
)
def test_stops(tmp_path: Path, inventory: str | None, arguments: list[str], message: str) -> None:
    done = play(tmp_path, inventory, *arguments)
    assert done.returncode != 0
    assert message in done.stdout + done.stderr


@pytest.mark.parametrize("arguments", [[], ["-l", "a5-02"], ["-l", "gpu_nodes"], ["--tags", "system_driver,verify"]])
def test_lets_a_good_run_start(tmp_path: Path, arguments: list[str]) -> None:
    done = play(tmp_path, HOSTS, *arguments)
    assert done.returncode == 0, done.stderr
    assert "Preflight" in done.stdout


@pytest.mark.parametrize(
    ("version", "fits"), [("2.16.19", True), ("2.16.0", True), ("2.17.3", False), ("2.15.13", False)]
)
def test_refuses_another_ansible_core(version: str, fits: bool) -> None:
    variables = {"ansible_version": {"full": version}, "groups": {"gpu_nodes": ["a5-01"]}}
    found = LOOKUP.problems(variables, ["a5-01"], ["system"])
    assert (found == []) is fits
    assert fits or f"ansible-core {version} cannot manage RHEL 8" in found[0]
