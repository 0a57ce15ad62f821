"""Compiled files that a wheel lists: pip and Python make them anew, so they are no damage; their sources count."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest
from gpuwright.training.environment_files import read_environment

SOURCE, COMPILED = "thing/__init__.py", "thing/__pycache__/__init__.cpython-310.pyc"


def line(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """An environment whose one wheel brought its compiled file, as numpy 2.2 does for Python 3.10."""
    packages = tmp_path / "venv/lib/python3.10/site-packages"
    for name, content in ((SOURCE, b"value = 1\n"), (COMPILED, b"what pip made of it")):
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_bytes(content)
    (packages / "thing-1.0.dist-info").mkdir()
    record = line(SOURCE, b"value = 1\n") + line(COMPILED, b"what the wheel had") + "thing-1.0.dist-info/RECORD,,\n"
    (packages / "thing-1.0.dist-info/RECORD").write_text(record)
    (tmp_path / "venv/bin").mkdir()
    (tmp_path / "venv/bin/python").symlink_to("/bin/sh")
    (tmp_path / "venv/lock.txt").write_text("thing==1.0\n")
    return tmp_path / "venv"


@pytest.mark.parametrize("all_hashes", [False, True])
@pytest.mark.parametrize("state", ["another", "gone"])
def test_a_compiled_file_that_a_wheel_lists_is_no_damage(venv: Path, state: str, all_hashes: bool) -> None:
    if state == "gone":
        next(venv.rglob("*.pyc")).unlink()
    found = read_environment("/", str(venv), all_hashes)
    assert found is not None and found["problems"] == []


def test_its_source_still_counts(venv: Path) -> None:
    next(venv.rglob("thing/__init__.py")).write_text("value = 2\n")
    found = read_environment("/", str(venv), True)
    assert found is not None
    (problem,) = found["problems"]
    assert problem["path"].endswith(SOURCE) and "differs" in problem["problem"]
