# SPDX-License-Identifier: Apache-2.0
"""Examine things one by one where a single look may never return.

The memory map of a process is guarded by a lock that a process hanging in the driver may hold forever (proc(5), `maps`
and `cmdline`); a process that waits for the lock hangs, too. So a child looks, its answers come through a pipe, and a
child that is silent for too long is left behind; the thing that it was looking at counts as unreadable.
"""

import json
import os
import select
import signal
import time
from typing import Any, Callable, List, Sequence

CHUNK_BYTES = 65536
# After this many things that never answered, the rest is given up, so that a node full of them still gets a report.
MOST_SILENT = 8


def examine_each(examine: Callable[[Any], Any], things: Sequence[Any], seconds: float) -> List[Any]:
    """What `examine` returned for each of `things`, in order; None for one that raised or gave no answer in time.

    examine  returns something that JSON can hold          seconds  limit for one thing
    """
    answers = []  # type: List[Any]
    silent = 0
    while len(answers) < len(things) and silent < MOST_SILENT:
        answers += _examine_some(examine, things[len(answers) :], seconds)
        if len(answers) < len(things):
            answers.append(None)
            silent += 1
    return answers + [None] * (len(things) - len(answers))


def _examine_some(examine: Callable[[Any], Any], things: Sequence[Any], seconds: float) -> List[Any]:
    """The answers of one child, up to the thing at which it hung."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(examine, things, reading, writing)
    os.close(writing)
    try:
        lines = _read_lines(reading, len(things), seconds)
    finally:
        os.close(reading)
        _leave(child)
    return [json.loads(line.decode("ascii")) for line in lines]


class Beside:
    """One look, by a child, while the caller does something else. It begins at once."""

    def __init__(self, examine: Callable[[Any], Any], thing: Any) -> None:
        """As `examine` and one of `things` of `examine_each`."""
        self._reading, writing = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            _answer(examine, [thing], self._reading, writing)
        os.close(writing)

    def answer(self, seconds: float) -> Any:
        """What was returned; None if it raised, or if nothing came for `seconds` more. To be called once."""
        try:
            lines = _read_lines(self._reading, 1, seconds)
        finally:
            os.close(self._reading)
            _leave(self._child)
        return json.loads(lines[0].decode("ascii")) if lines else None


def _answer(examine: Callable[[Any], Any], things: Sequence[Any], reading: int, writing: int) -> None:
    """In the child: write one line for each thing, then end."""
    try:
        os.close(reading)
        for thing in things:
            try:
                line = json.dumps(examine(thing))
            except Exception:
                line = "null"
            data = (line + "\n").encode("ascii")
            while data:
                data = data[os.write(writing, data) :]
    finally:
        # Nothing of the parent's may run twice, such as exit handlers and buffered output.
        os._exit(0)


def _read_lines(reading: int, wanted: int, seconds: float) -> List[bytes]:
    """Complete lines, until there are as many as wanted, the child has ended, or nothing has come for that long."""
    data = b""
    deadline = time.monotonic() + seconds
    while data.count(b"\n") < wanted:
        ready = select.select([reading], [], [], max(0, deadline - time.monotonic()))[0]
        chunk = os.read(reading, CHUNK_BYTES) if ready else b""
        if not chunk:
            break
        if b"\n" in chunk:
            deadline = time.monotonic() + seconds
        data += chunk
    return data.split(b"\n")[:-1]


def _leave(child: int) -> None:
    """End the child; one that cannot be killed is left to the kernel."""
    try:
        os.kill(child, signal.SIGKILL)
        for _attempt in range(50):
            if os.waitpid(child, os.WNOHANG)[0]:
                return
            time.sleep(0.01)
    except (ProcessLookupError, ChildProcessError):
        return
