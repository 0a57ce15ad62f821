"""Packages are compiled on several cores, for everybody, and without running any of their code."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from pathlib import Path

import pytest
from gpuwright.training.environment_compiled import MOST_WORKERS, compile_packages

PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
# Warnings that a file's strings are odd are new in 3.12.
PYTHONS = [sys.executable, *map(str, sorted(PYENV.glob("versions/3.1[0-9]*/bin/python")))]


def environment(folder: Path, python: str = sys.executable) -> Path:
    """A folder with an interpreter and one package; the value is the folder of packages."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").symlink_to(python)
    packages = folder / "lib/python3.11/site-packages"
    (packages / "fine").mkdir(parents=True)
    (packages / "fine/__init__.py").write_text("value = 1\n")
    # As pip installs it, whatever the umask of the tests is.
    (packages / "fine/__init__.py").chmod(0o644)
    return packages


def program(folder: Path, text: str) -> None:
    (folder / "bin/python").unlink()
    (folder / "bin/python").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "bin/python").chmod(0o755)


@pytest.mark.parametrize("python", PYTHONS)
def test_what_is_for_another_python_is_left_as_it_is(tmp_path: Path, python: str) -> None:
    packages = environment(tmp_path, python)
    (packages / "newer.py").write_text("def of[T, (value: T) -> T: ...\n")
    (packages / "latin.py").write_bytes(b"name = '\xe9'\n")
    (packages / "odd.py").write_text("pattern = '\\d'\n")
    assert compile_packages(str(tmp_path)) == ""
    compiled = {path.name.partition(".")[0] for path in packages.rglob("*.pyc")}
    assert compiled == {"__init__", "odd"}


def test_everybody_can_read_it(tmp_path: Path) -> None:
    packages = environment(tmp_path)
    before = os.umask(0o077)
    try:
        assert compile_packages(str(tmp_path)) == ""
    finally:
        os.umask(before)
    (compiled,) = packages.rglob("*.pyc")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (compiled, compiled.parent)] == [0o644, 0o755]


def test_no_code_of_a_package_runs(tmp_path: Path) -> None:
    packages = environment(tmp_path)
    (tmp_path / "pyvenv.cfg").write_text(f"home = {Path(os.path.realpath(sys.executable)).parent}\n")
    (packages / "evil.pth").write_text(f"import os; os.mkdir({str(tmp_path / 'ran')!r})\n")
    (packages / "compileall.py").write_text(f"import os; os.mkdir({str(tmp_path / 'ran')!r})\n")
    assert compile_packages(str(tmp_path)) == ""
    assert list(packages.rglob("*.pyc")) and not (tmp_path / "ran").exists()


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    packages = environment(tmp_path)
    (packages / "fine/__pycache__").write_text("")
    problem = compile_packages(str(tmp_path))
    assert problem.startswith("the packages cannot be compiled: ") and f"{packages}/fine/__pycache__" in problem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo 'OSError: [Errno 38] Function not implemented' >&2; exit 1", "[Errno 38] Function not implemented"),
        ("exit 3", "compileall ended with 3"),
        ("kill -9 $$", "compileall ended with -9"),
    ],
)
def test_a_failure_is_told(tmp_path: Path, text: str, words: str) -> None:
    environment(tmp_path)
    program(tmp_path, text)
    problem = compile_packages(str(tmp_path))
    assert problem.startswith("the packages cannot be compiled: ") and problem.endswith(words)


def test_what_a_success_says_besides_is_no_failure(tmp_path: Path) -> None:
    environment(tmp_path)
    program(tmp_path, "echo 'some remark' >&2")
    assert compile_packages(str(tmp_path)) == ""


def test_without_packages_nothing_of_the_system_is_compiled(tmp_path: Path) -> None:
    packages = environment(tmp_path)
    shutil.rmtree(packages)
    program(tmp_path, f"touch {tmp_path}/ran")
    assert compile_packages(str(tmp_path)) == "" and not (tmp_path / "ran").exists()


def test_it_uses_the_cores_that_it_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = environment(tmp_path)
    program(tmp_path, f'echo "$@" >> {tmp_path}/words')
    for cores in (2, 128):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid, count=cores: set(range(count)))
        assert compile_packages(str(tmp_path)) == ""
    found = [line.split("-j ")[1] for line in (tmp_path / "words").read_text().splitlines()]
    assert found == [f"2 {packages}", f"{MOST_WORKERS} {packages}"]
