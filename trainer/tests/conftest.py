"""Tests of the trainer: they need an interpreter with torch, for example one made from a lock file for CPUs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import forked
import pytest
from seeds import pytest_fixture_setup, pytest_pyfunc_call

# Hooks of every test here.
__all__ = ["pytest_fixture_setup", "pytest_pyfunc_call"]
PACKAGE = Path(__file__).resolve().parents[1]
# Seconds after which a program is taken for hanging: a virtual machine may stand still for minutes, and its clock not.
PATIENCE = 900.0
sys.path.insert(0, str(PACKAGE))

# The smallest training that has every part.
TINY: dict[str, Any] = {
    **{"image_size": 32, "channels": 4, "latent_dim": 8, "batch_size": 4, "synthetic_images": 32, "num_workers": 0},
    **{"sample_count": 4, "tensorboard": False},
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: compiles, traces or trains for ten seconds and more (make trainer-long)")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """The machine is shared, and sums in one order are equal to the last bit."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def forks() -> Iterator[None]:
    yield
    forked.end_server()


@pytest.fixture
def run_trainer() -> Callable[..., subprocess.CompletedProcess]:
    """As `run_python`, forked from a process that has imported PyTorch."""

    def run(*words: str, env: dict | None = None, timeout: float = PATIENCE) -> subprocess.CompletedProcess:
        return forked.run(list(words), trainer_environment(env), timeout)

    return run


@pytest.fixture
def run_python() -> Callable[..., subprocess.CompletedProcess]:
    """Run the interpreter of the tests with the package in its path."""

    def run(*arguments: str, env: dict | None = None, timeout: float = PATIENCE) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, *arguments], env=trainer_environment(env), capture_output=True, text=True, timeout=timeout
        )

    return run


def trainer_environment(more: dict | None = None) -> dict:
    base = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": str(PACKAGE), "OMP_NUM_THREADS": "1"}
    return {**base, "PYTHONDONTWRITEBYTECODE": "1", **(more or {})}


def kept_state(folder: Path) -> dict[str, Any]:
    """The newest checkpoint of a run that must have one."""
    from gan_trainer.runs.checkpoint import load_checkpoint

    state = load_checkpoint(folder)
    assert state is not None, folder
    return state
