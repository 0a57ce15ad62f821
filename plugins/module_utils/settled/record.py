# SPDX-License-Identifier: Apache-2.0
"""The node's record of roles that had nothing to do, and whether what they looked at is still as it was then."""

import os
from typing import Any, Dict, List, Mapping

from ..host.written.state_file import NAME, Damaged, read_state, write_state
from .watch import RunProgram, look, run_bounded

PATH = "/var/lib/gpuwright/settled.json"
SCHEMA = 1
# It says which files the node's administrator cares about.
MODE = 0o600
# What was seen: kind and name of a thing, and its text (`watch.look`).
FORM = {"schema": {SCHEMA}, "roles": {str: {"inputs": str, "seen": [[NAME, NAME, NAME]]}}}


def read_settled(root: str = "/", run: RunProgram = run_bounded) -> Dict[str, Dict[str, Any]]:
    """`{role: {inputs, changed}}`: from which settings it had nothing to do, and what has changed on the node since.

    Empty if there is no record that can be read. Whatever cannot be looked at has changed.
    """
    roles = _load(root)
    things = {(kind, name) for role in roles.values() for kind, name, _text in role["seen"]}
    try:
        now = look(things, root, run)
    except (OSError, ValueError) as error:
        return {name: {"inputs": role["inputs"], "changed": [str(error)]} for name, role in roles.items()}
    return {
        name: {"inputs": role["inputs"], "changed": _changed(role["seen"], now)} for name, role in sorted(roles.items())
    }


def _changed(seen: List[List[str]], now: Mapping[Any, str]) -> List[str]:
    return [f"{kind} {name}".strip()[:200] for kind, name, text in seen if now[kind, name] != text]


def record_settled(roles: Mapping[str, Mapping[str, Any]], verdict: str) -> str:
    """Keep the record after a verification; returns what went wrong, "" if nothing did. The verdict stands anyway.

    A node that fails is looked at in full by every run, so nothing is recorded there.
    """
    try:
        if roles and verdict in ("PASS", "WARN"):
            keep_settled(roles)
    except (OSError, ValueError) as error:
        return f"roles that had nothing to do are not recorded: {error}"
    return ""


def keep_settled(roles: Mapping[str, Mapping[str, Any]], root: str = "/", run: RunProgram = run_bounded) -> None:
    """Record roles that had nothing to do in this run; the others' records stay. OSError, ValueError.

    roles  {role: {inputs, things}}, where things are [kind, name]
    """
    now = look({(kind, name) for role in roles.values() for kind, name in role["things"]}, root, run)
    found = _load(root)
    for name, role in roles.items():
        seen = sorted(
            [kind, thing, now[kind, thing]] for kind, thing in {(kind, thing) for kind, thing in role["things"]}
        )
        found[name] = {"inputs": role["inputs"], "seen": seen}
    write_state(os.path.join(root, PATH.lstrip("/")), {"schema": SCHEMA, "roles": found}, FORM, MODE, indent=None)


def _load(root: str) -> Dict[str, Dict[str, Any]]:
    """The record's roles; empty if it is not one that this version wrote: then every role is looked at in full."""
    try:
        record = read_state(os.path.join(root, PATH.lstrip("/")), FORM)
    except (OSError, Damaged):
        return {}
    return dict(record["roles"]) if record else {}
