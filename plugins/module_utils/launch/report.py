# SPDX-License-Identifier: Apache-2.0
"""What gpu-run prints about a `Decision`: for people, for programs, and as a shell line that does the same."""

import json
import os
from shlex import quote
from typing import Sequence

from ..host.topology import format_cpu_list
from .decision import Decision
from .preload import prove_preload

# DataLoader workers and NCCL pass data through shared memory; containers get 64 MiB by default.
SMALL_SHARED_MEMORY = 1 << 30


def shell_line(decision: Decision, command: Sequence[str]) -> str:
    """The same as a shell line: env and numactl before the command."""
    words = ["env"] + [f"{name}={value}" for name, value in sorted(decision.changed.items())]
    words += ["numactl", "--physcpubind=" + format_cpu_list(decision.cpus)]
    if decision.memory_policy != "none":
        option = "--preferred=" if decision.memory_policy == "preferred" else "--membind="
        words.append(option + format_cpu_list(decision.memory_nodes))
    return " ".join(quote(word) for word in words + ["--"] + list(command or ["command"]))


def examine(decision: Decision) -> None:
    """Add what takes too long for a normal start: the proof that the allocator is loaded, the size of shared memory."""
    if decision.allocator:
        fault = prove_preload(decision.allocator, decision.environment)
        decision.note("allocator loaded", "no" if fault else "yes", fault or "seen in /proc/<pid>/maps of a process")
        decision.warnings += [f"{decision.allocator}: {fault}"] if fault else []
    try:
        size = os.statvfs("/dev/shm")
    except OSError:
        return
    total = size.f_blocks * size.f_frsize
    if total < SMALL_SHARED_MEMORY:
        message = "/dev/shm has {} MiB: DataLoader workers and NCCL need more (docker run --shm-size=8g)"
        decision.warnings.append(message.format(total >> 20))


def as_table(decision: Decision, command: Sequence[str]) -> str:
    """All settings with their reasons for a human reader."""
    rows = [["setting", "value", "why"]] + decision.rows
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = ["{:{}}  {:{}}  {}".format(row[0], widths[0], row[1], widths[1], row[2]) for row in rows]
    lines += ["", "by hand: " + shell_line(decision, command)]
    return "\n".join(lines + ["warning: " + warning for warning in decision.warnings])


def as_json(decision: Decision, command: Sequence[str]) -> str:
    """The same for programs."""
    answer = {
        "schema": 1,
        "gpus": [gpu.as_dict() for gpu in decision.gpus],
        "cpus": format_cpu_list(decision.cpus),
        "memory_policy": decision.memory_policy,
        "memory_nodes": decision.memory_nodes,
        "environment": decision.changed,
        "settings": [{"setting": row[0], "value": row[1], "why": row[2]} for row in decision.rows],
        "by_hand": shell_line(decision, command),
        "warnings": decision.warnings,
    }
    return json.dumps(answer, indent=2, sort_keys=True)
