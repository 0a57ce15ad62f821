"""A node that comes back with another ssh host key is named in seconds; one that does not come back at all is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.action import reboot_node
from conftest import REPOSITORY
from test_environment_modes import nobody_works

ROLE = REPOSITORY / "roles/system_reboot"

# OpenSSH 9.2, a real refusal.
CHANGED = """@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Someone could be eavesdropping on you right now (man-in-the-middle attack)!
It is also possible that a host key has just been changed.
The fingerprint for the ED25519 key sent by the remote host is
SHA256:9eEQNfhYKwll+tLINni62xVDonfp0NZYta5P2asfU2k.
Please contact your system administrator.
Add correct host key in /home/admin/.ssh/known_hosts to get rid of this message.
Offending ED25519 key in /home/admin/.ssh/known_hosts:2
  remove with:
  ssh-keygen -f "/home/admin/.ssh/known_hosts" -R "{host}"
Host key for {host} has changed and you have requested strict checking.
Host key verification failed.
"""
# Stands in for ssh: each command runs here; `shutdown` is noted, and then it says what `changed` has, if anything.
SSH = """#!/bin/sh
for last; do :; done
[ -e {folder}/rebooted ] && [ -s {folder}/changed ] && {{ cat {folder}/changed >&2; exit 255; }}
case "$last" in */shutdown*) touch {folder}/rebooted; exit 0;; esac
exec sh -c "$last"
"""


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (CHANGED.replace("{host}", "10.89.2.13"), ["ssh-keygen -R 10.89.2.13 -f /home/admin/.ssh/known_hosts`"]),
        (CHANGED.replace("{host}", "10.89.2.13"), ["SHA256:9eEQNfhYKwll+tLINni62xVDonfp0NZYta5P2asfU2k)", "console"]),
        (
            CHANGED.replace("{host}", "[gpu.example]:2222"),
            ["ssh-keygen -R '[gpu.example]:2222' -f", "ssh-keyscan -t ed25519 -p 2222 gpu.example |"],
        ),
        (
            CHANGED.replace("ED25519 key in /home/admin", "RSA key in /root").replace("{host}", "a5"),
            ["ssh_host_rsa_key"],
        ),
        (
            "Failed to connect to the host via ssh: No ED25519 host key is known for a5-01 and you have requested "
            "strict checking.\nHost key verification failed.",
            ["ssh-keygen -R 192.0.2.1`"],
        ),
        ("host key mismatch for a5-01", ["ssh-keygen -R a5-01`"]),
    ],
)
def test_what_ssh_says_becomes_what_to_do(said: str, words: list[str]) -> None:
    text = reboot_node.refused_host_key(said, "192.0.2.1")
    assert [word for word in words if word not in text] == [], text


@pytest.mark.parametrize(
    "said",
    [
        "",
        "ssh: connect to host a5-01 port 22: Connection refused",
        "kex_exchange_identification: read: Connection reset by peer",
        "admin@a5-01: Permission denied (publickey).",
        '"System is booting up. Unprivileged users are not permitted to log in yet."',
        "Warning: Permanently added 'a5-01' (ED25519) to the list of known hosts.",
        "boot time has not changed",
    ],
)
def test_a_host_that_still_boots_is_waited_for(said: str) -> None:
    assert reboot_node.refused_host_key(said, "192.0.2.1") == ""


def rebooted(folder: Path, said: str, seconds: int) -> subprocess.CompletedProcess[str]:
    """The role on a host of which ssh says this once it was rebooted; it may take `seconds` to come back."""
    (folder / "changed").write_text(said)
    ssh = folder / "ssh"
    ssh.write_text(SSH.format(folder=folder))
    ssh.chmod(0o755)
    node = {"kernel": {"boot_id": "old"}, "verified": False, "in_use": {"users": [], "gpu_processes": [], "jobs": []}}
    host: dict[str, object] = {
        "ansible_host": "192.0.2.7",
        "ansible_ssh_executable": str(ssh),
        "ansible_ssh_transfer_method": "piped",
    }
    host |= {
        "ansible_python_interpreter": sys.executable,
        "given": node,
        "ansible_remote_tmp": str(folder / "far"),
    }
    host |= {
        "ansible_become": False,
        "system_reboot_policy": "auto",
        "system_reboot_timeout": seconds,
        "system_reboot_reason": "a test",
    }
    (folder / "inventory.yml").write_text(yaml.safe_dump({"all": {"hosts": {"a5-01": host}}}))
    nobody_works(folder)
    roles = [{"role": str(ROLE)}]
    given = {"ansible.builtin.set_fact": {"gpu_node": "{{ given }}", "cacheable": True}}
    play = {"hosts": "a5-01", "gather_facts": False, "pre_tasks": [given], "roles": roles}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    done = subprocess.run(
        [program, "-i", str(folder / "inventory.yml"), str(folder / "play.yml")],
        cwd=REPOSITORY,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_PIPELINING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (folder / "rebooted").exists(), done.stdout + done.stderr
    return done


def test_the_run_ends_in_seconds_and_says_what_to_compare(tmp_path: Path) -> None:
    begun = time.monotonic()
    done = rebooted(tmp_path, CHANGED.replace("{host}", "192.0.2.7"), 900)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2, said
    assert "ssh-keygen -R 192.0.2.7 -f /home/admin/.ssh/known_hosts" in said and "at the console" in said
    assert time.monotonic() - begun < 60


def test_a_node_that_never_comes_back_is_lost_and_not_failed(tmp_path: Path) -> None:
    """As a node that was lost in any other task: status 4, and counted as unreachable."""
    done = rebooted(tmp_path, "ssh: connect to host 192.0.2.7 port 22: No route to host\n", 5)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 4 and "unreachable=1 failed=0" in said, said
    assert "The host was rebooted and has not answered since" in said and "No route to host" in said, said


def test_a_node_that_answers_and_did_not_reboot_has_failed(tmp_path: Path) -> None:
    """`shutdown` was taken, and nothing came of it: the node can be reached, and says so."""
    done = rebooted(tmp_path, "", 5)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2 and "unreachable=0 failed=1" in said, said
