"""The part of `make matrix-check` that looks at lock files, on requirements as wheels on PyPI have them."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from conftest import REPOSITORY
from module_files import load_file

sys.path.insert(0, str(REPOSITORY / "tools"))
CHECK = load_file("tools/lock_check.py")
LINUX = '; platform_system == "Linux" and platform_machine == "x86_64"'
DEMANDS: dict[str, list[str]] = {
    "torch": [
        "nvidia-cublas-cu12==12.8.4.1" + LINUX,
        "cuda-toolkit[cudart]==12.8.1" + LINUX,
        'setuptools; python_version >= "3.12"',
        'optree>=0.13.0; extra == "optree"',
        'pywin32; platform_system == "Windows"',
        "typing_extensions>=4.10.0",
    ],
    "nvidia-cublas-cu12": [],
    "cuda-toolkit": [
        'nvidia-cuda-runtime-cu12==12.8.90; extra == "cudart"',
        'nvidia-nvcc-cu12==12.8.93; extra == "nvcc"',
    ],
    "nvidia-cuda-runtime-cu12": [],
    "typing_extensions": [],
}
VERSIONS = {
    "torch": "2.10.0",
    "nvidia-cublas-cu12": "12.8.4.1",
    "cuda-toolkit": "12.8.1",
    "nvidia-cuda-runtime-cu12": "12.8.90",
    "typing-extensions": "4.15.0",
}
DIGEST = "a" * 64


def problems(python: str = "3.11", asked: str = "torch==2.10.0", **versions: str | None) -> list[str]:
    """What is said of the lock above with some versions changed, or without a package."""
    locked = {**VERSIONS, **{name.replace("_", "-"): version for name, version in versions.items()}}
    lock = {name: (version, {DIGEST}) for name, version in locked.items() if version}
    wheels = [CHECK.pip_index.Wheel(name, DIGEST, tuple(lines)) for name, lines in DEMANDS.items()]
    return CHECK.lock_problems([asked], lock, wheels, python)


def test_a_lock_with_all_that_is_demanded_and_no_more_is_right() -> None:
    assert problems() == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"nvidia_cublas_cu12": "12.9.1.4"}, "torch 2.10.0 demands nvidia-cublas-cu12==12.8.4.1"),
        ({"typing_extensions": None}, "typing_extensions>=4.10.0, which is not locked"),
        ({"typing_extensions": "4.9.0"}, "typing_extensions>=4.10.0, and 4.9.0 is locked"),
        # Of an optional part that is demanded.
        ({"nvidia_cuda_runtime_cu12": None}, "cuda-toolkit 12.8.1 demands nvidia-cuda-runtime-cu12==12.8.90"),
        # On this Python alone.
        ({"python": "3.12"}, "demands setuptools"),
        ({"asked": "torch==2.14.1"}, "what was asked for demands torch==2.14.1, and 2.10.0 is locked"),
        ({"optree": "0.18.0"}, "optree is locked, and nothing demands it"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_what_is_wrong_with_a_lock_is_said(changed: dict[str, Any], said: str) -> None:
    (found,) = problems(**changed)
    assert said in found


def test_a_wheel_with_another_hash_is_said() -> None:
    wheel = CHECK.pip_index.Wheel("Pillow", "b" * 64, ())
    found = CHECK.lock_problems(["pillow"], {"pillow": ("12.0.0", {DIGEST})}, [wheel], "3.11")
    assert found == ["the wheel of pillow that pip takes has another hash"]


def test_every_shipped_lock_can_be_read() -> None:
    for file in CHECK.LOCKS.glob("*.txt"):
        lock = CHECK.read_lock(file)
        assert "torch" in lock and all(hashes for _version, hashes in lock.values()), file.name
