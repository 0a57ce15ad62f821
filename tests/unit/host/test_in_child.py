"""Looks that a child takes: one beside the caller's own work, with its answer, its failures, and a child that hangs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from gpuwright.host.in_child import Beside, examine_at_once, examine_each


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


def test_all_at_once_each_keeps_its_place_and_one_limit_is_for_all() -> None:
    def look(thing: int) -> object:
        if thing % 3 == 1:
            time.sleep(600)
        if thing % 3 == 2:
            raise RuntimeError
        return {"thing": thing, "pid": os.getpid()}

    begun = time.monotonic()
    found = examine_at_once(look, range(12), 1.0)
    assert 0.9 < time.monotonic() - begun < 3.0
    assert [one and one["thing"] for one in found] == [0, None, None, 3, None, None, 6, None, None, 9, None, None]
    assert found[0]["pid"] != os.getpid() and examine_at_once(look, [], 1.0) == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda: examine_each(fails, [1], 1),
        lambda: examine_at_once(fails, [1], 1),
        lambda: Beside(fails, 1),
    ],
)
def test_a_host_without_processes_to_give_is_an_error_that_leaves_nothing_open(ask, monkeypatch) -> None:
    def none() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", none)
    before = {*Path("/proc/self/fd").iterdir()}
    with pytest.raises(OSError, match="temporarily"):
        ask()
    assert {*Path("/proc/self/fd").iterdir()} == before
