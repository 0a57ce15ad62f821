"""A host on which nobody becomes root is a row of the table, with sudo's own sentence and what helps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils import preflight_problems as problems
from ansible_collections.gpuwright.node.plugins.plugin_utils import preflight_rows as rows_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.failures import contact
from conftest import REPOSITORY
from given_facts import as_facts

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
CENSORED = "MODULE FAILURE\nSee stdout/stderr for the exact error"
# Stands in for ssh: a command that becomes root meets sudo's sentence, every other runs on this machine.
SSH = """#!/bin/sh
case "$*" in *BECOME-SUCCESS*) cat '{said}' >&2; exit 1;; esac
for last; do :; done
exec sh -c "$last"
"""
TTY = "sudo: sorry, you must have a tty to run sudo"
PASSWORD = (
    "sudo: a terminal is required to read the password; either use the -S option to read from standard input or "
    "configure an askpass helper\nsudo: a password is required"
)


def failure(said: str, where: str = "module_stderr", msg: str = CENSORED) -> dict[str, str]:
    return contact.contact_failure({"msg": msg, "rc": 1, where: said, "failed": False})


@pytest.mark.parametrize("where", ["module_stderr", "module_stdout"])
@pytest.mark.parametrize(
    ("said", "problem", "step"),
    [
        (PASSWORD, "asks for a password", "-K"),
        ("sudo: no tty present and no askpass program specified", "asks for a password", "NOPASSWD"),
        (TTY, "requires a terminal", "requiretty"),
        ("SyntaxError: future feature annotations is not defined", "too new for the Python of this host", "2.16"),
        ("admin is not in the sudoers file.  This incident will be reported.", "may not become root", "sudoers.d"),
        ("admin ist nicht in der sudoers-Datei.", "could not be read", "sudo -n true"),
        (
            "Sorry, user admin is not allowed to execute '/bin/sh -c x' as root on a5-01.",
            "may not become root",
            "visudo",
        ),
        ("Sorry, try again.\nsudo: 1 incorrect password attempt", "refuses the password", "not root's"),
        (
            ">>> /etc/sudoers: syntax error near line 27 <<<\nsudo: no valid sudoers sources found, quitting",
            "own rules",
            "-c",
        ),
        ("sudo: /etc/sudoers is world writable", "own rules", "visudo -c"),
        ("sudo: effective uid is not 0, is /usr/bin/sudo on a file system with 'nosuid'?", "become root", "nosuid"),
        (
            'sudo: The "no new privileges" flag is set, which prevents sudo from running as root.',
            "become root",
            "ls -l",
        ),
        ("sudo: account validation failure, is your account locked?", "locked", "renew"),
        ("/bin/sh: sudo: command not found", "no sudo", "ansible_become_method"),
        ("/bin/sh: 1: sudo: not found", "no sudo", "ansible_become_method"),
        ("/bin/sh: /usr/bin/python3: No such file or directory", "no Python", "ansible_python_interpreter"),
        ("OSError: [Errno 28] No space left on device", "is full", "df -h"),
    ],
)
def test_what_was_said_is_shown_with_what_helps(where: str, said: str, problem: str, step: str) -> None:
    banner = "Unauthorised access is forbidden\nsudo: unable to resolve host a5-01: Name or service not known\n"
    row = failure(banner + said + "\nShared connection to 10.0.0.1 closed.\n", where)
    assert problem in row["problem"] and step in row["next"]
    assert row["evidence"] in " ".join(said.split()) and row["evidence"]


@pytest.mark.parametrize("msg", ["Missing sudo password", "Incorrect sudo password", "Missing su password"])
def test_what_ansible_says_itself_is_enough(msg: str) -> None:
    row = failure("", msg=msg)
    assert row["evidence"] == msg and "-K" in row["next"]


def test_a_password_for_ssh_needs_a_program_here() -> None:
    row = failure(
        "",
        msg="to use the 'ssh' connection type with passwords or pkcs11_provider, you must install the sshpass program",
    )
    assert "no sshpass" in row["problem"] and "install sshpass" in row["next"]


def test_what_is_to_be_typed_names_the_user() -> None:
    told = {"msg": CENSORED, "rc": 1, "module_stderr": PASSWORD}
    assert "`admin ALL=(ALL) NOPASSWD: ALL`" in contact.contact_failure(told, {"ansible_user": "admin"})["next"]
    assert "`<ansible_user> ALL=" in contact.contact_failure(told)["next"]
    told["module_stderr"] = TTY
    assert "`Defaults:bob !requiretty`" in contact.contact_failure(told, {"ansible_user": "bob"})["next"]


def test_an_error_that_nobody_knows_is_shown_as_it_was_said() -> None:
    row = failure("Traceback (most recent call last):\n  File x\nValueError: surprise\nConnection to a closed.\n")
    assert row["evidence"] == "ValueError: surprise"
    assert failure("", msg="gpu_probe: /sys cannot be read")["evidence"] == "gpu_probe: /sys cannot be read"
    assert failure("")["evidence"] == " ".join(CENSORED.split())


@pytest.mark.parametrize(("said", "words"), [(PASSWORD, "asks for a password"), (TTY, "requires a terminal")])
def test_it_is_one_row_of_the_summary(tmp_path: Path, said: str, words: str) -> None:
    (tmp_path / "said").write_text(said + "\n")
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH.format(said=tmp_path / "said"))
    ssh.chmod(0o755)
    inventory = tmp_path / "hosts.yml"
    python = f"ansible_python_interpreter: {sys.executable}"
    inventory.write_text(f"gpu_nodes:\n  hosts: {{a5-01: {{ansible_host: 127.0.0.1, {python}}}}}\n")
    done = subprocess.run(
        [str(PLAYBOOK), "-i", str(inventory), "playbooks/preflight.yml"],
        cwd=REPOSITORY,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_SSH_EXECUTABLE": str(ssh)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    text = " ".join(done.stdout.split())
    assert done.returncode != 0 and "Left out: 1 of 1 hosts. Nothing was changed on it. a5-01 refused" in text
    assert text.count(words) == 1 and "WARNING" not in done.stderr
    # Where a password is all that is missing, the command to go on with asks for it.
    (go_on,) = [line for line in done.stdout.splitlines() if line.startswith("To continue: ")]
    assert go_on.endswith(" -K") is (said is PASSWORD)


def test_a_password_that_cannot_be_handed_to_ssh_is_one_row(tmp_path: Path) -> None:
    """Ansible raises where it finds no sshpass, whatever failed_when says of the task."""
    (tmp_path / "word").write_text("secret\n")
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("gpu_nodes:\n  hosts: {a5-01: {ansible_host: 127.0.0.1}}\n")
    (tmp_path / "ssh").symlink_to("/bin/false")
    done = subprocess.run(
        [str(PLAYBOOK), "-i", inventory, "playbooks/preflight.yml", "--connection-password-file", tmp_path / "word"],
        cwd=REPOSITORY,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    text = " ".join(done.stdout.split())
    assert done.returncode != 0 and "Left out: 1 of 1 hosts. Nothing was changed on it. a5-01 refused" in text
    assert "it has no sshpass" in text and "install sshpass" in text


NO_FOLDER = (
    "Failed to create temporary directory. In some cases, you may have been able to authenticate and did not have "
    "permissions on the target directory. Consider changing the remote tmp path in ansible.cfg to a path rooted in "
    '"/tmp", for more error information use -vvv. Failed command was: ( umask 77 && mkdir -p "` echo /var/tmp `"&& '
    'mkdir "` echo /var/tmp/ansible-1 `" && echo ansible-1 ), exited with result 1'
)
FULL = "mkdir: cannot create directory ‘/home/admin/.ansible/tmp/ansible-tmp-1’: No space left on device"


@pytest.mark.parametrize(
    ("said", "problem", "step"),
    [
        (NO_FOLDER, "cannot write temporary files there", "findmnt"),
        (
            NO_FOLDER + ", stderr output: mkdir: Read-only file system",
            "cannot write temporary files there",
            "df -h",
        ),
        (FULL, "a file system there is full", "Free space"),
        ("Failed to connect to the host via ssh: Connection refused", "The host cannot be reached", "start sshd"),
        ("Failed to connect to the host via ssh: Permission denied (publickey).", "refuses the login", "key"),
        ("Failed to connect to the host via ssh: sudo: not found", "The host cannot be reached", "Try: ssh"),
    ],
)
def test_a_host_that_takes_no_file_is_reached(said: str, problem: str, step: str) -> None:
    """Ansible says unreachable of both."""
    found = {"rows": [rows_of.unreached_row(said, "a5-01", {})]}
    rows = problems.preflight_problems([as_facts({"inventory_hostname": "a5-01", "gpu_node_preflight": found})])
    assert len(rows) == 1 and problem in rows[0]["problem"] and step in rows[0]["next"], rows
    assert rows[0]["stops"]
