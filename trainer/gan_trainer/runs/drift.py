# SPDX-License-Identifier: Apache-2.0
"""Differences between a checkpoint and what is about to be trained: a different experiment, or only its pace.

One rule for all, configuration and data. What gives the tensors another shape is refused. What makes another experiment
is refused, too, but `--resume changed` continues and names it. Other changes of the numbers are named. What is set anew
at every start is left alone. A key counts only where it has an effect, so a key may be free under one value of another
key and part of the experiment under the next: `steps` is where a cosine ends.
"""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import Any, Callable

from ..config import Config, average_ramp
from ..errors import UsageError
from ..own import is_own
from .checkpoint import CheckpointError

# Keys on which the shape of the saved tensors depends: no run can be resumed with other values.
SHAPE_KEYS = ("task", "classes", "model", "image_size", "latent_dim", "channels")
# Keys on which the numbers of a run depend. With other values, they would belong to two experiments.
EXPERIMENT_KEYS = (
    *("data", "synthetic_images", "background", "seed", "loss", "r1_gamma", "r2_gamma", "penalty_every"),
    *("ema_decay", "ema_rampup", "batch_size", "flip", "options"),
    *("augment", "augment_target", "augment_images"),
    *("steps", "lr_floor"),
)
# Set again at every start, and not part of the result.
FREE_KEYS = (
    *("run_dir", "prefetch_factor", "prefetch", "cache_dir", "device", "progress", "tensorboard"),
    *("log_every", "sample_every", "sample_count", "checkpoint_every", "keep_checkpoints", "max_bad_images"),
    *("distance_every", "distance_images", "distance", "distance_features", "flow_steps"),
    *("expandable_segments", "auto_batch", "memory_target", "batch_rounding"),
)
# Where a key has an effect at all; one that is not here always has.
HAS_EFFECT: dict[str, Callable[[Config], bool]] = {
    **dict.fromkeys(("steps", "lr_floor"), lambda config: config.lr_schedule == "cosine"),
    **dict.fromkeys(("burn_in_lr", "burn_in_gamma", "burn_in_beta2"), lambda config: config.burn_in_steps > 0),
    **dict.fromkeys(("augment_target", "augment_images"), lambda config: config.augment == "ada"),
    "penalty_every": lambda config: config.r1_gamma > 0 or config.r2_gamma > 0,
    "synthetic_images": lambda config: config.data == "synthetic",
    "background": lambda config: config.data != "synthetic" and not is_own(config.data),
    "latent_dim": lambda config: config.task != "flow",
    "lr_discriminator": lambda config: config.task != "flow",
    # Each worker reads shards of its own, so their order follows the number of workers.
    "num_workers": lambda config: config.data.endswith(".tar"),
    "max_bad_steps": lambda config: config.on_nonfinite != "stop",
    "sync_batchnorm": lambda config: config.device != "cpu",
}
# What a key meant in runs of earlier releases that had another default for it, or had it not.
BEFORE: dict[str, Any] = {"ema_rampup": 0.0}
WHY = {"steps": ", where the cosine of the learning rate ends"}
NAMED = 3


class DriftError(CheckpointError, UsageError):
    """The run folder belongs to another experiment; trying again does not help."""


def differences(saved: dict[str, Any], config: Config) -> dict[str, tuple[Any, Any]]:
    """Keys with their saved and their present value, where they have an effect under either configuration."""
    old = saved_config(saved)
    before, present = asdict(old), asdict(config)
    found = {key: (before[key], value) for key, value in present.items() if before[key] != value}
    return {
        key: pair for key, pair in found.items() if key not in HAS_EFFECT or any(map(HAS_EFFECT[key], (old, config)))
    }


def saved_config(saved: dict[str, Any]) -> Config:
    """A checkpoint's, as it is; a key that it does not know had its default of that time."""
    names = {field.name for field in fields(Config)}
    return Config(**{key: value for key, value in {**BEFORE, **saved}.items() if key in names})


def as_begun(saved: dict[str, Any] | None, config: Config) -> Config:
    """With a ramp of the average where the configuration names none: that with which a resumed run began."""
    if config.ema_rampup >= 0.0:
        return config
    return replace(config, ema_rampup=average_ramp(saved_config(saved) if saved else config))


def check_drift(
    saved: dict[str, Any],
    config: Config,
    allowed: bool,
    data_before: dict[str, Any] | None = None,
    data_now: dict[str, Any] | None = None,
) -> str:
    """A line about what goes on differently, or ''; DriftError for another experiment that was not `allowed`.

    `data_before` and `data_now` are what census.py says of the data, none of a checkpoint that has not kept it.
    """
    found = differences(saved, config)
    for key in SHAPE_KEYS:
        if key in found:
            before, now = found[key]
            raise DriftError(
                f"{key}: the checkpoint was made with {before}, the configuration says {now}; choose a new run_dir"
            )
    # The largest batch that fits differs from card to card; the saved one is kept.
    other = {key for key in EXPERIMENT_KEYS if key in found and not (key == "batch_size" and config.auto_batch)}
    contents = data_differences(data_before, data_now) if data_before and data_now else []
    # The same files in another place.
    if data_before and data_before.get("files") and not contents:
        other.discard("data")
    named = [
        f"{key} was {found[key][0]!r} and is {found[key][1]!r}{WHY.get(key, '')}"
        for key in EXPERIMENT_KEYS
        if key in other
    ]
    if (named or contents) and not allowed:
        raise DriftError(
            f"run_dir: {config.run_dir} holds another experiment: {'; '.join(named + contents)}. Choose a new run_dir, "
            "restore the values, or continue all the same with --resume changed"
        )
    told = [f"{key} {before!r} -> {now!r}" for key, (before, now) in found.items() if key not in FREE_KEYS]
    return f"continues with {', '.join(told + contents)}" if told or contents else ""


def data_differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What has changed in the data: names of classes first, for each of them has learnt a number; then how many images
    there are, then which."""
    old, new = before.get("classes") or {}, now.get("classes") or {}
    lines = [
        f"class {number} was {one!r} and is {other!r}"
        for number, (one, other) in enumerate(zip(old, new))
        if one != other
    ]
    lines += [
        f"class {name!r} had {count} images and has {new[name]}"
        for name, count in old.items()
        if new.get(name, count) != count
    ]
    for what in ("images", "shards"):
        if before.get(what) != now.get(what):
            lines.append(f"the data had {before.get(what)} {what} and have {now.get(what)}")
    if not lines and before.get("files") != now.get("files"):
        lines.append("the data are as many files as before, and not the same ones")
    more = [f"{len(lines) - NAMED} more differences of the data"] if len(lines) > NAMED else []
    return lines[:NAMED] + more
