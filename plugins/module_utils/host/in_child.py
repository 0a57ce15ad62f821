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
import threading
import time
from typing import Any, Callable, List, Sequence, Tuple

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
    child, reading = _begin(lambda writing: _answer(examine, things, writing))
    try:
        lines = _read_lines(reading, len(things), seconds)
    finally:
        os.close(reading)
        _leave(child)
    return [json.loads(line.decode("ascii")) for line in lines]


def examine_at_once(examine: Callable[[Any], Any], things: Sequence[Any], seconds: float) -> List[Any]:
    """As `examine_each`, but all in the same time, by threads of one child: `seconds` is the limit for all together."""
    if not things:
        return []
    child, reading = _begin(lambda writing: _answer_at_once(examine, things, writing))
    try:
        lines = _read_lines(reading, len(things), seconds, each=False)
    finally:
        os.close(reading)
        _leave(child)
    found = dict(json.loads(line.decode("ascii")) for line in lines)
    return [found.get(at) for at in range(len(things))]


class Beside:
    """One look, by a child, while the caller does something else. It begins at once."""

    def __init__(self, examine: Callable[[Any], Any], thing: Any) -> None:
        """As `examine` and one of `things` of `examine_each`."""
        self._child, self._reading = _begin(lambda writing: _answer(examine, [thing], writing))

    def answer(self, seconds: float) -> Any:
        """What was returned; None if it raised, or if nothing came for `seconds` more. To be called once."""
        try:
            lines = _read_lines(self._reading, 1, seconds)
        finally:
            os.close(self._reading)
            _leave(self._child)
        return json.loads(lines[0].decode("ascii")) if lines else None


def _begin(answer: Callable[[int], None]) -> Tuple[int, int]:
    """A child that answers through a pipe, and the pipe's end to read from; OSError if the host has none to give."""
    reading, writing = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if child == 0:
        try:
            os.close(reading)
            answer(writing)
        finally:
            # Nothing of the parent's may run twice, such as exit handlers and buffered output.
            os._exit(0)
    os.close(writing)
    return child, reading


def _answer(examine: Callable[[Any], Any], things: Sequence[Any], writing: int) -> None:
    """In the child: write one line for each thing."""
    for thing in things:
        _write(writing, _line(examine, thing))


def _answer_at_once(examine: Callable[[Any], Any], things: Sequence[Any], writing: int) -> None:
    """In the child: write one line for each thing, with its place, as the answers come."""
    one_line = threading.Lock()

    def look(at: int) -> None:
        line = f"[{at}, {_line(examine, things[at])}]"
        with one_line:
            _write(writing, line)

    looks = [threading.Thread(target=look, args=(at,)) for at in range(len(things))]
    for each in looks:
        each.start()
    for each in looks:
        each.join()


def _line(examine: Callable[[Any], Any], thing: Any) -> str:
    try:
        return json.dumps(examine(thing))
    except Exception:
        return "null"


def _write(writing: int, line: str) -> None:
    data = (line + "\n").encode("ascii")
    while data:
        data = data[os.write(writing, data) :]


def _read_lines(reading: int, wanted: int, seconds: float, each: bool = True) -> List[bytes]:
    """Complete lines, until there are as many as wanted, the child has ended, or nothing has come for that long.

    each   the time begins anew with each line
    """
    data = b""
    deadline = time.monotonic() + seconds
    while data.count(b"\n") < wanted:
        ready = select.select([reading], [], [], max(0, deadline - time.monotonic()))[0]
        chunk = os.read(reading, CHUNK_BYTES) if ready else b""
        if not chunk:
            break
        if each and b"\n" in chunk:
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
