"""Check the types of all tests with mypy, one run for each folder that has a conftest.py of its own.

Within one run a module's name stands for one file; pytest gives the name `conftest` to each folder's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
TESTS = REPOSITORY / "tests"
# What tests of more than one folder import by its name alone.
SHARED = (TESTS, TESTS / "fleet")
# Tests need no annotations; the product does, and is held to that by its own run.
LOOSER = ("--allow-untyped-defs", "--allow-incomplete-defs", "--cache-dir=.mypy_cache/tests")
ALONE = (
    "collection",
    "container",
    "deep",
    "faults",
    "page",
    "testinfra",
    "vm",
    "world",
    "bench/runtime",
    "bench/trainer",
)


def folders_with_modules(folder: Path) -> list[Path]:
    return sorted({file.parent for file in folder.rglob("*.py")})


def check(paths: list[Path], bases: list[Path]) -> bool:
    """One run over `paths`; `bases` are the folders from which modules are imported, the first ones first."""
    path = os.pathsep.join(map(str, bases))
    command = [sys.executable, "-m", "mypy", *LOOSER, *(str(path.relative_to(REPOSITORY)) for path in paths)]
    return subprocess.run(command, cwd=REPOSITORY, env={**os.environ, "MYPYPATH": path}).returncode == 0


def main() -> int:
    unit = folders_with_modules(TESTS / "unit")
    good = check([TESTS / "unit"], [*unit, *SHARED, TESTS / "vm", TESTS / "world", TESTS / "bench/runtime"])
    for name in ALONE:
        good &= check([TESTS / name], [TESTS / name, *unit, *SHARED, REPOSITORY / "trainer"])
    alone = {TESTS / name for name in ("unit", *ALONE)}
    rest = [file for file in TESTS.rglob("*.py") if not alone.intersection(file.parents)]
    good &= check(sorted(rest), [*SHARED])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
