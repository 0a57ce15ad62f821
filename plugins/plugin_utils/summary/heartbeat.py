# SPDX-License-Identifier: Apache-2.0
"""A sign of life while a long task is silent."""

from __future__ import annotations

import dataclasses
import textwrap
import threading
import time
from collections.abc import Callable

from .words import duration, fold_names, name_some, printable, width, wrapped

# Columns: names of tasks are whole but for lists of packages, and a beat has at most three lines.
MOST_OF_A_NAME = 120
MOST_OF_THE_HOSTS = 48
TOGETHER = "\u00a0"
# After this many lines, a running task is reported less often: a slow mirror must not fill the screen.
OFTEN = 6
SELDOM = 3


@dataclasses.dataclass
class Running:
    """A task that some hosts have not finished; times are those of the monotonic clock, in seconds."""

    name: str
    started: float
    due: float
    hosts: set[str] = dataclasses.field(default_factory=set)
    said: int = 0


def heartbeat_line(task: str, elapsed: float, hosts: set[str]) -> str:
    """For example "  ... Reboot: 40 s, waiting for a5-01, a5-02"; of a long list of packages, the first ones."""
    name = textwrap.shorten(printable(task), MOST_OF_A_NAME, placeholder=" ...")
    who = name_some(fold_names(map(printable, hosts)), MOST_OF_THE_HOSTS)
    # A number and its unit stay on one line.
    text = f"{name}: {duration(elapsed).replace(' ', TOGETHER)}, waiting for {who}"
    return "\n".join(wrapped(text, width(), "  ... ", "      ")).replace(TOGETHER, " ")


class Heartbeat:
    """A thread that says which tasks are still running; `say` prints a line and must be callable from any thread."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._tasks: dict[str, Running] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, task: str, name: str, host: str, interval: float) -> None:
        now = time.monotonic()
        with self._lock:
            running = self._tasks.setdefault(task, Running(name, now, now + interval))
            running.hosts.add(host)
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, args=(interval,), daemon=True)
            self._thread.start()

    def end(self, task: str, host: str) -> None:
        with self._lock:
            running = self._tasks.get(task)
            if running:
                running.hosts.discard(host)
                # A later host of the same task restarts its time.
                if not running.hosts:
                    del self._tasks[task]

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=2)
            self._thread = None
        with self._lock:
            self._tasks.clear()

    def _run(self, interval: float) -> None:
        while not self._stop.wait(min(1.0, interval / 4)):
            for line in self._due(interval):
                self._say(line)

    def _due(self, interval: float) -> list[str]:
        lines = []
        now = time.monotonic()
        with self._lock:
            for running in self._tasks.values():
                if now >= running.due:
                    lines.append(heartbeat_line(running.name, now - running.started, running.hosts))
                    running.said += 1
                    running.due += interval * (SELDOM if running.said >= OFTEN else 1)
        return lines
