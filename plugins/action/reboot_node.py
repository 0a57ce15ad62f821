# SPDX-License-Identifier: Apache-2.0
"""Ansible's own reboot, except for hosts that do not come back as they should.

ansible.builtin.reboot takes every failed connection for a host that is still booting. It therefore keeps trying a host
whose key ssh refuses until the time is up, and then only says that the time is up (ansible issue 77353). Here such a
host is named at once. For a host that has not answered when the time is up, it says that a task has failed; here it is
unreachable, as it would be in any other task.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action.reboot import ActionModule as Reboot

# OpenSSH's banner and last line in any version since 5, its key negotiation error, and paramiko's message.
REFUSED = re.compile(
    r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for \S+ has changed|Host key verification failed"
    r"|host key mismatch",
    re.IGNORECASE,
)
HOST = re.compile(r"Host key for (\S+) has changed|host key mismatch for (\S+)", re.IGNORECASE)
KNOWN = re.compile(r"Offending (\S+) key in (\S+):(\d+)")
SENT = re.compile(r"sent by the remote host is\s+(\S+?)\.?\s")


class HostKeyRefused(BaseException):
    """Not an Exception, since the waiting loop takes each of those for a host that is still booting."""


def refused_host_key(said: str, address: str) -> str:
    """What happened and what to type, if ssh's words mean that the host has another key; "" otherwise.

    said     ssh's standard error          address  of the host, in case ssh does not name it
    """
    if not REFUSED.search(said):
        return ""
    named, known, sent = HOST.search(said), KNOWN.search(said), SENT.search(said + " ")
    host = next((group for group in named.groups() if group), address) if named else address
    host = host.rstrip(":.")
    kind = known.group(1).lower() if known else "ed25519"
    place = f" -f {shlex.quote(known.group(2))}" if known else ""
    # ssh writes a host with another port as [host]:port.
    at_port = re.fullmatch(r"\[(.+)\]:(\d+)", host)
    scan = f"-p {at_port.group(2)} {at_port.group(1)}" if at_port else host
    return (
        f"{host} was rebooted and answers with another ssh host key than before"
        f"{f' ({sent.group(1)})' if sent else ''}, so ssh refuses it: its keys were regenerated at boot, or another "
        "machine has its address. Somebody must compare at the console: `ssh-keygen -lf "
        f"/etc/ssh/ssh_host_{kind}_key.pub` there, `ssh-keyscan -t {kind} {scan} | ssh-keygen -lf -` here. Only if "
        f"they are equal: `ssh-keygen -R {shlex.quote(host)}{place}`, log in once, and run again."
    )


class ActionModule(Reboot):
    """Arguments and result are those of ansible.builtin.reboot."""

    # What ssh said when the host was last asked; "" once it has answered.
    _silence = ""

    def do_until_success_or_timeout(self, action: Any, *arguments: Any, **named: Any) -> None:
        """The parent's loop, ended by a refused host key."""

        def watched(**words: Any) -> None:
            try:
                action(**words)
                self._silence = ""
            except Exception as error:
                self._silence = str(error) if isinstance(error, AnsibleConnectionFailure) else ""
                refusal = refused_host_key(str(error), str(self._play_context.remote_addr))
                if refusal:
                    raise HostKeyRefused(refusal) from error
                raise

        super().do_until_success_or_timeout(watched, *arguments, **named)

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        try:
            result = super().run(tmp, task_vars)
        except HostKeyRefused as refusal:
            return {"failed": True, "changed": True, "rebooted": True, "msg": f"{refusal} [reboot.host_key]"}
        if result.get("failed") and self._silence:
            raise AnsibleConnectionFailure(f"The host was rebooted and has not answered since: {self._silence}")
        return result
