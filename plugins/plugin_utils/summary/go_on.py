# SPDX-License-Identifier: Apache-2.0
"""How to continue with the hosts that are not done: the same command, only for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

from ansible import context
from ansible_collections.gpuwright.node.plugins.plugin_utils.started import is_continued_otherwise

from . import command
from .rows import DONE, Row
from .words import fold_names, name_some, printable

# Maximum length of the names of the hosts to leave out.
NAMES = 60


def lines(nodes: Sequence[Row], selected: Iterable[str], own: bool) -> list[str]:
    """The command for the hosts that are not done; if one of them stopped all, also the command without it.

    selected  the hosts of all plays so far       own  whether the play is on the toolkit's own group
    """
    done = {row.host for row in nodes if row.word in DONE}
    every = {row.host for row in nodes if row.host != "localhost"} | set(selected)
    wanted = sorted(every - done)
    on_controller = any(row.host == "localhost" for row in nodes) and "localhost" not in every
    if not wanted or is_continued_otherwise() or on_controller:
        return []
    # Within a play's hosts, "all" means all of them, whatever their group.
    limit = context.CLIARGS.get("subset") or (None if own else "all")
    innocent = {row.host for row in nodes if row.word == "STOPPED" and "because of other hosts" in row.text}
    password = any(row.word == "refused" and "Run again with -K" in row.next for row in nodes)
    line, secret = _command(command.limit_for(wanted, sorted(done), limit), password)
    if innocent:
        bad = sorted(every - done - innocent)
        named = name_some(fold_names(bad), NAMES)
        told = [
            f"To continue without {named}: {_command(command.without(bad, limit), False)[0]}",
            f"To continue with all, once that is fixed: {line}",
        ]
    else:
        told = [f"To continue: {line}"]
    if secret:
        names = ", ".join(printable(name) for name in secret)
        told.append(f"  and again with -e for {names}, which may be secret.")
    return told


def _command(limit: str | None, password: bool) -> tuple[str, list[str]]:
    inventory = os.environ.get("ANSIBLE_INVENTORY", "")
    line, secret = command.go_on(sys.argv, context.CLIARGS, limit, inventory, password)
    return printable(line), secret
