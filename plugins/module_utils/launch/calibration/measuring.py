# SPDX-License-Identifier: Apache-2.0
"""Run a command in several ways in turn, and say how long it took in each, or what number it printed."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Pattern, Sequence

from ...host.bounded import interruption_held
from ...host.written.told import printable, told
from ..runtime_policy import LaunchError

TAIL_LINES = 3
LONGEST_TAIL = 600
LAST_BYTES = 1024 * 1024
Before = Optional[Callable[[], None]]


class Way(NamedTuple):
    """One way to run the command: its environment, and what the child calls before the command starts."""

    environment: Dict[str, str]
    before: Before


def compiled(text: Optional[str]) -> Optional[Pattern[str]]:
    """The regular expression of --metric; LaunchError if it is invalid or has not exactly one group."""
    if text is None:
        return None
    try:
        metric = re.compile(text)
    except re.error as error:
        raise LaunchError(f"--metric {text!r}: is not a regular expression: {error}")
    if metric.groups != 1:
        raise LaunchError(f"--metric {text!r}: put the number, and nothing else, in one pair of parentheses")
    return metric


def measure(
    ways: Dict[str, Way],
    firm: Sequence[str],
    left_out: Dict[str, str],
    command: Sequence[str],
    count: int,
    metric: Optional[Pattern[str]],
) -> List[Dict[str, float]]:
    """`count` rounds, a list of {name: value}; a way that fails is moved from `ways` to `left_out`.

    The first of the `firm` ways, whose failure is a LaunchError, is run once beforehand: it fills the page cache.
    """
    rounds: List[Dict[str, float]] = []
    run_once(ways[firm[0]], command, metric)
    for number in range(count):
        # Each way comes first, last and in the middle equally often.
        names = list(ways)
        order = names[number % len(names) :] + names[: number % len(names)]
        values: Dict[str, float] = {}
        for name in order[:: -1 if number % 2 else 1]:
            try:
                values[name] = run_once(ways[name], command, metric)
            except LaunchError as error:
                if name in firm:
                    raise
                left_out[name] = str(error)
                del ways[name]
                say(f"left out from now on: {name}: {error}")
        rounds.append(values)
        told = ", ".join(f"{name} {values[name]:.4g}" for name in names if name in values)
        say(f"round {number + 1}: {told}")
    return [{name: values[name] for name in ways} for values in rounds]


def run_once(way: Way, command: Sequence[str], metric: Optional[Pattern[str]]) -> float:
    """Seconds that the command took, or the last number that it printed for `metric`; LaunchError if it fails."""
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        try:
            code = _call(command, way.environment, output.fileno(), way.before)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise LaunchError(f"{command[0]}: cannot be executed: {getattr(error, 'strerror', error)}")
        seconds = time.perf_counter() - start
        # Of the end, since the last number counts; another user's program may print without end.
        output.seek(max(0, output.seek(0, os.SEEK_END) - LAST_BYTES))
        text = output.read(LAST_BYTES).decode("utf-8", "replace")
    if code != 0:
        tail = told(" | ".join(text.strip().splitlines()[-TAIL_LINES:]), LONGEST_TAIL)
        raise LaunchError(f"the command ended with exit code {code}: {tail or 'it printed nothing'}")
    if metric is None:
        return seconds
    found = metric.findall(text)
    try:
        value = float(found[-1])
    except (IndexError, ValueError):
        raise LaunchError(f"--metric: the command printed no number for {metric.pattern!r}")
    if not 0 < value < float("inf"):
        raise LaunchError(f"--metric: expected a positive number, the command printed {told(found[-1], LONGEST_TAIL)}")
    return value


def _call(command: Sequence[str], environment: Mapping[str, str], output: int, before: Before) -> int:
    """The exit code of the command, which has no terminal: as another user, it could type into root's."""
    child = None
    try:
        with interruption_held():
            child = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=before,
            )
        return child.wait()
    except BaseException:
        # It has its own session, so Ctrl-C did not reach it.
        if child is not None:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        raise


def say(text: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"gpu-run: {printable(text)}\n")
    sys.stderr.flush()
