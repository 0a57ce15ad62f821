"""What one condition is, and how it is put upon a host of the fleet; product code knows of none of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuwright_fleet.podman import podman

FOLDER = "/etc/world"
BOOT_UNIT = """\
[Unit]
Description=Conditions of this machine that its start brings
After=local-fs.target fleet-modules.service
Before=ssh.service sshd.service

[Service]
Type=oneshot
RemainAfterExit=true
ExecStart=/bin/sh -e /etc/world/boot.sh

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True)
class Condition:
    """One way in which a machine is not the one that the code was written on.

    host         script that root runs on the host once, before the run       boot   the same at each of its starts
    environment  variables of the controller's shell                          umask  of that shell, octal words
    variables    extra variables of the run                                   words  more words for ansible-playbook
    seen         script that root runs on the host after the run: its last line is what was seen, and it fails where the
                 condition did not hold or was not met                        here   the same in the controller's shell
    """

    name: str
    host: str = ""
    boot: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    umask: int | None = None
    variables: Mapping[str, object] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    seen: str = ""
    here: str = ""


@dataclass(frozen=True)
class Refusal:
    """A condition in which the run must end before it changes anything, with these words in its output."""

    condition: Condition
    says: tuple[str, ...]
    playbook: str = "site.yml"


def as_root(container: str, script: str, check: bool = True, timeout: float = 180) -> tuple[int, str]:
    """Run a script on a host as root, from outside; exit status and output, stdout and stderr together."""
    done = podman("exec", container, "sh", "-c", f"exec 2>&1\n{script}", check=False, timeout=timeout)
    if check and done.returncode != 0:
        raise AssertionError(f"{container}: {script}\n{done.stdout}{done.stderr}")
    return done.returncode, done.stdout.strip()


def apply(container: str, conditions: Sequence[Condition], words: Mapping[str, str]) -> None:
    """Put the conditions upon a bare host. `words`: what @NAME@ in their scripts means in this fleet."""
    as_root(container, f"mkdir -p {FOLDER}")
    boots = [filled(condition.boot, words) for condition in conditions if condition.boot]
    if boots:
        text = "\n".join(["#!/bin/sh", *boots, ""])
        as_root(container, f"printf %s {shlex.quote(text)} > {FOLDER}/boot.sh")
        unit = "/etc/systemd/system/world.service"
        as_root(container, f"printf %s {shlex.quote(BOOT_UNIT)} > {unit}; systemctl enable --now world.service")
    for condition in conditions:
        if condition.host:
            as_root(container, "set -eu\n" + filled(condition.host, words))


def filled(script: str, words: Mapping[str, str]) -> str:
    for name, value in words.items():
        script = script.replace(f"@{name}@", value)
    return script
