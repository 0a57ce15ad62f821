"""A node that comes back with another ssh host key: the run says so in seconds, with what to compare and to type."""

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
# Stands in for ssh: each command runs here; `shutdown` is noted, and from then on the host has another key.
SSH = """#!/bin/sh
for last; do :; done
[ -e {folder}/rebooted ] && {{ cat {folder}/changed >&2; exit 255; }}
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


def test_the_run_ends_in_seconds_and_says_what_to_compare(tmp_path: Path) -> None:
    (tmp_path / "changed").write_text(CHANGED.replace("{host}", "192.0.2.7"))
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH.format(folder=tmp_path))
    ssh.chmod(0o755)
    node = {"kernel": {"boot_id": "old"}, "verified": False, "in_use": {"users": [], "gpu_processes": [], "jobs": []}}
    host: dict[str, object] = {
        "ansible_host": "192.0.2.7",
        "ansible_ssh_executable": str(ssh),
        "ansible_ssh_transfer_method": "piped",
    }
    host |= {
        "ansible_python_interpreter": sys.executable,
        "gpu_node": node,
        "ansible_remote_tmp": str(tmp_path / "far"),
    }
    host |= {
        "ansible_become": False,
        "system_reboot_policy": "auto",
        "system_reboot_timeout": 900,
        "system_reboot_reason": "a test",
    }
    (tmp_path / "inventory.yml").write_text(yaml.safe_dump({"all": {"hosts": {"a5-01": host}}}))
    nobody_works(tmp_path)
    roles = [{"role": str(ROLE)}]
    play = {"hosts": "a5-01", "gather_facts": False, "roles": roles}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    begun = time.monotonic()
    done = subprocess.run(
        [program, "-i", str(tmp_path / "inventory.yml"), str(tmp_path / "play.yml")],
        cwd=REPOSITORY,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_PIPELINING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2, said
    assert (tmp_path / "rebooted").exists(), said
    assert "ssh-keygen -R 192.0.2.7 -f /home/admin/.ssh/known_hosts" in said and "at the console" in said
    assert time.monotonic() - begun < 60
