# SPDX-License-Identifier: Apache-2.0
"""Runs that end although nothing, or not all, was done: what the command line left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Exit status, where Ansible's would be that of a success.
NOTHING_DONE = 1
STEPS = "With --step, only the tasks were run that somebody agreed to; a run without it does the rest."


def nothing_done(arguments: Mapping[str, Any]) -> str:
    """Why no host was given any task, and what to do; the last words are the fault's id."""
    if arguments.get("start_at_task"):
        why = (
            f"no task that a play lists from the start has the name {arguments['start_at_task']!r}, which "
            "--start-at-task asks for. One in a file that is only read during the run is not found: use --tags"
        )
    elif arguments.get("step"):
        why = "--step asks before each task, and nobody agreed to one. Start it at a terminal, and answer y or c"
    else:
        words = [f"--{name.replace('_', '-')} {','.join(arguments.get(name) or ())}" for name in ("tags", "skip_tags")]
        given = [word for word in words if not word.endswith((" ", " all"))]
        why = f"{' and '.join(given) or 'the command'} leaves no task. Choose other tags, or leave them out"
    return f"GPU nodes: nothing was done on any of them: {why} [run.no_task]"
