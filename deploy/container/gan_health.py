#!/opt/gan-trainer/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Exit 0 while the training in this container makes progress, 1 if it has stalled.

    gan-health RUN_FOLDER [SECONDS]

The sign of life is the newest stats.jsonl in RUN_FOLDER or one folder below it: the trainer adds a line every
`log_every` steps. Until there is one, the start of the container counts. SECONDS is how old the sign may be; the
default is half an hour, since compiling and a computation of FID take minutes.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

SECONDS = 1800


def last_sign(folder: Path, started: float) -> float:
    """Time of the newest line of statistics, or of the start when that is newer (seconds since 1970)."""
    files = [*folder.glob("stats.jsonl"), *folder.glob("*/stats.jsonl")]
    return max([started, *(file.stat().st_mtime for file in files)])


def start_of_process(stat: str, uptime_s: float, now: float, ticks_per_s: int) -> float:
    """When a process began, from its /proc/PID/stat (proc(5), field 22)."""
    # The name in parentheses may contain anything; field 3 comes after the last parenthesis.
    return now - uptime_s + int(stat.rpartition(")")[2].split()[19]) / ticks_per_s


def main(arguments: list[str]) -> int:
    if not arguments or len(arguments) > 2 or not all(word.isdecimal() for word in arguments[1:]):
        print("usage: gan-health RUN_FOLDER [SECONDS]", file=sys.stderr)
        return 2
    folder, limit = Path(arguments[0]), int(arguments[1]) if len(arguments) == 2 else SECONDS
    now = time.time()
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    started = start_of_process(Path("/proc/1/stat").read_text(), uptime_s, now, os.sysconf("SC_CLK_TCK"))
    age = now - last_sign(folder, started)
    state = "alive" if age <= limit else "stuck"
    print(f"{state}: last sign of life in {folder} {age:.0f} s ago, at most {limit} s are allowed")
    return 0 if age <= limit else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
