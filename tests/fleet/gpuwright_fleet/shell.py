"""Running commands: quiet when they succeed, with their last lines when they fail, never silent for long."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HEARTBEAT_SECONDS = 15


class FleetError(Exception):
    """Something went wrong; the message is one sentence for the user."""

    exit_code = 1


class CannotRunHere(FleetError):
    """Containers cannot run on this machine at all (not a defect of the fleet)."""

    exit_code = 3


@contextlib.contextmanager
def readable() -> Iterator[None]:
    """Whatever umask the tests run under: what hosts are given is for their users, too. The fleet's program does so."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def say(text: str) -> None:
    print(text, flush=True)


@contextlib.contextmanager
def step(title: str) -> Iterator[None]:
    """Print a step with its duration, and a heartbeat every few seconds while it runs."""
    started = time.monotonic()
    done = threading.Event()

    def beat() -> None:
        while not done.wait(HEARTBEAT_SECONDS):
            say(f"   ... {title} ({time.monotonic() - started:.0f} s)")

    say(f"-> {title}")
    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    say(f"   {title}: {time.monotonic() - started:.1f} s")


def run(
    command: Sequence[str | Path],
    *,
    check: bool = True,
    stdin: str | None = None,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command with its output captured; a failure becomes a FleetError that shows the end of the output.

    Without a text for it, its input is empty: ssh would make ours non-blocking, on which Ansible refuses to start.
    """
    words = [str(word) for word in command]
    given: dict[str, Any] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    try:
        result = subprocess.run(
            words, capture_output=True, text=True, cwd=cwd, env=env, timeout=timeout, check=False, **given
        )
    except FileNotFoundError as error:
        raise FleetError(f"Command {words[0]!r} is missing; run tests/fleet/install-packages.") from error
    except subprocess.TimeoutExpired as error:
        raise FleetError(f"Command {' '.join(words[:4])!r} took longer than {timeout} s.") from error
    if check and result.returncode != 0:
        sys.stderr.write(f"$ {' '.join(words)}\n{(result.stdout + result.stderr)[-3000:]}\n")
        raise FleetError(f"Command {' '.join(words[:3])!r} failed with exit code {result.returncode} (output above).")
    return result
