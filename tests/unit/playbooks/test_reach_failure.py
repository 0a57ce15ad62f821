"""What ssh says: not reached, reached and refused, or another host key; each with its own sentence and next step."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.failures import reach
from conftest import REPOSITORY

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
START = "Failed to connect to the host via ssh: "
SENT = 'Data could not be sent to remote host "10.0.0.3". Make sure this host can be reached over ssh: '
CHANGED = """@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Someone could be eavesdropping on you right now (man-in-the-middle attack)!
It is also possible that a host key has just been changed.
The fingerprint for the ED25519 key sent by the remote host is
SHA256:abc.
Please contact your system administrator.
Add correct host key in /home/me/.ssh/known_hosts to get rid of this message.
Offending ECDSA key in /home/me/.ssh/known_hosts:3
Host key for 10.0.0.3 has changed and you have requested strict checking.
Host key verification failed."""
KEY_FILE = """@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @
Permissions 0644 for '/home/me/.ssh/gpu' are too open.
admin@10.0.0.3: Permission denied (publickey)."""
WARNED = "Warning: Permanently added '10.0.0.3' (ED25519) to the list of known hosts.\n"
CASES = [
    # -- not reached
    ("ssh: connect to host 10.0.0.3 port 22: Connection timed out", "unreachable", "does not answer in time", "ssh "),
    ("ssh: connect to host 10.0.0.3 port 22: Operation timed out", "unreachable", "does not answer in time", "ssh "),
    ("Timeout, server 10.0.0.3 not responding.", "unreachable", "does not answer in time", "firewall"),
    ("Connection timed out during banner exchange", "unreachable", "does not answer in time", "port 22"),
    ("ssh: connect to host 10.0.0.3 port 2222: Connection refused", "unreachable", "port 2222 refuses", "start sshd"),
    ("ssh: connect to host 10.0.0.3 port 22: No route to host", "unreachable", "no route to 10.0.0.3", "ping 10.0.0.3"),
    ("ssh: connect to host 10.0.0.3 port 22: Network is unreachable", "unreachable", "no route to", "gateway"),
    ("ssh: Could not resolve hostname a5-03: Name or service not known", "unreachable", "name a5-03", "ansible_host"),
    ("ssh: Could not resolve hostname a5-03: Temporary failure in name resolution", "unreachable", "a5-03", "gete"),
    (
        "ssh: Could not resolve hostname a5-03: nodename nor servname provided, or not known",
        "unreachable",
        "name a5-03",
        "getent hosts a5-03",
    ),
    ("kex_exchange_identification: read: Connection reset by peer", "unreachable", "closes the", "MaxStartups"),
    ("Connection closed by 10.0.0.3 port 22", "unreachable", "10.0.0.3 closes the connection", "MaxStartups"),
    ("[Errno 32] Broken pipe", "unreachable", "ended before anything was sent", "ssh admin@10.0.0.3"),
    # -- reached and refused
    ("admin@10.0.0.3: Permission denied (publickey,password).", "refused", "refuses the login of admin", "-k"),
    (WARNED + "bob@10.0.0.3: Permission denied (publickey).", "refused", "bob (publickey)", "ssh bob@10.0.0.3"),
    # -- reached and refused, because this controller cannot use the key that it is told to use
    (KEY_FILE, "refused", "/home/me/.ssh/gpu: other users can read it", "chmod 600 /home/me/.ssh/gpu"),
    (
        "Warning: Identity file /home/me/.ssh/gqu not accessible: No such file or directory.\n"
        "admin@10.0.0.3: Permission denied (publickey).",
        "refused",
        "cannot use the key /home/me/.ssh/gqu: no such file or directory",
        "ansible_ssh_private_key_file",
    ),
    (
        "Warning: Identity file /home/me/gpu key not accessible: Permission denied.\n"
        "admin@10.0.0.3: Permission denied (publickey).",
        "refused",
        "cannot use the key /home/me/gpu key: permission denied",
        "ls -l '/home/me/gpu key'",
    ),
    (
        'Load key "/home/me/.ssh/gpu": error in libcrypto\r\nadmin@10.0.0.3: Permission denied (publickey).',
        "refused",
        "cannot use the key /home/me/.ssh/gpu: it is damaged or not a private key",
        "ssh-keygen -y -f /home/me/.ssh/gpu",
    ),
    (
        'Load key "/home/me/.ssh/gpu": invalid format\r\nadmin@10.0.0.3: Permission denied (publickey).',
        "refused",
        "it is damaged or not a private key",
        "ssh-keygen -y -f /home/me/.ssh/gpu",
    ),
    # -- a password of -k
    ("Received disconnect from 10.0.0.3: Too many authentication failures", "refused", "refuses the", "ssh-add"),
    ("Invalid/incorrect username/password. Skipping remaining 2 retries to prevent account lockout: Permission denied, "
     "please try again.", "refused", "refuses the password of admin", "-k"),
    ('"System is booting up. Unprivileged users are not permitted to log in yet."', "refused", "log in now", "s"),
    ("Unable to negotiate with 10.0.0.3 port 22: no matching host key type found. Their offer: ssh-rsa", "refused",
     "no algorithm in common", "Update"),
    # -- another key
    (CHANGED, "refused", "is not the one that this controller knows", "ssh-keygen -R '10.0.0.3'"),
    ("No ED25519 host key is known for 10.0.0.3 and you have requested strict checking.\nHost key verification failed.",
     "refused", "is not known to this controller", "fingerprint"),
    ("Host key verification failed.", "refused", "is not known to this controller", "ssh 10.0.0.3"),
    # -- rebooted
    ("The host was rebooted and has not answered since: ssh: connect to host 10.0.0.3 port 22: Connection refused",
     "unreachable", "has not answered since: connect to host 10.0.0.3 port 22: Connection refused", "(BMC)"),
]  # fmt: skip


@pytest.mark.parametrize("start", [START, SENT])
@pytest.mark.parametrize(("said", "kind", "problem", "step"), CASES, ids=[said[:50] for said, *_ in CASES])
def test_each_has_its_own_sentence(start: str, said: str, kind: str, problem: str, step: str) -> None:
    row = reach.reach_failure(start + said, "a5-03", {"ansible_host": "10.0.0.3", "ansible_user": "admin"})
    assert (row["kind"], row["evidence"]) == (kind, "")
    assert problem in row["problem"] and step in row["next"], row


def test_the_sentences_differ() -> None:
    """Not reached, refused, a key of no use, a password, another host key, an unknown one; not only in details."""
    password = next(said for said, *_ in CASES if said.startswith("Invalid/incorrect"))
    said = (CASES[0][0], CASES[13][0], KEY_FILE, password, CHANGED, CASES[-1][0])
    rows = [reach.reach_failure(START + text)["common"] for text in said]
    assert len({row["problem"] for row in rows}) == len({row["next"] for row in rows}) == len(said)


def test_who_was_refused_is_told_with_the_key_and_what_lets_him_in(tmp_path: Path) -> None:
    """The server says the same of an unknown user and of an unknown key, so both are asked for."""
    key = tmp_path / "gpu"
    key.touch()
    variables = {"ansible_host": "10.0.0.3", "ansible_user": "admin", "ansible_ssh_private_key_file": str(key)}
    variables["ansible_ssh_common_args"] = "-o ProxyJump=gate"
    way = f"-i {key} -o ProxyJump=gate admin@10.0.0.3"
    row = reach.reach_failure(START + "admin@10.0.0.3: Permission denied (publickey,password).", "a5-03", variables)
    assert f"refuses the login of admin with the key {key} (publickey,password)" in row["problem"]
    assert f"ssh-copy-id {way}. " in row["next"] and f"Try: ssh {way}" in row["next"] and "ansible_user" in row["next"]
    assert "10.0.0.3" not in str(row["common"]) and f"ssh-copy-id -i {key} -o ProxyJump=gate admin@HOST" in str(row)
    # ssh-copy-id would be refused as well.
    keys_only = reach.reach_failure(START + "admin@10.0.0.3: Permission denied (publickey).", "a5-03", variables)
    assert f"append what `ssh-keygen -y -f {key}` prints to ~admin/.ssh/authorized_keys there" in keys_only["next"]
    assert "ssh-copy-id" not in keys_only["next"]
    variables["ansible_ssh_common_args"] = '-o ProxyCommand="sshpass -p geheim ssh -W %h:%p gate"'
    assert "geheim" not in str(reach.reach_failure(START + "Permission denied (publickey).", "a5-03", variables))


def test_a_key_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Of a key that IdentityFile names, as Ansible does, ssh says nothing."""
    variables = {"ansible_user": "admin", "ansible_ssh_private_key_file": str(tmp_path / "gqu")}
    row = reach.reach_failure(START + "admin@10.0.0.3: Permission denied (publickey).", "a5-03", variables)
    assert f"cannot use the key {tmp_path}/gqu: no such file or directory" in row["problem"]
    assert f"ls -l {tmp_path}/gqu" in row["next"]
    elsewhere = reach.reach_failure(START + CASES[0][0], "a5-03", variables)
    assert elsewhere["kind"] == "unreachable"


@pytest.mark.parametrize(
    ("said", "variables", "words"),
    [
        ("ssh: connect to host 10.9.9.9 port 2222: Connection timed out", {}, "ssh -p 2222 10.9.9.9"),
        ("Timeout, not responding", {"ansible_host": "10.1.1.1", "ansible_port": 2200}, "ssh -p 2200 10.1.1.1"),
        (
            "Permission denied (publickey).",
            {"ansible_user": "u", "ansible_ssh_private_key_file": "/dev/null"},
            "ssh -i /dev/null u@a5-03",
        ),
        ("Host key for [10.1.1.1]:2200 has changed", {"ansible_port": 2200}, "ssh-keygen -R '[10.1.1.1]:2200'"),
    ],
)
def test_the_next_step_can_be_typed(said: str, variables: dict[str, Any], words: str) -> None:
    assert words in reach.reach_failure(START + said, "a5-03", variables)["next"]


def test_what_is_the_same_for_many_hosts_names_none() -> None:
    rows = [
        reach.reach_failure(f"{START}ssh: connect to host 10.0.0.{n} port 22: Connection timed out", f"a5-{n}")
        for n in range(3)
    ]
    assert len({str(row["common"]) for row in rows}) == 1 and len({row["problem"] for row in rows}) == 3


@pytest.mark.parametrize("said", ["", "ssh said a thing that nobody knows", "\x1b[2J"])
def test_what_nobody_knows_is_shown(said: str) -> None:
    row = reach.reach_failure(START + said, "a5-03")
    assert (row["kind"], row["problem"], row["evidence"]) == ("unreachable", "The host cannot be reached", said.strip())


# Stands in for ssh: it says what the host's file holds, and ends as ssh does.
SSH = """#!/bin/sh
for host in away login key; do
  case " $* " in *" $host.example "*) cat '{folder}'/$host >&2; exit 255;; esac
done
exit 255
"""


@pytest.mark.parametrize(
    ("address", "untouched"),
    [
        ("a5-01.example.com", True),
        ("A5-01.Example.ORG.", True),
        ("gpu.example", True),
        ("gpu-01.invalid", True),
        ("gpu.example.de", False),
        ("counterexample.com", False),
        ("10.0.0.3", False),
    ],
)
@pytest.mark.parametrize(
    "said",
    ["Could not resolve hostname {}: Name or service not known", "connect to host {} port 22: Connection timed out"],
)
def test_an_inventory_that_was_left_as_it_came_is_said(said: str, address: str, untouched: bool) -> None:
    """Some resolvers answer for every name, so that the name is not always unknown."""
    row = reach.reach_failure(START + "ssh: " + said.format(address), address, {})
    assert ("inventory/hosts.yml" in row["next"]) == untouched and "HOST" not in row["next"] + row["problem"]
    # A host of that name in the inventory which has an address of its own.
    row = reach.reach_failure(START + "ssh: " + said.format("10.0.0.3"), address, {"ansible_host": "10.0.0.3"})
    assert "inventory/hosts.yml" not in row["next"]


def test_a_run_tells_them_apart(tmp_path: Path) -> None:
    for host, said in (("away", CASES[0][0]), ("login", CASES[13][0]), ("key", CHANGED)):
        (tmp_path / host).write_text(said + "\n")
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH.format(folder=tmp_path))
    ssh.chmod(0o755)
    inventory = tmp_path / "hosts.yml"
    hosts = ", ".join(f"{host}: {{ansible_host: {host}.example}}" for host in ("away", "login", "key"))
    inventory.write_text(f"gpu_nodes:\n  hosts: {{{hosts}}}\n  vars: {{ansible_user: admin}}\n")
    done = subprocess.run(
        [str(PLAYBOOK), "-i", str(inventory), "playbooks/verify.yml"],
        cwd=REPOSITORY,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_SSH_EXECUTABLE": str(ssh)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 4, done.stdout
    end = " ".join(done.stdout.split("GPU nodes, worst first")[1].split())
    assert "Left out: 3 of 3 hosts. Nothing was changed on them." in end
    assert "away unreachable The host cannot be reached: 10.0.0.3 does not answer in time" in end
    assert "login refused 10.0.0.3 was reached, but refuses the login of admin (publickey,password)" in end
    assert "key refused The host key of 10.0.0.3 is not the one that this controller knows" in end
