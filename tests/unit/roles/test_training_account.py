"""An account that somebody else has made is not taken over; in check mode, which changes nothing here."""

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
from given_facts import as_facts

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"


@pytest.mark.parametrize(
    ("line", "variables", "stops"),
    [
        ("", {}, False),
        ("nobody-here:x:991:991:gpuwright trainer:/var/lib/x:/sbin/nologin", {}, False),
        ("nobody-here:x:1003:1003:Alice Example,,,:/home/alice:/bin/bash", {}, True),
        ("nobody-here:*:55003:55003::/home/ldap/alice:/bin/bash", {}, True),
        ("nobody-here:x:1003:1003:Alice:/home/alice:/bin/bash", {"system_training_adopt_user": True}, False),
    ],
    ids=["none", "ours", "local", "directory", "adopted"],
)
def test_an_account_of_somebody_else_stops(tmp_path: Path, line: str, variables: dict[str, Any], stops: bool) -> None:
    (tmp_path / "bin").mkdir()
    getent = tmp_path / "bin/getent"
    getent.write_text(f"#!/bin/sh\n{f'echo {line!r}' if line else 'exit 2'}\n")
    getent.chmod(0o755)
    role = {"ansible.builtin.include_role": {"name": "gpuwright.node.system_training", "tasks_from": "user"}}
    play = {"hosts": "localhost", "gather_facts": False, "become": False, "tasks": [role]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    known = {
        "gpu_node_plan": {},
        "system_training_user": "nobody-here",
        "ansible_python_interpreter": sys.executable,
        **variables,
    }
    command = [str(PLAYBOOK), "--check", "-i", "localhost,", "-c", "local", str(tmp_path / "play.yml")]
    done = subprocess.run(
        [*command, "-e", json.dumps(as_facts(known))],
        cwd=REPOSITORY,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    text = " ".join(done.stdout.split())
    assert (done.returncode != 0) is stops, text
    assert ("There is an account nobody-here (uid" in text and "system_training_user" in text) is stops
    assert ("changed=1" in text) is not stops


@pytest.mark.parametrize(
    ("wanted", "let_in"), [(["root"], True), (["nobody-here", "root", "nor-here"], True), (["nobody-here"], False)]
)
def test_researchers_with_an_account_are_let_in_and_none_is_made(
    tmp_path: Path, wanted: list[str], let_in: bool
) -> None:
    role = {"ansible.builtin.include_role": {"name": "gpuwright.node.system_training", "tasks_from": "researchers"}}
    play = {"hosts": "localhost", "gather_facts": False, "become": False, "tasks": [role]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    known = {"gpu_node_plan": {}, "system_training_researchers": wanted, "system_training_group": "root"}
    command = [str(PLAYBOOK), "--check", "-i", "localhost,", "-c", "local", str(tmp_path / "play.yml")]
    done = subprocess.run(
        [*command, "-e", json.dumps(as_facts({**known, "ansible_python_interpreter": sys.executable}))],
        cwd=REPOSITORY,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    text = " ".join(done.stdout.split())
    assert done.returncode == 0, text
    assert ("Let the researchers read and write data and runs" in text) is let_in
