"""A row of the bench that did not do what its name says has a reason and no figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from conftest import TINY

from gan_trainer.bench import conditions, inference, ladder, tables, training
from gan_trainer.bench.conditions import CONDITIONS, NotAsNamed, demand, runs_compiled
from gan_trainer.bench.ladder import Rung, measure_ladder
from gan_trainer.bench.rounds import in_turns
from gan_trainer.bench.table_text import _rung
from gan_trainer.bench.training import Measured, make_trainer, measure
from gan_trainer.config import make_config
from gan_trainer.engine import compiled as engine_compiled
from gan_trainer.engine.cuda_graphs import GraphedUpdate
from gan_trainer.engine.loop import Trainer
from gan_trainer.engine.speed_up import speed_up
from gan_trainer.models.networks import build
from gan_trainer.precision import Precision

CPU = torch.device("cpu")
CONFIG = make_config({**TINY, **ladder.PLAIN, "device": "cpu"})


def trainer_for(**changes: Any) -> Trainer:
    return make_trainer(replace(CONFIG, **changes), CPU)


@pytest.fixture
def rungs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, dict[str, Any]]]:
    """The rows of a ladder of these rungs, as on a machine where none needs a GPU."""

    def climb(*added: tuple[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        steps = [Rung("the trainer's step", {}, False), *[Rung(name, what, False) for name, what in added]]
        monkeypatch.setattr(ladder, "RUNGS", tuple(steps))
        return {row["name"]: row for row in measure_ladder(CONFIG, CPU, 1, 1)}

    return climb


def test_a_rung_that_runs_eagerly_has_no_figure(rungs: Callable[..., dict]) -> None:
    """On a V100, `auto` is always off: the row printed eager mode's speed under the name of torch.compile."""
    rows = rungs(("+ torch.compile", {"compile": "auto"}), ("+ CUDA graphs", {"cuda_graphs": True}))
    off = "not measured: torch.compile is off: on a CPU compiling takes longer than it gains"
    none = {"images_per_s": None, "ratio": None, "peak_memory_mib": None}
    assert rows["+ torch.compile"] == {"name": "+ torch.compile", **none, "not_run": off}
    assert rows["+ CUDA graphs"] == {"name": "+ CUDA graphs", **none, "not_run": "not measured: no step was recorded"}
    assert rows["the trainer's step"]["images_per_s"] > 0 and rows["the trainer's step"]["not_run"] == ""
    assert off in _rung(rows["+ torch.compile"])


@pytest.mark.parametrize(
    "setting, value, says",
    [
        ("precision", "auto", "fp32: asked for"),
        ("precision", "tf32", "TF32 is off"),
        ("channels_last", True, "the weights are not channels last"),
        ("cudnn_benchmark", True, "cuDNN does not search its kernels"),
        ("fused_optimizer", True, "the optimizers are not fused"),
        ("cuda_graphs", True, "no step was recorded"),
        ("compile", "auto", "torch.compile is off"),
    ],
)
def test_every_switch_of_the_ladder_is_looked_at(setting: str, value: Any, says: str) -> None:
    """None of them has an effect on a CPU."""
    assert set(CONDITIONS) == {name for rung in ladder.RUNGS for name in rung.settings}
    trainer = trainer_for(compile=value if setting == "compile" else "off")
    # What TF32 and half precision need is refused earlier on a CPU.
    trainer.config = replace(trainer.config, **{setting: value})
    with pytest.raises(NotAsNamed, match=f"not measured: {says}"):
        demand(trainer, [setting], lambda: None)


def test_what_holds_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_for()
    demand(trainer, ["precision"], lambda: None)
    trainer.precision = Precision("bf16", "")
    trainer.config = replace(trainer.config, precision="auto")
    demand(trainer, ["precision"], lambda: None)
    monkeypatch.setattr(conditions, "autocast", lambda *_: torch.autocast("cpu", enabled=False))
    with pytest.raises(NotAsNamed, match=r"products are of torch.float32, not of torch.bfloat16"):
        demand(trainer, ["precision"], lambda: None)
    trainer.layout = torch.channels_last
    for network in trainer.networks.values():
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    demand(trainer, ["channels_last"], lambda: None)
    for optimizer in trainer.optimizers.values():
        optimizer.defaults["fused"] = True
    demand(trainer, ["fused_optimizer"], lambda: None)
    trainer.update = update = GraphedUpdate(trainer.update_networks, {False}, None)
    with pytest.raises(NotAsNamed, match="no step was recorded"):
        demand(trainer, ["cuda_graphs"], lambda: None)
    update.graphs[False] = torch.nn.Module()  # type: ignore[assignment]
    demand(trainer, ["cuda_graphs"], lambda: None)


def test_compiled_code_is_seen_at_work() -> None:
    work = torch.compile(lambda values: (values * 2).relu().sum(), backend="aot_eager")
    assert runs_compiled(lambda: work(torch.ones(4)))
    assert not runs_compiled(lambda: torch.ones(4).relu())


def test_a_compiler_that_silently_does_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_for(compile="off")
    trainer.ran_without.clear()
    with pytest.raises(NotAsNamed, match="no compiled code runs in a step"):
        demand(trainer, ["compile"], lambda: trainer.step(training.make_batches(CONFIG, 4, False)[0]))


def test_one_part_that_runs_eagerly_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(function: Callable) -> Callable:
        raise RuntimeError("Python.h: No such file or directory")

    monkeypatch.setattr(engine_compiled, "choose_compile", lambda *_: (True, "8.0"))
    monkeypatch.setattr(engine_compiled.compile_networks, "__defaults__", (fail,))
    trainer = trainer_for(compile="auto")
    with pytest.raises(NotAsNamed, match=r"generator runs eagerly: RuntimeError: Python\.h"):
        demand(trainer, ["compile"], lambda: None)
    told = [line for line in speed_up(trainer) if line.startswith("WARNING: compile is auto and cannot be used:")]
    assert len(told) == 1 and "Python.h" in told[0] and told[0].endswith(": train-gan doctor")


def test_a_row_that_does_not_hold_ends_its_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def arm() -> Measured:
        calls.append(1)
        return measure(replace(CONFIG, compile="auto"), CPU, 1, named=("compile",))

    taken = in_turns({"first": lambda: Measured(1.0, None, None, True, (0.0,)), "second": arm}, 3, lambda line: None)
    assert taken["second"].images_per_s is None and "torch.compile is off" in taken["second"].note and len(calls) == 1


def test_the_precision_tables_rows_are_held_to_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "why_not", lambda precision, count, device: "" if count == 1 else "needs 2 GPUs")
    monkeypatch.setattr(tables, "PRECISIONS", {"fp32": ("fp32", 1), "amp": ("auto", 1)})
    rows = tables.precision_rows(CONFIG, CPU, 1, 1, lambda line: None, 50, None)
    assert rows[0]["images_per_s"] > 0 and rows[1]["images_per_s"] is rows[1]["epoch_s"] is rows[1]["ratio"] is None
    assert rows[1]["note"] == "not measured: fp32: on a CPU: half precision gains nothing"


@pytest.mark.parametrize(
    "compiler, says",
    [
        (lambda network: network, "not measured: no compiled code runs"),
        (None, "failed: RuntimeError: Failed to find C compiler"),
    ],
)
def test_a_way_of_inference_that_fails_or_falls_back_is_named(
    monkeypatch: pytest.MonkeyPatch, compiler: Any, says: str
) -> None:
    def broken(network: Any) -> Any:
        raise RuntimeError("Failed to find C compiler")

    monkeypatch.setattr(torch, "compile", compiler or broken)
    generator = build(CONFIG).generator.eval()
    rows = inference.bench_inference(generator, CONFIG.latent_dim, CPU, compile_on_cpu=True)
    by_name = {row["name"]: row for row in rows}
    assert by_name["eager"]["images_per_s"] > 0 and by_name["eager"]["not_run"] == ""
    assert by_name["torch.compile"]["images_per_s"] is None and by_name["torch.compile"]["not_run"] == says
    assert by_name["half"]["not_run"] == "needs a GPU" and says in inference.as_text(rows)


def test_a_way_is_held_to_its_format() -> None:
    way = inference.Way("half", lambda network, noise: lambda given: network.float()(given.float()), half=True)
    generator = build(CONFIG).generator.eval()
    noise = torch.randn(2, CONFIG.latent_dim)
    with pytest.raises(NotAsNamed, match=r"of torch\.float32, not of torch\.float16"):
        inference.measure_way(way, generator, noise, noise, generator(noise))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        # As a recording that was never replayed, or a compiler that computes zeros on an old card.
        (torch.zeros_like, "not measured: its images differ from eager float32's by "),
        (lambda images: images * float("nan"), "not measured: its images are not finite"),
    ],
)
@pytest.mark.parametrize("batch_size", [1, inference.BATCH])
def test_a_way_that_draws_something_else_has_no_figure(
    monkeypatch: pytest.MonkeyPatch, spoil: Callable[[torch.Tensor], torch.Tensor], says: str, batch_size: int
) -> None:
    """Of one image, by which latency is measured, or of a batch of 64."""

    def make(network: Any, noise: torch.Tensor) -> Any:
        return lambda given: spoil(network(given)) if len(given) == batch_size else network(given)

    monkeypatch.setattr(inference, "WAYS", (inference.Way("other", make, needs_gpu=False), inference.WAYS[0]))
    torch.manual_seed(0)
    generator = build(CONFIG).generator.eval()
    # An untrained one is close to zero everywhere.
    shifted = torch.nn.Sequential(generator, torch.nn.Hardtanh(0.5, 1.0))
    other, eager = inference.bench_inference(shifted, CONFIG.latent_dim, CPU)
    assert other["not_run"].startswith(says) and other["latency_ms"] is other["images_per_s"] is None
    assert eager["images_per_s"] > 0 and eager["not_run"] == ""


def test_compiled_code_that_runs_for_batches_alone_is_no_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second shape may be left to eager mode."""
    monkeypatch.setattr(inference, "runs_compiled", lambda work: len(work()) == inference.BATCH)
    monkeypatch.setattr(torch, "compile", lambda network: network)
    way = next(way for way in inference.WAYS if way.name == "torch.compile")
    generator = build(CONFIG).generator.eval()
    one, many = (torch.randn(count, CONFIG.latent_dim) for count in (1, inference.BATCH))
    with torch.no_grad(), pytest.raises(NotAsNamed, match="no compiled code runs"):
        inference.measure_way(way, generator, one, many, generator(many))


def test_pageable_batches_are_not_pinned() -> None:
    with pytest.raises(NotAsNamed, match="not in pinned memory"):
        conditions.pinned(training.make_batches(CONFIG, 2, pinned=False))
