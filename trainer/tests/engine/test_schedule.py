"""Learning rate, batch size, memory: what the training derives from its configuration."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from conftest import TINY

from gan_trainer.config import Config, ConfigError, make_config
from gan_trainer.engine import batch_size
from gan_trainer.engine.batch_size import find_batch_size, largest_fitting
from gan_trainer.engine.loop import Trainer
from gan_trainer.engine.memory import MemoryReport, read_memory, use_expandable_segments
from gan_trainer.engine.schedule import learning_rate
from gan_trainer.engine.train import settle_batch
from gan_trainer.errors import UserError
from gan_trainer.models.networks import build
from gan_trainer.parallel.distributed import Ranks
from gan_trainer.precision import Precision
from gan_trainer.runs.samples import grid_batch

CPU, FP32 = torch.device("cpu"), Precision("fp32", "")


@pytest.mark.parametrize(
    ("values", "step", "factor"),
    [
        ({"batch_size": 32}, 1, 1.0),
        ({"batch_size": 64}, 1, 2.0),
        ({"batch_size": 8}, 1, 0.25),
        ({"batch_size": 64, "lr_scaling": "none"}, 1, 1.0),
        ({"batch_size": 32, "warmup_steps": 4}, 1, 0.25),
        ({"batch_size": 64, "warmup_steps": 4}, 3, 1.5),
        ({"batch_size": 32, "warmup_steps": 4}, 5, 1.0),
        # Cosine: half way between 1 and the floor in the middle, the floor at the end.
        ({"batch_size": 32, "lr_schedule": "cosine", "lr_floor": 0.1, "steps": 100}, 50, 0.55),
        ({"batch_size": 32, "lr_schedule": "cosine", "lr_floor": 0.1, "steps": 100}, 25, 0.55 + 0.45 * math.sqrt(0.5)),
        ({"batch_size": 32, "lr_schedule": "cosine", "lr_floor": 0.1, "steps": 100}, 100, 0.1),
        ({"batch_size": 64, "lr_schedule": "cosine", "lr_floor": 0.0, "steps": 20, "warmup_steps": 10}, 15, 1.0),
        ({"batch_size": 32, "lr_schedule": "cosine", "steps": 20, "warmup_steps": 10}, 10, 1.0),
    ],
)
def test_learning_rate_scales_warms_up_and_decays(values: dict, step: int, factor: float) -> None:
    assert learning_rate(make_config(values), 1e-4, step) == pytest.approx(1e-4 * factor)


def test_trainer_follows_the_schedule() -> None:
    values = {**TINY, "batch_size": 16, "lr_generator": 0.01, "lr_discriminator": 0.02, "warmup_steps": 2}
    trainer = Trainer(make_config(values), CPU, FP32)
    rates = []
    for _ in range(3):
        trainer.step(torch.zeros(16, 3, 32, 32, dtype=torch.uint8))
        statistics = trainer.statistics()
        rates.append((statistics["lr_generator"], statistics["lr_discriminator"]))
    assert rates == [pytest.approx((0.0025, 0.005)), pytest.approx((0.005, 0.01)), pytest.approx((0.005, 0.01))]


@pytest.mark.parametrize(
    ("limit", "most", "rounding", "found"),
    [
        (100, 65_536, "eight", 96),
        (100, 65_536, "power_of_two", 64),
        (8, 65_536, "eight", 8),
        (7, 65_536, "eight", 0),
        (7, 65_536, "power_of_two", 0),
        (128, 65_536, "eight", 128),
        (10**9, 1000, "eight", 1000),
        (10**9, 1001, "eight", 1000),
        (10**9, 1000, "power_of_two", 512),
        (10**9, 4, "eight", 0),
    ],
)
def test_search_finds_the_largest_size(limit: int, most: int, rounding: str, found: int) -> None:
    tried = []

    def fits(size: int) -> bool:
        tried.append(size)
        return size <= limit

    assert largest_fitting(fits, most, rounding) == found
    assert all(size % 8 == 0 and size <= most for size in tried) and len(tried) == len(set(tried)) <= 24


def kept_bytes(config: Config, device: torch.device, precision: Precision) -> int:
    """Bytes that a real step keeps for its backward passes, which a CPU can count."""
    trainer, seen = Trainer(config, device, precision), []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        seen.append(tensor.numel() * tensor.element_size())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        trainer.step(torch.zeros(config.batch_size, 3, 32, 32, dtype=torch.uint8))
    return sum(seen)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_batch_size_fills_the_target_and_no_more(accumulate: int) -> None:
    config = make_config({**TINY, "batch_size": 8, "accumulate": accumulate, "memory_target": 0.8})
    memory = 4 * kept_bytes(replace(config, batch_size=16 * accumulate), CPU, FP32)
    found = find_batch_size(config, CPU, FP32, memory, measure=kept_bytes)
    assert found % (8 * accumulate) == 0
    # The parameters, which do not grow with the batch, make it a little more than 0.8 * 4 * 16.
    assert kept_bytes(replace(config, batch_size=found), CPU, FP32) <= 0.8 * memory
    assert kept_bytes(replace(config, batch_size=found + 8 * accumulate), CPU, FP32) > 0.8 * memory


def test_batch_size_survives_running_out_of_memory_and_says_when_nothing_fits() -> None:
    config = make_config({**TINY, "batch_size": 8})

    def overflowing(config: Config, device: torch.device, precision: Precision) -> int:
        if config.batch_size > 40:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return 1

    assert find_batch_size(config, CPU, FP32, 100, measure=overflowing) == 40
    with pytest.raises(UserError, match="auto_batch: not even 8 images fit 90% of 1.0 GiB. Lower image_size"):
        find_batch_size(config, CPU, FP32, 2**30, measure=lambda *_: 2**30)


def test_size_that_fits_only_once_is_given_up() -> None:
    """Fragments left by the search must not decide: the last word has one more real step."""
    config, steps = make_config({**TINY, "batch_size": 8}), []

    def second_time_larger(config: Config, device: torch.device, precision: Precision) -> int:
        steps.append(config.batch_size)
        return config.batch_size + (16 if steps.count(config.batch_size) > 1 else 0)

    found = find_batch_size(replace(config, memory_target=0.5), CPU, FP32, 128, measure=second_time_larger)
    assert found == 56 and steps[-1] == 56


class Alike(Ranks):
    """Ranks that all find the same."""

    def largest(self, values: torch.Tensor) -> torch.Tensor:
        return values


def test_several_processes_leave_room_for_their_gradients() -> None:
    """DistributedDataParallel keeps the gradients of both networks in buckets of its own, all the time."""
    config = make_config({**TINY, "batch_size": 8, "memory_target": 0.5})
    buckets = sum(p.numel() * p.element_size() for network in build(config) for p in network.parameters())
    memory = 4 * buckets

    def of_images(config: Config, device: torch.device, precision: Precision) -> int:
        return config.batch_size * buckets // 64

    alone = find_batch_size(config, CPU, FP32, memory, measure=of_images)
    several = find_batch_size(config, CPU, FP32, memory, Alike(world=4), measure=of_images)
    assert (alone, several // 4) == (128, 64)


def test_a_grid_of_samples_is_part_of_what_must_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made beside the training, and with graphs from memory that they do not give back."""
    made: list[tuple[int, int]] = []
    for name in ("empty_cache", "reset_peak_memory_stats", "synchronize"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (600, 1000))
    held = iter([100, 250, 180])
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 100)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: next(held))
    monkeypatch.setattr(batch_size, "generate", lambda *words: made.append((words[1], words[4])))
    config = make_config({**TINY, "batch_size": 8, "sample_count": 64})
    peak = batch_size.peak_of_step(config, CPU, FP32)
    assert made == [(64, grid_batch(32))]
    # Of others 300; the step's 100 or, with the grid, 250.
    assert peak == 300 + 250


def test_a_group_of_gpus_talks_before_memory_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL takes its buffers with the first exchange; before it the card looks emptier than it will be."""
    order: list[str] = []
    monkeypatch.setattr(batch_size, "open_channels", lambda device, ranks: order.append("nccl"))

    def measure(*_: object) -> int:
        order.append("step")
        return 1

    find_batch_size(make_config(TINY), CPU, FP32, 2**30, Alike(world=2), most=16, measure=measure)
    assert order[0] == "nccl" and order.count("nccl") == 1


@pytest.mark.parametrize(("batch", "rate"), [(32, 1e-4), (64, 2e-4), (640, 2e-3), (8192, 2e-3)])
def test_a_scaled_learning_rate_has_a_limit(batch: int, rate: float) -> None:
    """Linear scaling is SGD's; with Adam at a batch of 8192 it would be 0.026, with which nothing trains."""
    config = make_config({"batch_size": batch, "synthetic_images": 10_000})
    assert learning_rate(config, config.lr_generator, 1) == pytest.approx(rate)


def test_the_limit_is_for_scaling_and_not_for_who_asks() -> None:
    config = make_config({"batch_size": 64, "lr_generator": 0.01, "lr_discriminator": 1e-4})
    assert learning_rate(config, config.lr_generator, 1) == pytest.approx(0.01)
    assert learning_rate(config, config.lr_discriminator, 1) == pytest.approx(2e-4)
    free = make_config({"batch_size": 8192, "lr_limit": 1.0})
    assert learning_rate(free, free.lr_generator, 1) == pytest.approx(1e-4 * 256)


def test_a_square_root_is_another_way_to_scale() -> None:
    config = make_config({"batch_size": 128, "lr_scaling": "sqrt"})
    assert learning_rate(config, 1e-4, 1) == pytest.approx(2e-4)


def test_resumed_run_keeps_its_batch_size(monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config({"auto_batch": True})
    state = {"config": {"batch_size": 48}}
    assert settle_batch(config, state, torch.device("cuda"), FP32, Ranks()).batch_size == 48
    with pytest.raises(ConfigError, match="auto_batch: true needs a GPU, and there is none"):
        settle_batch(config, None, CPU, FP32, Ranks())
    with pytest.raises(ConfigError, match="64 cannot be cut into 3 processes x 2 accumulated parts; .* multiples of 6"):
        settle_batch(make_config({"accumulate": 2}), None, CPU, FP32, Ranks(rank=0, world=3))


def test_memory_report_has_a_line_for_each_phase() -> None:
    trainer = Trainer(make_config(TINY), CPU, FP32)
    for _ in range(2):
        trainer.step(torch.zeros(4, 3, 32, 32, dtype=torch.uint8))
    assert list(trainer.memory.phases) == ["networks", "discriminator", "generator", "update"]
    for line in trainer.memory.phases.values():
        assert 0 < line["allocated_mib"] <= line["peak_mib"] and 0 < line["fraction"] < 1
    assert len(trainer.memory.table().splitlines()) == 5 and "%" in trainer.memory.table()


def test_memory_report_sees_what_is_allocated() -> None:
    report = MemoryReport(CPU)
    report.note("before")
    held = torch.ones(256 * 2**20 // 4)
    report.note("after")
    grown = report.phases["after"]["allocated_mib"] - report.phases["before"]["allocated_mib"]
    assert 250 <= grown <= 300 and held[0] == 1
    assert read_memory(CPU).peak >= read_memory(CPU).allocated


def test_users_allocator_settings_win() -> None:
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        environment = {name: "max_split_size_mb:64"}
        use_expandable_segments(environment)
        assert environment == {name: "max_split_size_mb:64"}
    environment = {}
    use_expandable_segments(environment)
    # torch 2.0 would refuse to start with it.
    expected = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} if torch.__version__ >= "2.1" else {}
    assert environment == expected
