# SPDX-License-Identifier: Apache-2.0
"""Learning rate and decay of the average as functions of batch and step; nothing to save, so nothing to restore."""

from __future__ import annotations

import math

from ..config import Config, average_ramp

# The batch for which lr_generator and lr_discriminator are meant.
BASE_BATCH = 32


def scale_to_batch(config: Config, base: float) -> float:
    """The rate for this batch, at most lr_limit unless `base` itself is higher.

    Linear (Goyal et al. 2017): twice the batch, half the updates, twice the rate; with Adam that ends far below the
    batches that a GPU can hold. Square root: what Adam's own scale suggests (Malladi et al. 2022).
    """
    by = config.batch_size / BASE_BATCH
    scaled = base * {"linear": by, "sqrt": math.sqrt(by), "none": 1.0}[config.lr_scaling]
    return min(scaled, max(base, config.lr_limit))


def warm_up(config: Config, step: int) -> float:
    """Rises from 1 / warmup_steps in the first step to 1; 1 without a warm-up. Steps count from 1."""
    return min(1.0, step / config.warmup_steps) if config.warmup_steps else 1.0


def decay(config: Config, step: int) -> float:
    """1, or half a cosine wave from 1 after the warm-up to lr_floor in the last step (Loshchilov and Hutter 2017)."""
    if config.lr_schedule == "constant" or step <= config.warmup_steps:
        return 1.0
    done = min(1.0, (step - config.warmup_steps) / (config.steps - config.warmup_steps))
    return config.lr_floor + (1.0 - config.lr_floor) * (1.0 + math.cos(math.pi * done)) / 2.0


def burn_in(config: Config, step: int) -> float:
    """How much of the burn-in is done before `step`: half a cosine wave from 0 to 1; 1 without one."""
    if step > config.burn_in_steps:
        return 1.0
    return (1.0 - math.cos(math.pi * (step - 1) / config.burn_in_steps)) / 2.0


def learning_rate(config: Config, base: float, step: int) -> float:
    """The learning rate of `step` that follows from lr_generator or lr_discriminator, `base`."""
    raised = config.burn_in_lr + (1.0 - config.burn_in_lr) * burn_in(config, step)
    return scale_to_batch(config, base) * warm_up(config, step) * decay(config, step) * raised


def second_beta(config: Config, step: int) -> float:
    """Adam's beta2 in `step`."""
    return config.burn_in_beta2 + (config.beta2 - config.burn_in_beta2) * burn_in(config, step)


def average_decay(config: Config, step: int) -> float:
    """Decay of the average in `step`: with a ramp, its half-life is at most that part of the steps so far."""
    longest = config.ema_decay
    done = burn_in(config, step)
    if done < 1.0 and longest:
        # The half-life grows with the burn-in; in its first step the average is the network itself.
        longest = longest ** (1.0 / done) if done else 0.0
    ramp = average_ramp(config)
    return min(longest, 0.5 ** (1.0 / (ramp * step))) if ramp else longest
