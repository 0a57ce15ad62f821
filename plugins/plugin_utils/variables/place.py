# SPDX-License-Identifier: Apache-2.0
"""Where a variable was set: the file and line that Ansible remembers, the command line, or how to find out."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible import constants as C
from ansible import context
from ansible.parsing.splitter import parse_kv

from ..host_values import origin_of


def with_places(lines: Iterable[str], variables: Mapping[str, Any]) -> list[str]:
    """Messages about variables (variables/rules.py), each with the place in which its variable was set.

    variables   the host's, as Ansible hands them to an action: templated values no longer know where they are from
    """
    return [_with_place(line, variables) for line in lines]


def _with_place(line: str, variables: Mapping[str, Any]) -> str:
    named = re.match(r"(?:unknown variable )?(\w+)", line)
    name = named[1] if named else ""
    if name not in variables:
        return line
    words = place_of(name, variables)
    head, fault = re.fullmatch(r"(.*?)( \[[a-z_.]+\])?", line, re.DOTALL).groups("")  # type: ignore[union-attr]
    # One bracket: "(given: 580; set in inventory/group_vars/gpu_nodes/system.yml:3)".
    inner = head.endswith(")") and " (given: " in head
    return f"{head[:-1]}; {words}){fault}" if inner else f"{head} ({words}){fault}"


def place_of(name: str, variables: Mapping[str, Any]) -> str:
    """For example "set in inventory/group_vars/gpu_nodes/system.yml:3"."""
    if _on_command_line(name):
        return "set on the command line"
    key = next(key for key in variables if key == name)
    file, line = _origin(variables[name])
    if not file:
        # Numbers have no place of their own. Of a name that was set twice, Ansible keeps that of the one which lost.
        file, line = _origin(key)
        file = file if file and _stands_there(file, line, name, variables[name]) else ""
    if file:
        return f"set in {_short(file)}:{line}"
    return f"to find where it is set: grep -rnw {name} {' '.join(map(shlex.quote, _folders()))}"


def _origin(value: Any) -> tuple[str, int]:
    """(file, line), ("", 0) if not known, or not of a file that is there."""
    file, line = origin_of(value)
    return (file, line) if file and line and Path(file).is_file() else ("", 0)


def _stands_there(file: str, line: int, name: str, value: Any) -> bool:
    """Whether this line of the file sets the name to this value, which is no text."""
    try:
        text = Path(file).read_text(encoding="utf-8").splitlines()[line - 1]
    except (OSError, UnicodeError, IndexError):
        return False
    told = re.fullmatch(rf"\s*[\"']?{name}[\"']?\s*:\s*([^\s#]*)\s*(#.*)?", text)
    plain = {
        "true": "True",
        "false": "False",
        "yes": "True",
        "no": "False",
        "on": "True",
        "off": "False",
        "null": "None",
        "~": "None",
        "": "None",
    }
    return told is not None and plain.get(told[1].lower(), told[1]) == str(value)


def _on_command_line(name: str) -> bool:
    given = [str(text) for text in context.CLIARGS.get("extra_vars") or () if str(text)[:1] != "@"]
    # In either form that Ansible takes there.
    forms = [yaml.safe_load(text) if text.lstrip()[:1] in "{[" else parse_kv(text) for text in given]
    return any(name in form for form in forms)


def _folders() -> list[str]:
    """The inventories of this run that are files or folders; of a file its folder, in which group_vars lie."""
    sources = [str(source) for source in context.CLIARGS.get("inventory") or C.DEFAULT_HOST_LIST or ()]
    paths = [Path(source) for source in sources if "," not in source]
    found = [_short(str(path if path.is_dir() else path.parent)) for path in paths if path.exists()]
    return list(dict.fromkeys(found)) or ["."]


def _short(path: str) -> str:
    """As one would type it from where the run was started."""
    near = os.path.relpath(path)
    return path if near.startswith("..") else near
