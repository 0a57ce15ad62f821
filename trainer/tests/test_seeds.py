"""No test draws without a seed of its own: the hooks are at work, and numbers do not depend on what ran before."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy
import pytest
import torch
from seeds import VARIABLE, seed_all

Numbers = tuple[float, float, float]


def draw() -> Numbers:
    return random.random(), float(numpy.random.rand()), float(torch.rand(()))


@pytest.fixture(scope="module")
def of_a_module() -> Iterator[Numbers]:
    yield draw()


@pytest.fixture
def of_a_test(of_a_module: Numbers) -> Numbers:
    return draw()


def test_each_draws_from_the_seed_of_its_name(of_a_module: Numbers, of_a_test: Numbers) -> None:
    mine = draw()
    seed_all("test_each_draws_from_the_seed_of_its_name")
    assert mine == draw()
    seed_all("test_each_draws_from_the_seed_of_its_name of_a_test")
    assert of_a_test == draw()
    assert len({*of_a_module, *of_a_test, *mine}) == 9


@pytest.mark.parametrize("turn", [1, 2])
def test_a_test_before_changes_nothing(turn: int) -> None:
    mine = draw()
    seed_all(f"test_a_test_before_changes_nothing[{turn}]")
    assert mine == draw()


def test_other_numbers_can_be_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for seed in ("0", "1"):
        monkeypatch.setenv(VARIABLE, seed)
        seed_all("x")
        found.append(draw())
    assert found[0] != found[1]
