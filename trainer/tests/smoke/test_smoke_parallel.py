"""Several processes of one group: their results, their failures, and a training that ends equal in all of them."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from gan_trainer.parallel.ranks import RankError, run_ranks
from gan_trainer.smoke import parallel as smoke_parallel
from gan_trainer.smoke.parallel import try_parallel
from gan_trainer.smoke.run import Target, choose_amp, list_targets

sys.path.insert(0, str(Path(__file__).parent))
import rank_work


def test_ranks_are_one_group() -> None:
    assert run_ranks(rank_work.sum_of_ranks, 2, "cpu", 240, 10) == [21.0, 21.0]


def test_no_rank_begins_before_all_are_connected() -> None:
    """One that has ended already closes its connections, and breaks the group of those that still connect."""
    times = run_ranks(rank_work.ConnectedLate(), 3, "cpu", 240)
    assert min(began for _, began in times) >= max(connected for connected, _ in times)


def test_ranks_are_forked_from_one_process_that_is_not_the_callers() -> None:
    """The caller may have touched a GPU, and CUDA does not work in what is forked from it."""
    parents = run_ranks(rank_work.parent, 3, "cpu", 240)
    assert len(set(parents)) == 1 and parents[0] != os.getpid()
    assert run_ranks(rank_work.parent, 1, "cpu", 240) == parents[:1], "torch is imported once"


def test_without_that_process_each_rank_is_started_by_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """It listens on a socket in TMPDIR, and a path may be too long for one."""

    def too_long() -> None:
        raise OSError("AF_UNIX path too long")

    monkeypatch.setattr(forkserver, "ensure_running", too_long)
    assert run_ranks(rank_work.parent, 2, "cpu", 240) == [os.getpid()] * 2


@pytest.mark.parametrize(
    ("error", "words"), [(ConnectionRefusedError(111, "refused"), "refused"), (EOFError(), "EOFError")]
)
def test_a_rank_that_cannot_be_started_is_named(error: Exception, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(forkserver, "connect_to_new_process", refuse)
    with pytest.raises(RankError, match=f"rank 0 was not started: .*{words}"):
        run_ranks(rank_work.parent, 2, "cpu", 240)


@pytest.mark.parametrize(
    ("work", "seconds", "words"),
    [
        (rank_work.fail_in_rank_1, 240, "rank 1: ValueError: no memory"),
        (rank_work.die_in_rank_1, 240, "rank 1 died without a message"),
        (rank_work.wait_for_ever, 8, "rank 0, 1 did not finish within 8 s"),
    ],
)
def test_a_rank_that_fails_ends_all(work: Callable[..., Any], seconds: float, words: str) -> None:
    with pytest.raises(RankError, match=words):
        run_ranks(work, 2, "cpu", seconds)
    # Daemons of this process: none may stay behind.
    for process in multiprocessing.active_children():
        process.join(10)
    assert multiprocessing.active_children() == []


def rank(**changes: object) -> dict:
    record = {"steps_applied": 10, "steps_skipped": 0, "loss_first": 1.4, "loss_last": 0.3}
    record.update(parameters_changed=True, seconds=1.0)
    found = {"record": record, "finite": True, "scale": None, "device": "cpu"}
    return {**found, "parameters_equal": True, "gradients_equal": True, **changes}


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        (rank(parameters_equal=False), "parallel: the parameters differ between ranks"),
        (rank(gradients_equal=False), "parallel: the gradients differ between ranks"),
        (rank(finite=False), "parallel: rank 1: a loss was not finite"),
        (rank(scale=0.25), "parallel: rank 1: the loss scale collapsed to 0.25"),
    ],
)
def test_what_is_wrong_in_one_rank_is_told(second: dict, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoke_parallel, "run_ranks", lambda *_: [rank(), second])
    _, problems = try_parallel(list_targets("cpu"), choose_amp(None), 10)
    assert problems == [problem]


def test_ranks_that_fail_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> list:
        raise RankError("rank 1: NCCL error")

    monkeypatch.setattr(smoke_parallel, "run_ranks", lost)
    assert try_parallel(list_targets("cpu"), choose_amp(None), 10) == (None, ["parallel: rank 1: NCCL error"])


def test_one_gpu_has_nobody_to_train_with() -> None:
    target = Target("cuda:0", "Tesla V100", (7, 0), list_targets("cpu")[0].config)
    assert try_parallel([target], choose_amp((7, 0)), 10) == (None, [])
