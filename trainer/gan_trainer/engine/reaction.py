# SPDX-License-Identifier: Apache-2.0
"""How a run reacts to NaN and infinity: lower the learning rates, continue, or stop with a diagnosis."""

from __future__ import annotations

import torch

from ..precision import autocast
from .loop import Trainer
from .stability import TrainingError, diagnose


def react(trainer: Trainer) -> str:
    """React to what the trainer's Watch has seen since the last call; waits for the device.

    Returns '' or a line about what was done; raises TrainingError with a diagnosis.
    """
    config, watch, done = trainer.config, trainer.watch, trainer.steps_done
    bad_steps, good_before, _ = watch.counts.tolist()
    bad, minus_good = trainer.ranks.largest(torch.tensor([bad_steps, -good_before])).tolist()
    first, steps = trainer.steps_at_restart - minus_good + 1, done - trainer.steps_at_restart
    scale = trainer.scaler.get_scale()
    if trainer.scaler.is_enabled() and scale < 1.0:
        raise TrainingError(
            f"loss scale fell to {scale:g} by step {done}: float16 gradients overflow in nearly every "
            f"step. {diagnosis(trainer)}. Lower the learning rates, or train with precision=fp32"
        )
    if not bad:
        return ""
    trainer.bad_steps += bad
    watch.forget_bad_steps(steps)
    what = (
        f"loss or gradients not finite: first in step {first}, noticed in step {done}, "
        f"{trainer.precision.name}, {bad} of {steps} steps"
    )
    if config.on_nonfinite == "stop" or trainer.bad_steps > config.max_bad_steps:
        raise TrainingError(
            f"{what}; their updates were left out. {diagnosis(trainer)}. Nothing of this was saved. Lower "
            "lr_discriminator and lr_generator, or batch_size, with which they grow; precision=fp32 tells overflow "
            "from divergence"
        )
    if config.on_nonfinite == "lower_lr":
        trainer.lr_cut /= 2
        return f"{what}; their updates were left out, learning rates now times {trainer.lr_cut:g}"
    return f"{what}; their updates were left out"


def diagnosis(trainer: Trainer) -> str:
    """Where numbers go wrong in the last batch."""
    if trainer.last_batch is None:
        return "no step was made"
    with autocast(trainer.precision, trainer.device.type):
        batch = trainer.last_batch
        return diagnose(trainer.networks, batch, trainer.task.examples(batch))
