# SPDX-License-Identifier: Apache-2.0
"""From what a role decides what to do, as one checksum: its code, its settings, the plan, and what the probe found."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import ansible

from .. import trainer_wheel
from ..layers import ROLES as SETTLING
from ..plan.asked import REPOSITORY_SETTINGS
from ..role_options import ROLES, role_specs
from ..started import STARTED_AS

# They decide whether a host is left out, and nothing of what the others do; a bundle works by the others' own settings.
OF_EVERY_PLAY = ("operator_lock", "preflight", "bundle")
# A longer text is no path.
MOST_CHARACTERS = 1024
PLUGINS = ("action", "filter", "lookup", "module_utils", "modules", "plugin_utils")
INCLUDED = re.compile(r"name: gpuwright\.node\.(\w+)")
ASKED = re.compile(r"gpuwright\.node\.setting', '(\w+)'")
# The lookup asks for settings by itself.
REPOSITORIES = "gpuwright.node.asked', 'repositories'"
# Facts of the probe that change while nobody changes the node, or that only this decision uses.
VOLATILE = ("disks", "in_use", "kept_plan", "last_verdict", "lock", "settled")
# The same, wherever they are: a virtual machine's host lends it more or less memory (a balloon), and the link of a card
# is slower while the card idles. No role decides anything by them, and the plan is compared as a whole.
MEASURED = ("memory_mib", "speed_now", "width_now")


@functools.cache
def closure(role: str, roles: Path = ROLES) -> tuple[str, ...]:
    """The role and those that its tasks include, directly or not, sorted."""
    found, todo = set(), [role]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += INCLUDED.findall(_text(roles / name))
    return tuple(sorted(found))


@functools.cache
def settings(role: str, roles: Path = ROLES) -> tuple[str, ...]:
    """Names of the public variables that these roles take or ask for, sorted."""
    names: set[str] = set()
    for one in set(closure(role, roles)) - set(OF_EVERY_PLAY):
        specs = role_specs(roles)[one].values()
        names.update(*(entry.get("options", {}) for entry in specs), ASKED.findall(_text(roles / one)))
        names.update(REPOSITORY_SETTINGS if REPOSITORIES in _text(roles / one) else ())
    return tuple(sorted(names))


@functools.cache
def code(role: str, roles: Path = ROLES) -> str:
    """Checksum of all that these roles are made from, with the plug-ins, Ansible, Python and how it was started."""
    folders = [roles / name for name in closure(role, roles)] + [roles.parent / "plugins" / name for name in PLUGINS]
    parts = [ansible.__version__, platform.python_version(), STARTED_AS, *map(_checksum, folders)]
    if role == "model_trainer":
        parts.append(_trainer())
    return _sha("\n".join(parts).encode())


def prepare() -> None:
    """Work out what is the same for every host, in the process that forks the workers; each would do it anew."""
    for role in SETTLING:
        settings(role, ROLES)
        code(role, ROLES)


def checksum(
    role: str,
    value_of: Callable[[str], Any],
    plan: Mapping[str, Any],
    node: Mapping[str, Any],
    folders: Iterable[str] = (),
    roles: Path = ROLES,
) -> str:
    """Checksum of all that the role's run is decided by.

    value_of  gives the value of a public variable
    folders   of the controller, in which files that values name are looked for, besides the current one
    """
    values = {name: value_of(name) for name in settings(role, roles)}
    facts = _steady({name: value for name, value in node.items() if name not in VOLATILE})
    # Warnings are words for people, and one of them counts days.
    plan = {name: value for name, value in plan.items() if name != "warnings"}
    record = {
        "code": code(role, roles),
        "settings": values,
        "files": _files(values.values(), ("", *folders)),
        "plan": plan,
        "node": facts,
    }
    return _sha(json.dumps(record, sort_keys=True, default=str).encode())


def _steady(facts: Any) -> Any:
    """The facts without what is MEASURED."""
    if isinstance(facts, Mapping):
        return {name: _steady(value) for name, value in facts.items() if name not in MEASURED}
    return [_steady(value) for value in facts] if isinstance(facts, (list, tuple)) else facts


def _files(values: Iterable[Any], folders: Iterable[str]) -> dict[str, str]:
    """Checksums of the controller's files that values name, such as a lock file."""
    found = {}
    for value in values:
        if isinstance(value, Mapping):
            found.update(_files(value.values(), folders))
        elif isinstance(value, (list, tuple)):
            found.update(_files(value, folders))
        elif (
            isinstance(value, str)
            and value
            and "\0" not in value
            and "\n" not in value
            and len(value) < MOST_CHARACTERS
        ):
            paths = [Path(folder) / Path(value).expanduser() for folder in folders]
            found.update({str(path): _sha(path.read_bytes()) for path in paths if path.is_file()})
    return found


def _trainer() -> str:
    try:
        return trainer_wheel.source_digest()
    except FileNotFoundError as error:
        # The role says what to do about it, where it is entered.
        return str(error)


@functools.cache
def _text(role: Path) -> str:
    files = sorted(path for path in role.rglob("*.yml") if "files" not in path.relative_to(role).parts)
    return "\n".join(path.read_text("utf-8") for path in files)


@functools.cache
def _checksum(folder: Path) -> str:
    """Names and contents of the folder's files, without Python's caches."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return _sha("\n".join(f"{path.relative_to(folder)} {_sha(path.read_bytes())}" for path in files).encode())


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
