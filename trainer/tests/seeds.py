"""Each test and each fixture draws from a seed of its own, whatever ran before it and in which order.

GAN_TESTS_SEED=N draws other numbers everywhere; a result that depends on them is a test that fails by chance.
"""

from __future__ import annotations

import os
import random
import zlib
from typing import Any

import pytest

VARIABLE = "GAN_TESTS_SEED"


def seed_all(name: str) -> None:
    """Python's, NumPy's and PyTorch's generators; `name` is whoever will draw. Imported late: collecting needs none."""
    import numpy
    import torch

    seed = zlib.crc32(f"{os.environ.get(VARIABLE, '0')} {name}".encode())
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> None:
    """A module's fixture is made by whichever of its tests comes first, and must be the same for all."""
    seed_all(f"{request.node.name} {fixturedef.argname}")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    seed_all(pyfuncitem.name)
