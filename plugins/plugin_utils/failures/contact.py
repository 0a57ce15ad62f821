# SPDX-License-Identifier: Apache-2.0
"""Translate the answer of a host's sudo or Python to the first task into what is wrong and what to do next."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .cause import Cause, first_cause

SUDOERS = "`<ansible_user> ALL=(ALL) NOPASSWD: ALL`, written with `visudo -f /etc/sudoers.d/ansible`"
# What the patterns are from.
SUDO, ANSIBLE, KERNEL = "sudo 1.8 and 1.9, doas", "ansible-core 2.16 to 2.21", "Linux"
# First match wins.
NO_SPACE = Cause(
    "contact.space",
    r"No space left on device",
    "A file system of the host is full",
    "Free space there (`df -h / /tmp /var/tmp`) and run again.",
    KERNEL,
)
NO_FILES = Cause(
    "contact.temporary",
    r"Failed to create temporary directory",
    "Ansible cannot write its temporary files on the host",
    "As ansible_user on the host: `df -h . /var/tmp; findmnt -T .` shows whether it is full or read-only; repair that, "
    "or name a folder to write to in ansible_remote_tmp.",
    ANSIBLE,
)
CAUSES = (
    Cause(
        "contact.core",
        r"future feature annotations is not defined|ansible-core requires a minimum of Python",
        "The controller's ansible-core is too new for the Python of this host",
        "RHEL 8 and its rebuilds need ansible-core 2.16.19 (`make venv` installs it); the other hosts continue.",
        ANSIBLE,
    ),
    Cause(
        "contact.sudo_password",
        r"Missing \w+ password|a password is required|a terminal is required|no tty present|no askpass program",
        "The host's sudo asks for a password, but none was given",
        f"Run again with -K (--ask-become-pass), or let ansible_user become root without one: {SUDOERS}.",
        SUDO,
    ),
    Cause(
        "contact.sudo_refused",
        r"Incorrect \w+ password|incorrect password attempt|[Ss]orry, try again",
        "The host's sudo refuses the password",
        "Run again with -K and the password of ansible_user on that host, not root's.",
        SUDO,
    ),
    Cause(
        "contact.terminal",
        r"must have a tty",
        "The host's sudo requires a terminal (requiretty)",
        "On the host add `Defaults:<ansible_user> !requiretty` with visudo, or set ansible_pipelining: false for it; a "
        "lost connection then ends whatever is running there.",
        SUDO,
    ),
    Cause(
        "contact.no_rights",
        r"not in the sudoers|not allowed to (execute|run)|may not run sudo|[Oo]peration not permitted.*doas",
        "ansible_user may not become root on the host",
        f"Allow it there: {SUDOERS}; or set ansible_user to a user who may.",
        SUDO,
    ),
    Cause(
        "contact.sudoers",
        r"(syntax|parse) error.*sudoers|sudoers.*(syntax|parse) error|no valid sudoers|unable to open /etc/sudoers"
        r"|owned by uid \d+, should be|is (world|group) writable",
        "The host's sudo cannot use its own rules",
        "As root on the host: `visudo -c` names the line; fix it and run again.",
        SUDO,
    ),
    Cause(
        "contact.sudo_root",
        r"effective uid is not|setuid bit|no new privileges",
        "The host's sudo cannot become root",
        "Look at `ls -l $(command -v sudo)` and at the mount options there (nosuid); connect as root until that is "
        "fixed.",
        SUDO,
    ),
    Cause(
        "contact.account",
        r"account (validation failure|is (locked|expired))|password (has )?expired|new password",
        "The account of ansible_user on the host is locked, or its password has expired",
        "Log in as that user and renew the password, or ask the administrator of the directory; then run again.",
        SUDO,
    ),
    Cause(
        "contact.sudo_slow",
        r"waiting for privilege escalation prompt|[Tt]imed? ?out.*become",
        "The host's sudo did not answer in time",
        "As ansible_user on the host: `time sudo -n true`; a name server or directory that hangs is the usual cause.",
        ANSIBLE,
    ),
    Cause(
        "contact.no_sudo",
        r"(sudo|doas|su):( command)? not found|exec: (sudo|doas|su)\b|(sudo|doas): No such file",
        "There is no sudo on the host",
        "Install it, connect as root (ansible_user: root), or set another method in ansible_become_method.",
        SUDO,
    ),
    Cause(
        "contact.no_python",
        r"python[0-9.]*:( command)? not found|python[0-9.]*: No such file|missing a compatible Python"
        r"|interpreter .*(not found|could not be)|set the interpreter",
        "The host has no Python that Ansible can use",
        "Install python3 there, or name one in ansible_python_interpreter (RHEL 8: /usr/libexec/platform-python).",
        ANSIBLE,
    ),
    Cause(
        "contact.sshpass",
        r"install the sshpass program",
        "This controller cannot pass a password to ssh: it has no sshpass",
        "Here: `sudo apt install sshpass` or `sudo dnf install sshpass`; or log in with a key (ssh-copy-id) and omit "
        "-k.",
        ANSIBLE,
    ),
    NO_SPACE,
    NO_FILES,
)
# What ssh, login banners and Ansible print around the sentence that matters.
NOISE = re.compile(
    r"Shared connection to .* closed|Connection to .* closed|Pseudo-terminal|unable to resolve host|^\s*$"
    r"|the usual lecture|System Administrator|#\d\)|See stdout/stderr for the exact error",
    re.IGNORECASE,
)
LONGEST = 400
ELSE = (
    "As ansible_user on the host: `sudo -n true`, `python3 -V`. Then, on it alone: ansible-playbook "
    "playbooks/preflight.yml -vvv"
)


def contact_failure(result: Mapping[str, Any], variables: Mapping[str, Any] | None = None) -> dict[str, str]:
    """C(id), C(problem), C(evidence), C(next) for the failed result of the first module that ran on a host as root.

    variables  the host's; the command to type names its ansible_user
    """
    user = str((variables or {}).get("ansible_user") or "<ansible_user>")
    said = [str(result.get(name) or "") for name in ("msg", "module_stderr", "module_stdout", "exception")]
    everything = "\n".join(said)
    found = first_cause(CAUSES, everything)
    if found:
        cause, match = found
        line = next(line for line in everything.splitlines() if _overlaps(line, match.group()))
        step = cause.next.replace("<ansible_user>", user)
        return {"id": cause.id, "problem": cause.problem, "evidence": _short(line), "next": step}
    message = _short(said[0])
    own = [line for text in said[1:3] for line in text.splitlines() if not NOISE.search(line)]
    evidence = _short(own[-1]) if own and (not message or message.startswith("MODULE FAILURE")) else message
    return {"id": "contact.unknown", "problem": "The host could not be read", "evidence": evidence, "next": ELSE}


def _overlaps(line: str, words: str) -> bool:
    return words in line or (bool(line.strip()) and line in words)


def _short(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()[:LONGEST]
