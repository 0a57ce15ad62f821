# SPDX-License-Identifier: Apache-2.0
"""The reported tables, measured on this machine; see reported.py for the numbers beside them."""

from __future__ import annotations

import gc
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
from ..data.images import FolderImages
from ..errors import UserError
from .ladder import measure_ladder
from .reported import BATCH, PRECISION, contradictions, with_reported
from .training import DISTINCT_BATCHES, measure, measure_ranks

SCHEMA = 1
BATCH_SIZES = (32, 64, 128)
NEEDS_GPU = "needs a GPU"
THEN = f"{'reported min':>15}{'ratio':>7}{'memory':>9}"
# On a CPU a table must be there in a minute: the shape of a training, not its size.
REDUCED = {"image_size": 32, "channels": 8, "latent_dim": 32, "model": "dcgan", "precision": "fp32", "compile": "off"}
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
        # At this size threads cost more than they give, and on a busy machine they wait for each other.
        torch.set_num_threads(1)
    steps = steps or (STEPS if on_gpu else REDUCED_STEPS)
    images = images_per_epoch(config)
    config = replace(config, accumulate=1, data="synthetic", synthetic_images=max(config.synthetic_images, 1024))
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "device": describe(device),
        "torch": torch.__version__,
        "image_size": config.image_size,
        "images_per_epoch": images,
        "reduced": not on_gpu,
    }
    report["precision"] = with_reported(precision_rows(config, device, steps, say, images, fid), "name", PRECISION)
    report["batch"] = with_reported(batch_rows(config, device, steps, say, images), "batch_size", BATCH)
    report["ladder"] = measure_ladder(
        replace(config, batch_size=ladder_batch(config, on_gpu)), device, steps, ROUNDS, say
    )
    report["contradictions"] = contradictions(batch_gain(report["batch"]) if on_gpu else None)
    return report


def images_per_epoch(config: Config) -> int:
    """Of the configured folder; of tar shards and the synthetic set what synthetic_images says. Raises DataError."""
    if config.data == "synthetic" or config.data.endswith(".tar"):
        return config.synthetic_images
    return len(FolderImages(config.data, config.image_size, config.max_bad_images))


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
    config: Config, device: torch.device, steps: int, say: Say, images: int, fid: Callable[[Config], float] | None
) -> list[dict[str, Any]]:
    """fp32 is strict: no TF32. The batch is the same for each GPU, so two of them train on twice as many images."""
    on_gpu = device.type == "cuda"
    gpus = torch.cuda.device_count() if on_gpu else 0
    rows = []
    for name, count in (("fp32", 1), ("amp", 1), ("amp_2_gpus", 2)):
        row: dict[str, Any] = {"name": name, "gpus": count, **nothing(), "stable": None, "fid": None}
        rows.append(row)
        settings = replace(config, precision="fp32" if name == "fp32" else "auto", batch_size=config.batch_size * count)
        # A CPU computes half precision as a favour: its speed would say something false.
        if name == "fp32" or gpus >= count:
            say(f"precision: {name}")
            alone = partial(measure, settings, device, steps)
            take(row, partial(measure_ranks, settings, count, steps) if count > 1 else alone, images)
            if fid and count == 1 and row["stable"]:
                say(f"precision: {name}, training for its FID")
                try:
                    row["fid"] = round(fid(settings), 3)
                except UserError as error:
                    row["note"] = f"FID: {error}"
    return rows


def batch_rows(config: Config, device: torch.device, steps: int, say: Say, images: int) -> list[dict[str, Any]]:
    """As configured but for the batch; the learning rate does not matter to the time."""
    rows = []
    for size in BATCH_SIZES:
        say(f"batch size: {size}")
        row: dict[str, Any] = {"batch_size": size, **nothing()}
        rows.append(row)
        fewer = max(2, steps * BATCH_SIZES[0] // size)
        take(row, partial(measure, replace(config, batch_size=size), device, fewer), images)
    return rows


def nothing() -> dict[str, Any]:
    return {"epoch_s": None, "images_per_s": None, "memory_fraction": None, "note": ""}


def take(row: dict[str, Any], work: Callable[[], Any], images: int) -> None:
    """Put a measurement into its row; what did not fit the card, or failed, leaves a note there instead."""
    try:
        found = work()
    except torch.cuda.OutOfMemoryError:
        row["note"] = "does not fit the GPU's memory"
    except UserError as error:
        row["note"] = str(error)
    else:
        row["images_per_s"] = round(found.images_per_s, 1)
        row["epoch_s"] = round(images / found.images_per_s, 3)
        row["memory_fraction"] = found.memory_fraction
        if "stable" in row:
            row["stable"] = found.stable
    # A failed measurement's networks hang on its traceback until here.
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def batch_gain(rows: list[dict[str, Any]]) -> float | None:
    """Images/s of the largest batch over the smallest."""
    first, last = rows[0]["images_per_s"], rows[-1]["images_per_s"]
    return last / first if first and last else None


def as_text(report: dict[str, Any]) -> str:
    """The report for people."""
    size = "reduced size, a trial: times say nothing about a GPU" if report["reduced"] else "as configured"
    lines = [
        f"{report['device']}, torch {report['torch']}, {report['image_size']} px",
        f"{report['images_per_epoch']} images an epoch, its time from the rate of {DISTINCT_BATCHES} batches in memory",
        f"Size: {size}. Reported: NVIDIA V100 16 GB, as reported; its data set and network are unknown.",
        "",
        f"{'precision':<14}{'epoch s':>10}{'ratio':>8}{'memory':>9}{'stable':>8}{'FID':>8}{THEN}{'FID':>7}",
    ]
    first = report["precision"][0]
    for row in report["precision"]:
        stable = {True: "yes", False: "NO", None: "-"}[row["stable"]]
        fid = f"{_number(row['fid'], '8.1f')}{_then(row, first)}{row['reported']['fid']:>7}"
        lines.append(f"{row['name']:<14}{_times(row, first)}{stable:>8}{fid}{_note(row)}")
    lines += ["", f"{'batch size':<14}{'epoch s':>10}{'ratio':>8}{'memory':>9}{'':>16}{THEN}"]
    first = report["batch"][0]
    for row in report["batch"]:
        lines.append(f"{row['batch_size']:<14}{_times(row, first)}{'':>16}{_then(row, first)}{_note(row)}")
    lines += ["", f"{'ladder':<50}{'images/s':>10}{'ratio':>8}{'peak MiB':>10}"]
    lines += [_rung(row, report["reduced"]) for row in report["ladder"]]
    if any(row["images_per_s"] and row["ratio"] is None for row in report["ladder"]):
        lines.append("noise: that loop or the plain one differed from itself by more than 15 % between rounds")
    return "\n".join([*lines, "", *report["contradictions"]])


def _times(row: dict[str, Any], first: dict[str, Any]) -> str:
    if row["epoch_s"] is None:
        return f"{'failed' if row['note'] else NEEDS_GPU:>18}{'-':>9}"
    ratio = first["epoch_s"] / row["epoch_s"] if first["epoch_s"] else None
    memory = "-" if row["memory_fraction"] is None else f"{row['memory_fraction']:.0%}"
    return f"{row['epoch_s']:>10.1f}{_number(ratio, '8.2f')}{memory:>9}"


def _then(row: dict[str, Any], first: dict[str, Any]) -> str:
    """The reported columns, under THEN."""
    was, ratio = row["reported"], first["reported"]["epoch_min"] / row["reported"]["epoch_min"]
    return f"{was['epoch_min']:>15}{ratio:>7.2f}{was['memory_percent']:>8}%"


def _rung(row: dict[str, Any], reduced: bool) -> str:
    if row["images_per_s"] is None:
        return f"{row['name']:<50}{NEEDS_GPU if reduced else 'not on this GPU':>28}"
    ratio = "noise" if row["ratio"] is None else f"{row['ratio']:.2f}"
    return f"{row['name']:<50}{row['images_per_s']:>10.1f}{ratio:>8}{_number(row['peak_memory_mib'], '10d')}"


def _number(value: float | None, form: str) -> str:
    return format("-", f">{int(form.rstrip('df').split('.')[0])}") if value is None else format(value, form)


def _note(row: dict[str, Any]) -> str:
    return f"   {row['note']}" if row["note"] else ""
