"""What the kinds of tests share: the programs that they start, the tests that they count, results and caches."""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS = REPOSITORY / ".fleet" / "results"
CACHE = Path(
    os.environ.get("GPUWRIGHT_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuwright"
)


@dataclass
class Suite:
    """Result of one kind of test."""

    kind: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    # CPU seconds of its own programs; what ran in containers is in the machine's sum alone.
    processor: float = 0.0
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, ok: bool) -> None:
        self.passed += ok
        self.failed += not ok
        if not ok:
            self.notes.append(f"{name} failed")

    def add_junit(self, file: Path) -> None:
        """Counts of a pytest run; a run that left no file counts as one failure."""
        if not file.exists():
            return self.add(file.stem, False)
        for suite in ElementTree.parse(file).getroot().iter("testsuite"):
            total, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
            failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            self.passed += total - failed - skipped
            self.failed += failed
            self.skipped += skipped
        return None


def start(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program in the repository, with an input of its own.

    ssh makes its input non-blocking for all who inherited the same one, and Ansible refuses to start on such an input.
    """
    return subprocess.run(command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, **options)


def call(*command: str, **variables: str) -> bool:
    """Run a program and show its output as it comes."""
    print(f"\n$ {' '.join(command)}", flush=True)
    return start(command, env={**os.environ, **variables}).returncode == 0


# The tests of one file stay in one process, since they share what is costly to make. For a machine with two cores:
# torch fills them with two processes; tests that wait for Ansible and ssh need more processes to do so. Each more has
# to collect all tests.
TWO_SIDE_BY_SIDE = ("--numprocesses=2", "--dist=loadfile")
# Without the last option, pytest would begin with the files that have the most tests, not those that take longest.
THREE_SIDE_BY_SIDE = ("--numprocesses=3", "--dist=loadfile", "--no-loadscope-reorder")
FOUR_SIDE_BY_SIDE = ("--numprocesses=4", *THREE_SIDE_BY_SIDE[1:])


def pytest_suite(suite: Suite, name: str, python: str, *arguments: str) -> None:
    """Run pytest and count its tests; an empty run is a failure."""
    report = RESULTS / f"{name}.xml"
    report.unlink(missing_ok=True)
    ok = call(python, "-m", "pytest", "-q", "--color=no", "--durations=20", f"--junit-xml={report}", *arguments)
    suite.add_junit(report)
    if not ok and not suite.failed:
        suite.add(f"pytest {name}", False)


def call_quietly(command: Sequence[str]) -> bool:
    """Run a program; its output is shown in one piece when it has ended."""
    done = start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(f"\n$ {' '.join(command)}\n{done.stdout}", end="", flush=True)
    return done.returncode == 0
