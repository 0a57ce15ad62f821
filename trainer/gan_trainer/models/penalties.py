# SPDX-License-Identifier: Apache-2.0
"""Gradient penalties made cheap: lazy, from logits that are there already, compiled; beside float16 in float32."""

from __future__ import annotations

from typing import Callable

from torch import Tensor, nn

from ..config import Config
from ..precision import Precision, autocast
from .losses import gradient_penalty


class Penalties:
    """R1 and R2 of one discriminator, computed in every `penalty_every`-th step and weighted by that number."""

    def __init__(self, config: Config) -> None:
        # Of R1, on real images, and of R2, on generated ones; 0 is none.
        self.weights = (config.r1_gamma, config.r2_gamma)
        self.every = config.penalty_every
        # Times the weights, during a burn-in.
        self.raised = 1.0
        self.compiled: Callable[..., Tensor] | None = None

    def start(self, discriminator: nn.Module, precision: Precision) -> None:
        """The discriminator is on its device, and the precision of the training is known."""
        # In float16 a gradient with respect to pixels would vanish, so the penalties get a float32 pass of their own.
        self.precision = Precision("fp32", "penalties") if precision.name == "fp16" else precision
        self.share_logits = precision.name != "fp16"
        # As it is before torch.compile: the penalties differentiate twice, which a compiled forward pass cannot.
        self.plain_discriminator: Callable[..., Tensor] = discriminator.forward

    @property
    def wanted(self) -> bool:
        return max(self.weights) > 0

    @property
    def kinds(self) -> set[bool]:
        """What `due` answers in the course of a run."""
        if not self.wanted:
            return {False}
        return {True} if self.every == 1 else {False, True}

    def due(self, step: int) -> bool:
        """Whether this step (from 1) has penalties."""
        return self.wanted and step % self.every == 0

    def of(self, images: Tensor, logits: Tensor, *labels: Tensor) -> Tensor:
        """The unweighted penalty of `images` (N, 3, S, S), a scalar that can be differentiated again.

        `logits` (N,) are the discriminator's for them; where they are shared, `images` must require gradients.
        """
        with autocast(self.precision, images.device.type):
            if self.compiled:
                return self.compiled(images, *labels)
            if not self.share_logits:
                images = images.detach().requires_grad_(True)
                logits = self.plain_discriminator(images, *labels)
            return gradient_penalty(logits, images)
