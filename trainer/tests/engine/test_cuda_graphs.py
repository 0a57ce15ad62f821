"""The order in which a step is run, recorded and replayed, on streams and graphs that note what is asked of them."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Iterator

import pytest
import torch
from conftest import TINY
from torch.torch_version import TorchVersion

from gan_trainer.config import make_config
from gan_trainer.engine import speed_up, train
from gan_trainer.engine.cuda_graphs import WARM_UP, WARM_UP_OF_RANKS, GraphedUpdate, why_not
from gan_trainer.engine.loop import Trainer
from gan_trainer.engine.stability import TrainingError
from gan_trainer.models.penalties import Penalties
from gan_trainer.parallel import distributed
from gan_trainer.parallel.distributed import Ranks
from gan_trainer.precision import Precision
from gan_trainer.tasks import Batch

FP32 = Precision("fp32", "")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happened, in order; `capture` brackets what a graph records, and a replay names its graph."""
    done: list[str] = []

    class Stream:
        def __init__(self, device: object = None) -> None:
            pass

        def wait_stream(self, other: object) -> None:
            done.append("wait")

    class Graph:
        def __init__(self) -> None:
            self.kind = "?"

        def reset(self) -> None:
            done.append(f"reset {self.kind}")

        def pool(self) -> str:
            return f"pool of {self.kind}"

        def replay(self) -> None:
            done.append(f"replay {self.kind}")

    @contextmanager
    def graph(graph: Graph, pool: str | None = None, stream: Any = None, **options: Any) -> Iterator[None]:
        assert isinstance(stream, Stream), "steps are recorded on the stream of the ordinary ones"
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


def graphed(done: list[str], every: int, warm_up: int = WARM_UP) -> GraphedUpdate:
    kinds = {False: {False}, True: {False, True}}[every > 1] if every != 1 else {True}
    stream = torch.cuda.Stream()
    return GraphedUpdate(lambda batch, rare: done.append("penalised" if rare else "plain"), kinds, stream, warm_up)


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


@pytest.mark.parametrize("warm_up", [WARM_UP, WARM_UP_OF_RANKS])
@pytest.mark.parametrize("every", [0, 1, 2, 4, 16])
def test_every_step_is_done_once_and_of_its_kind(gpu: list[str], every: int, warm_up: int) -> None:
    run(graphed(gpu, every, warm_up), 40, every)
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
    assert warm_up <= ordinary <= max(warm_up, every)


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
    assert any("steps are replayed after 3 ordinary ones" in line for line in lines)


def test_released_graphs_are_gone_and_later_steps_are_ordinary(gpu: list[str]) -> None:
    """NCCL's communicator would wait for them for ever."""
    trainer = Trainer(make_config({**TINY, "compile": "off"}), torch.device("cpu"), FP32)
    update = graphed(gpu, 2)
    trainer.update = update
    run(update, 6, 2)
    speed_up.slow_down(trainer)
    assert gpu[-2:] == ["reset plain", "reset penalised"] and update.graphs == {}
    assert trainer.update == trainer.update_networks
    speed_up.slow_down(trainer)


def test_a_training_releases_its_graphs_before_the_processes_part(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    order: list[str] = []

    @contextmanager
    def join(on_gpu: bool, graphs: bool) -> Iterator[Ranks]:
        yield Ranks()
        order.append("parted")

    monkeypatch.setattr(train, "join", join)
    monkeypatch.setattr(train, "slow_down", lambda trainer: order.append("released"))
    values = {**TINY, "device": "cpu", "steps": 2, "run_dir": str(tmp_path / "run")}
    train.train(make_config(values))
    assert order == ["released", "parted"]


@pytest.mark.parametrize(
    ("torch_version", "world", "nccl", "reason"),
    [
        ("2.0.1", 1, None, "torch 2.0 has no learning rate on the GPU"),
        ("2.1.2", 1, None, ""),
        ("2.1.2", 2, (2, 18, 6), "torch 2.1.2 looks at NCCL's events"),
        ("2.10.0", 2, (2, 27, 5), ""),
        ("2.10.0", 8, (2, 9, 6), ""),
        ("2.10.0", 8, (2, 8, 4), "NCCL's version is 2.8.4, and it can be recorded from 2.9.6 on"),
        ("2.10.0", 8, None, "NCCL's version is unknown"),
    ],
)
def test_graphs_are_off_where_they_cannot_be(torch_version: str, world: int, nccl: Any, reason: str) -> None:
    found = why_not(TorchVersion(torch_version), world, nccl)
    assert found.startswith(reason) and bool(found) == bool(reason)


def test_on_several_gpus_one_stream_has_the_parallel_network_the_warm_up_and_the_recording(gpu: list[str]) -> None:
    stream = torch.cuda.Stream()
    network = torch.nn.Linear(2, 2)

    class Parallel:
        def __init__(self, *arguments: Any, **options: Any) -> None:
            gpu.append("made")

        def _set_ddp_runtime_logging_sample_rate(self, rate: int) -> None:
            gpu.append(f"timed every {rate}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed, "DistributedDataParallel", Parallel)
        distributed.data_parallel(network, Ranks(world=2), stream)
        assert gpu == ["wait", "side stream", "made", "wait", f"timed every {distributed.NEVER}"]
        gpu.clear()
        distributed.data_parallel(network, Ranks(world=2))
    assert gpu == ["made"]


def test_nccl_leaves_errors_alone_where_its_exchanges_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch asks for it before the group is made."""
    name, seen = "TORCH_NCCL_ASYNC_ERROR_HANDLING", []
    place = {"RANK": "0", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "WORLD_SIZE": "1"}
    for key, value in place.items():
        monkeypatch.setenv(key, value)
    calls = {
        "init_process_group": lambda kind, timeout: seen.append((kind, os.environ.get(name))),
        "new_group": lambda backend, timeout: None,
        "destroy_process_group": lambda: None,
    }
    for called, stand_in in calls.items():
        monkeypatch.setattr(torch.distributed, called, stand_in)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    for graphs in (False, True):
        monkeypatch.delenv(name, raising=False)
        with distributed.join(on_gpu=True, graphs=graphs):
            pass
    assert seen == [("nccl", None), ("nccl", "0")]


def test_a_step_that_cannot_be_recorded_is_told_in_one_sentence(
    gpu: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def graph(graph: Any, **options: Any) -> Iterator[None]:
        try:
            yield
        finally:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")

    monkeypatch.setattr(torch.cuda, "graph", graph)
    faults: list[RuntimeError] = []

    def update(batch: Batch, rare: bool) -> None:
        if faults:
            raise faults[0]

    for fault, expected in (
        (RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore"), TrainingError),
        (torch.cuda.OutOfMemoryError("CUDA out of memory"), torch.cuda.OutOfMemoryError),
    ):
        faults.clear()
        graphs = GraphedUpdate(update, {False}, torch.cuda.Stream())
        run(graphs, WARM_UP, 0)
        faults.append(fault)
        with pytest.raises(expected) as told:
            run(graphs, 1, 0)
        if expected is TrainingError:
            assert str(told.value) == (
                "cuda_graphs: this step cannot be recorded (CUDA error: operation not permitted when stream is "
                "capturing); set cuda_graphs: false, or leave out of the task what waits for the GPU, such as .item()"
            )
