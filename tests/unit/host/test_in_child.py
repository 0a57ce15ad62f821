"""Looks that a child takes: one beside the caller's own work, with its answer, its failures, and a child that hangs."""

from __future__ import annotations

import os
import time

import pytest
from gpuwright.host.in_child import Beside


def test_the_caller_goes_on_and_gets_the_answer_later() -> None:
    beside = Beside(lambda thing: {"pid": os.getpid(), "thing": thing}, ["a", 1])
    answer = beside.answer(60)
    assert answer["thing"] == ["a", 1] and answer["pid"] != os.getpid()


def test_an_answer_longer_than_the_pipe_waits_for_the_caller() -> None:
    beside = Beside(lambda size: "x" * size, 3_000_000)
    time.sleep(0.2)
    assert len(beside.answer(60)) == 3_000_000


def fails(_thing: None) -> None:
    raise RuntimeError


@pytest.mark.parametrize(
    "look", [fails, lambda _thing: time.sleep(600), lambda _thing: os._exit(3), lambda _thing: {1}]
)
def test_no_answer_is_none_and_leaves_no_child(look) -> None:
    beside = Beside(look, None)
    assert beside.answer(0.5) is None
    with pytest.raises(ChildProcessError):
        os.waitpid(beside._child, os.WNOHANG)
