"""How an uninstallation ends: with what is left, named, and an error only where something should not be."""

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
ROLE = REPOSITORY / "roles/uninstall"


def end(folder: Path, **said: Any) -> tuple[int, str]:
    """The last tasks of the role, after this answer of the module."""
    tasks = yaml.safe_load((ROLE / "tasks/end.yml").read_text())[1:]
    answer = {"time": "2026-01-05T10:00:00Z", "differences": 0, "undone": [], "stays": [], **said}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}
    play["vars"] = {"__uninstall_end": answer, "ansible_python_interpreter": sys.executable}
    play["vars_files"] = [str(ROLE / "vars/main.yml")]
    (folder / "play.yml").write_text(json.dumps([play]))
    done = subprocess.run(
        [str(ANSIBLE), "-i", "localhost,", str(folder / "play.yml")],
        capture_output=True, text=True, cwd=folder, env={**os.environ, "ANSIBLE_NOCOLOR": "1"}, check=False,
    )  # fmt: skip
    return done.returncode, " ".join(done.stdout.split())


def test_no_difference_is_said_with_what_stays_and_why(tmp_path: Path) -> None:
    status, said = end(tmp_path, stays=["htop.x86_64 stays: it was not changed by a run of this toolkit"])
    assert status == 0 and "0 differences from the first record of 2026-01-05T10:00:00Z are left" in said, said
    assert "htop.x86_64 stays: it was not changed" in said


def test_what_is_still_left_ends_the_run_with_its_name(tmp_path: Path) -> None:
    status, said = end(tmp_path, differences=2, undone=["dkms.noarch", "/opt/gpuwright/venvs"])
    assert status != 0 and "2 differences from the first record" in said and "[uninstall.left]" in said, said
    assert "are left: dkms.noarch, /opt/gpuwright/venvs." in said


@pytest.mark.parametrize("file", ["redhat", "debian"])
def test_packages_go_exactly_as_named(file: str) -> None:
    """Nothing else goes with them: neither what dnf or apt take for unneeded, nor what needs them."""
    for task in yaml.safe_load((ROLE / f"tasks/{file}.yml").read_text()):
        options = next(value for key, value in task.items() if key.startswith("ansible.builtin."))
        assert options["state"] != "absent" or "key" in options or options["autoremove"] is False
