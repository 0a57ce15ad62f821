# SPDX-License-Identifier: Apache-2.0
"""Differences between a checkpoint's configuration and the current one: a different experiment, or only its pace."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..config import Config
from ..errors import UsageError
from .checkpoint import CheckpointError

# Keys on which the shape of the saved tensors depends: no run can be resumed with other values.
SHAPE_KEYS = ("task", "classes", "model", "image_size", "latent_dim", "channels")
# Keys on which the numbers of a run depend. With other values, they would belong to two experiments.
EXPERIMENT_KEYS = (
    *("data", "synthetic_images", "background", "seed", "loss", "r1_gamma", "r2_gamma", "penalty_every"),
    *("ema_decay", "ema_rampup", "batch_size", "flip", "options"),
    *("augment", "augment_target", "augment_images"),
)
# Set again at every start, and not part of the result.
FREE_KEYS = (
    *(
        "run_dir",
        "steps",
        "num_workers",
        "prefetch_factor",
        "prefetch",
        "cache_dir",
        "device",
        "progress",
        "tensorboard",
    ),
    *("log_every", "sample_every", "sample_count", "checkpoint_every", "keep_checkpoints", "max_bad_images"),
    *("distance_every", "distance_images", "distance", "distance_features", "flow_steps"),
    *("expandable_segments", "auto_batch", "memory_target", "batch_rounding"),
)


class DriftError(CheckpointError, UsageError):
    """The run folder belongs to another experiment; trying again does not help."""


def differences(saved: dict[str, Any], config: Config) -> dict[str, tuple[Any, Any]]:
    """Keys with their saved and their present value; a key that the checkpoint does not know had its default."""
    before, present = {**asdict(Config()), **saved}, asdict(config)
    return {key: (before[key], value) for key, value in present.items() if before[key] != value}


def check_drift(saved: dict[str, Any], config: Config, allowed: bool) -> str:
    """A line about what goes on differently, or ''; DriftError for another experiment that was not `allowed`."""
    found = differences(saved, config)
    for key in SHAPE_KEYS:
        if key in found:
            before, now = found[key]
            raise DriftError(
                f"{key}: the checkpoint was made with {before}, the configuration says {now}; choose a new run_dir"
            )
    # The largest batch that fits differs from card to card; the saved one is kept.
    other = [key for key in EXPERIMENT_KEYS if key in found and not (key == "batch_size" and config.auto_batch)]
    if other and not allowed:
        named = "; ".join(f"{key} was {found[key][0]!r} and is {found[key][1]!r}" for key in other)
        raise DriftError(
            f"run_dir: {config.run_dir} holds another experiment: {named}. Choose a new run_dir, restore the values, "
            "or continue all the same with --resume changed"
        )
    told = [f"{key} {before!r} -> {now!r}" for key, (before, now) in found.items() if key not in FREE_KEYS]
    return f"continues with {', '.join(told)}" if told else ""
