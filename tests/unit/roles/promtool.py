"""Prometheus' own promtool, which checks metrics and rules and runs the rules' tests."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]


@functools.cache
def path() -> str:
    """Where it is. That there is none is a failure and no skip: nobody else tests the rules."""
    done = subprocess.run([REPOSITORY / "tests/install-promtool"], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        pytest.fail(done.stderr)
    return done.stdout.strip()


def promtool(*arguments: str | Path, **more: Any) -> subprocess.CompletedProcess:
    """Run it; `more` as for subprocess.run."""
    return subprocess.run([path(), *arguments], capture_output=True, text=True, **more)
