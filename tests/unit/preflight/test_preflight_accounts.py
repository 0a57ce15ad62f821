"""Accounts of the model layer, told before a driver is changed for a training that nobody could start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY
from gpuwright.preflight.accounts import COMMENT, account_problems, read_accounts

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
OWN = f"trainer:x:991:991:{COMMENT}:/var/lib/x:/sbin/nologin"
ALICE = "trainer:x:1003:1003:Alice Example,,,:/home/alice:/bin/bash"
RESEARCHER = "alice:x:1004:1004:Alice:/home/alice:/bin/sh"
DIRECTORY = "trainer:*:55003:55003::/home/ldap/alice:/bin/bash"


def accounts(*lines: str) -> dict[str, list[str]]:
    """As getent answers for those that there are."""
    known = {line.split(":")[0]: line + "\n" for line in lines}
    return read_accounts(lambda command: known.get(command[2]), ["trainer", "alice", "bob"])


@pytest.mark.parametrize(
    ("there", "trainer", "researchers", "words"),
    [
        ([], "trainer", [], ""),
        ([OWN], "trainer", [], ""),
        ([ALICE], "", [], ""),
        ([ALICE], "trainer", [], "uid 1003, Alice Example,,,, /home/alice, /bin/bash"),
        ([DIRECTORY], "trainer", [], "uid 55003, no comment, /home/ldap/alice"),
        ([OWN, RESEARCHER], "trainer", ["alice"], ""),
        ([OWN, RESEARCHER], "trainer", ["bob", "alice"], "system_training_researchers names bob, without an account"),
        (["alice:half"], "", ["alice"], "system_training_researchers names alice"),
    ],
)
def test_accounts(there: list[str], trainer: str, researchers: list[str], words: str) -> None:
    found = account_problems(accounts(*there), trainer, researchers)
    assert len(found) == bool(words)
    # A server that was installed anew comes back without its people's accounts.
    assert all(row["stops"] is (row["id"] == "account.taken") for row in found)
    assert all(words in f"{row['problem']} {row['evidence']}" for row in found)


def test_a_host_that_does_not_answer_has_no_accounts() -> None:
    assert read_accounts(lambda command: None, ["trainer"]) == {}


@pytest.mark.parametrize(
    ("words", "user"),
    [
        ([], "trainer"),
        (["-e", "system_training_user=gan"], "gan"),
        (["--tags", "system"], "trainer"),
        (["--tags", "system_training"], "trainer"),
        (["--tags", "model"], ""),
        (["--skip-tags", "system"], ""),
    ],
)
def test_who_leaves_the_system_layer_out_makes_no_account(tmp_path: Path, words: list[str], user: str) -> None:
    seen = {"ansible.builtin.debug": {"msg": "user={{ __preflight_training_user }}."}, "tags": ["always"]}
    variables = [str(REPOSITORY / "roles/preflight/vars/main.yml")]
    play = {"hosts": "localhost", "gather_facts": False, "become": False, "vars_files": variables, "tasks": [seen]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    done = subprocess.run(
        [PLAYBOOK, "-i", "localhost,", "-c", "local", tmp_path / "play.yml", *words],
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / "collections")},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert f'"user={user}."' in done.stdout, done.stdout + done.stderr


def test_the_role_writes_the_comment_that_is_looked_for() -> None:
    variables = yaml.safe_load((REPOSITORY / "roles/system_training/vars/main.yml").read_text())
    assert variables["__system_training_comment"] == COMMENT
