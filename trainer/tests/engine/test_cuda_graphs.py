"""The order in which a step is run, recorded and replayed, on streams and graphs that note what is asked of them."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Iterator

import pytest
import torch
from conftest import TINY

from gan_trainer.config import make_config
from gan_trainer.engine import speed_up
from gan_trainer.engine.cuda_graphs import WARM_UP, GraphedUpdate
from gan_trainer.engine.loop import Trainer
from gan_trainer.models.penalties import Penalties
from gan_trainer.precision import Precision

FP32 = Precision("fp32", "")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happened, in order; `capture` brackets what a graph records, and a replay names its graph."""
    done: list[str] = []

    class Stream:
        def wait_stream(self, other: object) -> None:
            done.append("wait")

    class Graph:
        def __init__(self) -> None:
            self.kind = "?"

        def pool(self) -> str:
            return f"pool of {self.kind}"

        def replay(self) -> None:
            done.append(f"replay {self.kind}")

    @contextmanager
    def graph(graph: Graph, pool: str | None = None, **options: Any) -> Iterator[None]:
        done.append(f"capture in {pool or 'a new pool'}")
        before = len(done)
        yield
        graph.kind = done[before]

    @contextmanager
    def stream(which: Stream) -> Iterator[None]:
        done.append("side stream")
        yield

    for name, value in {"Stream": Stream, "CUDAGraph": Graph, "graph": graph, "stream": stream}.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    return done


def run(update: GraphedUpdate, steps: int, every: int) -> None:
    for step in range(1, steps + 1):
        update({"images": torch.zeros(2)}, bool(every) and step % every == 0)


def graphed(done: list[str], every: int) -> GraphedUpdate:
    kinds = {False: {False}, True: {False, True}}[every > 1] if every != 1 else {True}
    return GraphedUpdate(lambda batch, rare: done.append("penalised" if rare else "plain"), kinds)


@pytest.mark.parametrize("every", [0, 1, 2, 4, 16])
def test_no_ordinary_step_runs_beside_a_recorded_one(gpu: list[str], every: int) -> None:
    """Its memory would come on top of the graph's own, which the batch may have been made to fill the card with."""
    run(graphed(gpu, every), 40, every)
    first = next(place for place, what in enumerate(gpu) if what.startswith("capture"))
    assert "side stream" not in gpu[first:]
    # All kinds share one pool, and each is recorded once.
    captures = [what for what in gpu if what.startswith("capture")]
    assert len(captures) == (2 if every > 1 else 1) and captures[0] == "capture in a new pool"
    assert all("pool of" in what for what in captures[1:])


@pytest.mark.parametrize("every", [0, 1, 2, 4, 16])
def test_every_step_is_done_once_and_of_its_kind(gpu: list[str], every: int) -> None:
    run(graphed(gpu, every), 40, every)
    kept, skip = [], False
    for what in gpu:
        if what.startswith("capture"):
            skip = True
        elif what in ("plain", "penalised"):
            kept += [] if skip else [what]
            skip = False
        elif what.startswith("replay"):
            kept.append(what.removeprefix("replay "))
    assert kept == ["penalised" if every and step % every == 0 else "plain" for step in range(1, 41)]
    ordinary = gpu.count("side stream")
    assert WARM_UP <= ordinary <= max(WARM_UP, every)


def test_an_ordinary_step_waits_for_the_streams_around_it(gpu: list[str]) -> None:
    run(graphed(gpu, 0), 1, 0)
    assert gpu == ["wait", "side stream", "plain", "wait"]


@pytest.mark.parametrize(
    ("settings", "kinds"),
    [
        ({}, {False}),
        ({"r1_gamma": 1.0}, {True}),
        ({"r1_gamma": 1.0, "penalty_every": 16}, {False, True}),
        ({"penalty_every": 16}, {False}),
    ],
)
def test_the_kinds_of_steps_are_those_of_the_run(settings: dict, kinds: set[bool]) -> None:
    config = make_config({**TINY, **settings})
    penalties = Penalties(config)
    assert penalties.kinds == kinds == {penalties.due(step) for step in range(1, 33)}


def test_a_trainer_on_a_gpu_gets_its_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer(
        make_config({**TINY, "compile": "off", "r1_gamma": 1.0, "penalty_every": 4}), torch.device("cpu"), FP32
    )
    trainer.on_gpu = True
    monkeypatch.setattr(trainer, "config", SimpleNamespace(**{**vars(trainer.config), "cuda_graphs": True}))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    lines = speed_up.speed_up(trainer)
    assert isinstance(trainer.update, GraphedUpdate) and trainer.update.kinds == {False, True}
    assert any("steps are replayed" in line for line in lines)
