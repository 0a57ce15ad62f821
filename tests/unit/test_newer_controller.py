"""A real ansible-core 2.17 on the controller: it cannot run modules on RHEL 8, so nothing may begin."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY

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


@pytest.mark.parametrize("playbook", ["site.yml", *(f"playbooks/{name}.yml" for name in ("preflight", "system"))])
@pytest.mark.parametrize("arguments", [[], ["--check"], ["--tags", "model"]], ids=" ".join)
def test_nothing_begins(newer_ansible: Path, tmp_path: Path, playbook: str, arguments: list[str]) -> None:
    inventory = tmp_path / "inventory.yml"
    inventory.write_text("gpu_nodes: {hosts: {a5-01: {ansible_connection: local}, a5-02: {ansible_host: 192.0.2.1}}}\n")
    command = [str(newer_ansible), "-i", str(inventory), playbook, *arguments]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120)
    output = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0
    assert f"Nothing was done: ansible-core {VERSION} cannot manage RHEL 8" in output and "use 2.16.19" in output
    assert "TASK [" not in output and "UNREACHABLE" not in output and "a5-0" not in output
