"""A real ansible-core 2.17 on the controller: RHEL 8 has too old a Python for it, and its hosts are left out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY, node_pythons

VERSION = "2.17.14"
CACHE = Path(
    os.environ.get("GPUWRIGHT_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuwright"
)


@pytest.fixture(scope="module")
def newer_ansible() -> Path:
    """Its ansible-playbook, installed once into the cache from the package index that `make venv` uses."""
    venv = CACHE / f"ansible-core-{VERSION}"
    stamp = venv / "complete"
    if not stamp.exists():
        shutil.rmtree(venv, ignore_errors=True)
        pip = [str(venv / "bin/python"), "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
        for command in ([sys.executable, "-m", "venv", str(venv)], [*pip, f"ansible-core=={VERSION}"]):
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, f"ansible-core {VERSION} cannot be installed for this test:\n{done.stderr}"
        stamp.touch()
    return venv / "bin/ansible-playbook"


@pytest.mark.parametrize("arguments", [[], ["--check"]], ids=["run", "check"])
def test_a_host_with_the_python_of_rhel_8_is_left_out(
    newer_ansible: Path, tmp_path: Path, arguments: list[str]
) -> None:
    if "3.6" not in node_pythons():
        pytest.skip("no Python 3.6 on this machine")
    host = {"ansible_connection": "local", "ansible_python_interpreter": node_pythons()["3.6"]}
    inventory = tmp_path / "inventory.json"
    inventory.write_text(json.dumps({"gpu_nodes": {"hosts": {"a5-01": host}}}))
    command = [str(newer_ansible), "-i", str(inventory), "playbooks/preflight.yml", *arguments]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "GPUWRIGHT_LOG_FOLDER": str(tmp_path)}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=300)
    output = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0
    assert "The controller's ansible-core is too new for the Python of this host" in output, output
    assert "need ansible-core 2.16" in output and "changed=0" in output, output


def test_a_question_without_a_system_is_answered_for_one_that_it_manages(newer_ansible: Path, tmp_path: Path) -> None:
    command = [str(newer_ansible), "playbooks/plan.yml", "-e", "gpu=V100"]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "GPUWRIGHT_LOG_FOLDER": str(tmp_path)}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and " on ubuntu 24.04" in " ".join(done.stdout.split()), done.stdout + done.stderr
