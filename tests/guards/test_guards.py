"""Without a guard the test that is named for it fails: each row of guards.yml is tried on a copy of the project,
and each setting of a service."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from guard_rows import REPOSITORY, Guard, guards, settings

# What a checkout holds besides the project.
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".fleet", ".*_cache", "__pycache__", "build", "reports", "shared")
GUARDS = [*guards(), *settings()]
SECONDS = 180


@pytest.fixture(scope="session")
def copy() -> Iterator[Path]:
    """The project in a folder that every user can read, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="gpuwright-guards-") as name:
        folder = Path(name, "project")
        shutil.copytree(REPOSITORY, folder, symlinks=True, ignore=NOT_COPIED)
        subprocess.run(["chmod", "-R", "go=u-w", name], check=True)
        yield folder


def run_tests(folder: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    """Run pytest there; compiled files are left out, as a changed file may have the same size and second."""
    words = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-rf", "--color=no", "-p", "no:cacheprovider", *tests]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    umask = os.umask(0o022)
    try:
        return subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS * (len(tests) + 1)
        )
    finally:
        os.umask(umask)


def test_with_every_guard_all_of_them_pass(copy: Path) -> None:
    done = run_tests(copy, *sorted({guard.test for guard in GUARDS}))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    # A test that is skipped here shows nothing below.
    assert not re.search(r"\d+ skipped", done.stdout), done.stdout[-4000:]


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_without_the_guard_its_test_fails(copy: Path, guard: Guard) -> None:
    file = copy / guard.file
    text = file.read_text()
    file.write_text(guard.without(text))
    try:
        done = run_tests(copy, guard.test)
    finally:
        file.write_text(text)
    # 1: tests failed; an error in a fixture or an import would be none of the guard's.
    assert done.returncode == 1 and f"\nFAILED {guard.test.partition('[')[0]}" in done.stdout, done.stdout[-3000:]
