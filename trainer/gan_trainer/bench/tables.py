# SPDX-License-Identifier: Apache-2.0
"""The reported tables, measured on this machine; see reported.py for the numbers beside them."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Callable

import torch

from .. import CPUS_AT_START
from ..config import Config
from ..data.loader import make_dataset
from ..errors import UserError
from .ladder import NEEDS_GPU, NEEDS_TF32, measure_ladder, possible
from .reported import AMP_MEMORY_SAVED, BATCH, OVERALL, PRECISION, contradictions, with_reported
from .rounds import Taken, in_turns
from .training import Measured, measure, measure_ranks

SCHEMA = 1
BATCH_SIZES = (32, 64, 128)
# Row of the table: precision, GPUs.
PRECISIONS = {"fp32": ("fp32", 1), "tf32": ("tf32", 1), "amp": ("auto", 1), "amp_2_gpus": ("auto", 2)}
NOT_RUN = {"name": "", "ratio": None, "images_per_s": None}
# On a CPU, a table must be finished in a minute: the structure of a training run, not its size.
REDUCED: dict[str, Any] = {
    "image_size": 32,
    "channels": 8,
    "latent_dim": 32,
    "model": "dcgan",
    "precision": "fp32",
    "compile": "off",
}
REDUCED_STEPS, STEPS = 8, 60
ROUNDS = 3

Say = Callable[[str], None]


def bench(
    config: Config, device: torch.device, say: Say, steps: int = 0, fid: Callable[[Config], float] | None = None
) -> dict[str, Any]:
    """All tables as one report, the content of bench.json.

    steps  timed for each number, 0 chooses
    fid    trains a configuration and returns its distance; without it the report has none
    """
    on_gpu = device.type == "cuda"
    if not on_gpu:
        config = replace(config, **REDUCED)
        # At this size, threads cost more than they gain, and on a busy machine they wait for each other.
        torch.set_num_threads(1)
    steps = steps or (STEPS if on_gpu else REDUCED_STEPS)
    images = images_per_epoch(config)
    made_up = max(config.synthetic_images, 1024)
    config = replace(config, accumulate=1, data="synthetic", synthetic_images=made_up, classes=0)
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "device": describe(device),
        "torch": torch.__version__,
        "image_size": config.image_size,
        "images_per_epoch": images,
        "reduced": not on_gpu,
        "rounds": ROUNDS,
    }
    rows = precision_rows(config, device, steps, ROUNDS, say, images, fid)
    report["precision"] = with_reported(rows, "name", PRECISION)
    report["batch"] = with_reported(batch_rows(config, device, steps, ROUNDS, say, images), "batch_size", BATCH)
    report["ladder"] = measure_ladder(
        replace(config, batch_size=ladder_batch(config, on_gpu)), device, steps, ROUNDS, say
    )
    # A trial at reduced size cannot be compared with what was reported for a GPU.
    measured = on_gpu and config.task == "gan"
    batch, ladder = (report["batch"], report["ladder"]) if measured else ([NOT_RUN], [NOT_RUN])
    report["claims"] = claims(report["precision"], batch, ladder, measured)
    report["contradictions"] = contradictions(report["claims"][-1]["measured"])
    return report


def images_per_epoch(config: Config) -> int:
    """Number in the configured folder; for tar shards and the synthetic set, synthetic_images. Raises DataError."""
    if config.data == "synthetic" or config.data.endswith(".tar"):
        return config.synthetic_images
    return len(make_dataset(replace(config, cache_dir="")))


def ladder_batch(config: Config, on_gpu: bool) -> int:
    return config.batch_size if on_gpu else min(config.batch_size, BATCH_SIZES[0])


def describe(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    threads = torch.get_num_threads()
    return f"CPU {model}, {threads} thread{'s' * (threads > 1)}, {len(CPUS_AT_START)} of {os.cpu_count()} CPUs"


def precision_rows(
    config: Config,
    device: torch.device,
    steps: int,
    rounds: int,
    say: Say,
    images: int,
    fid: Callable[[Config], float] | None,
) -> list[dict[str, Any]]:
    """fp32 is strict: no TF32, which has a row of its own. The batch is the same for each GPU, so two of them train on
    twice as many images.
    """
    rows: list[dict[str, Any]] = []
    arms: dict[str, Callable[[], Measured]] = {}
    settings: dict[str, Config] = {}
    for name, (precision, count) in PRECISIONS.items():
        not_run = why_not(precision, count, device)
        rows.append({"name": name, "gpus": count, **nothing(not_run), "stable": None, "fid": None})
        if not not_run:
            settings[name] = replace(config, precision=precision, batch_size=config.batch_size * count)
            if count > 1:
                arms[name] = partial(measure_ranks, settings[name], count, steps, named=("precision",))
            else:
                arms[name] = partial(measure, settings[name], device, steps, named=("precision",))
    taken = in_turns(arms, rounds, lambda line: say(f"precision, {line}"))
    for row in rows:
        name = row["name"]
        if name in taken:
            take(row, taken[name], images)
        if fid and row["gpus"] == 1 and row["stable"]:
            say(f"precision: {name}, training for its FID")
            try:
                row["fid"] = round(fid(settings[name]), 3)
            except UserError as error:
                row["note"] = f"FID: {error}"
    return rows


def why_not(precision: str, count: int, device: torch.device) -> str:
    """Why a row of the precision table is not run here, "" if it is."""
    if device.type != "cuda":
        # A CPU does not compute half precision at speed: its figure would be misleading.
        return "" if precision == "fp32" else NEEDS_GPU
    if torch.cuda.device_count() < count:
        return f"needs {count} GPUs"
    return "" if possible({"precision": precision}, device) else NEEDS_TF32


def batch_rows(
    config: Config, device: torch.device, steps: int, rounds: int, say: Say, images: int
) -> list[dict[str, Any]]:
    """As configured except for the batch; the learning rate does not affect the time."""
    arms: dict[str, Callable[[], Measured]] = {
        str(size): partial(measure, replace(config, batch_size=size), device, max(2, steps * BATCH_SIZES[0] // size))
        for size in BATCH_SIZES
    }
    taken = in_turns(arms, rounds, lambda line: say(f"batch size, {line}"))
    rows = [{"batch_size": size, **nothing()} for size in BATCH_SIZES]
    for row in rows:
        take(row, taken[str(row["batch_size"])], images)
    return rows


def nothing(not_run: str = "") -> dict[str, Any]:
    """A row before its measurement, or permanently, with the reason in `not_run`."""
    values = ("epoch_s", "images_per_s", "ratio", "spread", "memory_fraction", "allocated_fraction")
    return {**dict.fromkeys(values), "note": "", "not_run": not_run}


def take(row: dict[str, Any], taken: Taken, images: int) -> None:
    """Put the rounds of an arm into its row; one that did not fit the card, or failed, leaves a note there instead."""
    row["note"] = taken.note
    if taken.found is None or taken.images_per_s is None or taken.spread is None:
        return
    row["images_per_s"] = round(taken.images_per_s, 1)
    row["epoch_s"] = round(images / taken.images_per_s, 3)
    row["ratio"] = None if taken.ratio is None else round(taken.ratio, 3)
    row["spread"] = round(taken.spread, 3)
    row["memory_fraction"], row["allocated_fraction"] = taken.found.memory_fraction, taken.found.allocated_fraction
    if "stable" in row:
        row["stable"] = taken.found.stable


def claims(
    precision: list[dict[str, Any]], batch: list[dict[str, Any]], ladder: list[dict[str, Any]], measured: bool = True
) -> list[dict[str, Any]]:
    """What was reported in one sentence: `{name, unit, reported: [low, high], measured, not_run}`, None: not measured.

    measured  whether the rows are those of a GPU that trains a GAN
    """
    reason = "see the rows" if measured else NEEDS_GPU
    rows = {row["name"]: row for row in precision}
    before, after = (rows[name]["allocated_fraction"] for name in ("fp32", "amp"))
    # The last rung that this machine can run.
    overall = next((rung["ratio"] for rung in reversed(ladder) if rung["images_per_s"]), None)
    without = [rung["name"].lstrip("+ ") for rung in ladder if overall and not rung["images_per_s"]]
    everything = f"everything on{' but for ' if without else ''}{', '.join(without)}"
    gain = round(BATCH[32]["epoch_min"] / BATCH[128]["epoch_min"], 3)
    return [
        claim(f"{everything}, over the plain fp32 loop", "times", [OVERALL, OVERALL], overall, reason),
        claim(
            "memory saved by mixed precision, equal batch",
            "%",
            list(AMP_MEMORY_SAVED),
            round(1 - after / before, 3) if before and after else None,
            reason,
        ),
        claim("batch 128 over 32", "times", [gain, gain], batch[-1]["ratio"], reason),
    ]


def claim(name: str, unit: str, reported: list[float], measured: float | None, reason: str) -> dict[str, Any]:
    not_run = reason if measured is None else ""
    return {"name": name, "unit": unit, "reported": reported, "measured": measured, "not_run": not_run}
