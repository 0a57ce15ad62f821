# SPDX-License-Identifier: Apache-2.0
"""The command that continues with some of the hosts: as the run was started, with a new limit, without secrets."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleError
from ansible.parsing.splitter import parse_kv
from ansible_collections.gpuwright.node.plugins.module_utils.host.written.told import without_secrets

from .words import natural

GROUP = "gpu_nodes"
# A value under such a name, at any depth, is never printed; the path of a file with a secret in it may be.
SECRET = re.compile(r"password|passwd|passphrase|_pass\b|secret|token|credential|private|api_?key", re.IGNORECASE)
# Single letters that take no value may come before one that does: -vl a5-01.
FLAGS = "bCDkKvhJ"
LIMIT = re.compile(rf"-[{FLAGS}]*l(?P<short>.*)|--(?:l|li|lim|limi|limit)(=(?P<long>.*))?", re.DOTALL)
EXTRA = re.compile(rf"-[{FLAGS}]*e(?P<short>.*)|--e[a-z-]*(=(?P<long>.*))?", re.DOTALL)
BECOME_PASSWORD = re.compile(rf"-[{FLAGS}]*K[{FLAGS}]*|--ask-become-p.*|--become-p.*")


def limit_for(wanted: Sequence[str], others: Sequence[str], limit: str | None) -> str | None:
    """The shorter of two forms: the wanted hosts, or all hosts of the run except the others; None: the run's own limit.

    limit  what the run was limited to, None for the whole group
    """
    if not others:
        return None
    names = ",".join(sorted(wanted, key=natural))
    if limit and limit.lstrip().startswith("@"):
        return names
    # Ansible treats a pattern with a comma as a list, and a colon as an older form of the same.
    separator = "," if limit and "," in limit else ":"
    rest = separator.join([limit or GROUP, *(f"!{name}" for name in sorted(others, key=natural))])
    return names if len(names) <= len(rest) else rest


def without(bad: Sequence[str], limit: str | None) -> str:
    """The run's hosts except these."""
    separator = "," if limit and "," in limit else ":"
    return separator.join([limit or GROUP, *(f"!{name}" for name in sorted(bad, key=natural))])


def go_on(
    argv: Sequence[str], cli: Mapping[str, Any], limit: str | None, inventory: str = "", become_password: bool = False
) -> tuple[str, list[str]]:
    """The command line, and the names of the extra variables that it leaves out because they may be secret.

    argv       of this process           cli  Ansible's parsed arguments, for a program that is not ansible-playbook
    limit      None keeps the run's own   inventory  of the environment, if the command line names none
    become_password  whether -K is needed
    """
    arguments = list(argv[1:]) if set(cli.get("args") or ()) <= set(argv[1:]) else list(cli.get("args") or ())
    if arguments[:1] == ["playbook"] and Path(argv[0]).stem == "__main__":
        arguments = arguments[1:]
    kept: list[str] = []
    secret: list[str] = []
    position = 0
    while position < len(arguments):
        word = arguments[position]
        following = arguments[position + 1] if position + 1 < len(arguments) else ""
        position += 1
        found = EXTRA.fullmatch(word)
        if found:
            attached = _attached(found)
            position += attached is None
            shown, names = extra_vars(following if attached is None else attached)
            kept += ["-e", shlex.quote(shown)] if shown else []
            secret += names
            continue
        found = LIMIT.fullmatch(word)
        if found and limit is not None:
            position += _attached(found) is None
            continue
        kept.append(shlex.quote(word))
    if inventory and not any(re.match(r"-i|--inv", word) for word in arguments):
        kept += ["-i", shlex.quote(inventory)]
    if become_password and not any(BECOME_PASSWORD.fullmatch(word) for word in arguments):
        kept.append("-K")
    if limit is not None:
        kept += ["-l", "'" + limit.replace("'", "'\\''") + "'"]
    return " ".join(["ansible-playbook", *kept]), secret


def _attached(found: re.Match[str]) -> str | None:
    """The value in the same word: -la5-01, --limit=a5-01; None if it is in the next one."""
    return found["long"] if found["long"] is not None else found["short"] or None


def extra_vars(text: str) -> tuple[str, list[str]]:
    """The part of one -e that may be shown ("" if nothing), and the names of what may not."""
    if text.startswith("@"):
        return text, []
    if text.lstrip().startswith(("{", "[")):
        try:
            values = yaml.safe_load(text)
        except yaml.YAMLError:
            return "", ["the -e that is not valid YAML"]
    else:
        try:
            values = parse_kv(text)
        except AnsibleError:
            return "", ["the -e that is not a list of name=value"]
    if not isinstance(values, dict):
        return "", ["the -e that is no dictionary"]
    hidden = [str(name) for name, value in values.items() if _is_secret(name, value)]
    if not hidden:
        return text, []
    shown = {name: value for name, value in values.items() if str(name) not in hidden}
    return (json.dumps(shown) if shown else ""), hidden


def _is_secret(name: Any, value: Any) -> bool:
    if SECRET.search(str(name)) and not str(name).endswith(("_file", "_path")):
        return True
    if isinstance(value, dict):
        return any(_is_secret(key, part) for key, part in value.items())
    if isinstance(value, list):
        return any(_is_secret("", part) for part in value)
    return without_secrets(str(value)) != str(value)
