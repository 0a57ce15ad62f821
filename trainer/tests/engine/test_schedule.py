"""Learning rate, batch size, memory: what the training derives from its configuration."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from conftest import TINY

from gan_trainer.config import Config, ConfigError, make_config
from gan_trainer.engine.batch_size import find_batch_size, largest_fitting
from gan_trainer.engine.loop import Trainer
from gan_trainer.engine.memory import MemoryReport, read_memory, use_expandable_segments
from gan_trainer.engine.schedule import learning_rate_factor
from gan_trainer.engine.train import settle_batch
from gan_trainer.errors import UserError
from gan_trainer.parallel.distributed import Ranks
from gan_trainer.precision import Precision

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
    assert learning_rate_factor(make_config(values), step) == pytest.approx(factor)


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
