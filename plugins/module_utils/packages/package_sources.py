# SPDX-License-Identifier: Apache-2.0
"""Switch off dnf's repositories that are not below a folder, remember which, and switch them on again.

A repository that nobody can reach ends every transaction of dnf, also of packages that it does not have.
"""

import os
import re
from typing import Dict, List, Mapping, Sequence, Tuple

from ..host.whole_file import write_edited
from ..host.written.state_file import read_state, write_state

# Names of sections by file.
FORM = {str: [str]}

FOLDER = "/etc/yum.repos.d"
SECTION = re.compile(r"^\s*\[([^\]]+)\]\s*$")
VALUE = re.compile(r"^(\w+)\s*[=:]\s*(.*?)\s*$")
# Words of dnf.conf(5).
OFF = ("0", "no", "false", "off")


def sections(text: str) -> List[Tuple[str, Dict[str, str], int]]:
    """(name, values, number of its line) of each section; what is before the first one is nobody's."""
    found: List[Tuple[str, Dict[str, str], int]] = []
    for number, line in enumerate(text.splitlines()):
        name, value = SECTION.match(line), VALUE.match(line)
        if name:
            found.append((name.group(1), {}, number))
        elif value and found:
            found[-1][1][value.group(1)] = value.group(2)
    return found


def to_switch_off(text: str, below: str) -> List[str]:
    """Sections that are on, and have their packages elsewhere."""
    return [
        name
        for name, values, _line in sections(text)
        if name != "main"
        and values.get("enabled", "1").lower() not in OFF
        and not values.get("baseurl", "").startswith(below)
    ]


def switched(text: str, names: Sequence[str], state: str) -> str:
    """The text with `enabled` of these sections set to "0" or "1"; all other lines stay."""
    lines = text.splitlines(True)
    for name, values, number in reversed(sections(text)):
        if name not in names:
            continue
        end = next((at for at in range(number + 1, len(lines)) if SECTION.match(lines[at])), len(lines))
        own = [at for at in range(number + 1, end) if "enabled" in values and re.match(r"enabled\s*[=:]", lines[at])]
        if own:
            lines[own[-1]] = f"enabled={state}\n"
        else:
            lines.insert(number + 1, f"enabled={state}\n")
    return "".join(lines)


def files_of(folder: str) -> Dict[str, str]:
    """Text of each file of repositories, by its path."""
    found = {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        path = os.path.join(folder, name)
        if name.endswith(".repo") and os.path.isfile(path):
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                found[path] = file.read()
    return found


def read_record(path: str) -> Dict[str, List[str]]:
    """What was switched off, as names of sections by file; empty if nothing was."""
    return read_state(path, FORM) or {}


def write_record(path: str, record: Mapping[str, Sequence[str]]) -> None:
    write_state(path, record, FORM, 0o644)


def write_file(path: str, text: str) -> None:
    """Replace a file of repositories; its mode stays, for it may hold a login."""
    write_edited(path, text.encode("utf-8", "surrogateescape"))
