# SPDX-License-Identifier: Apache-2.0
"""A generative adversarial network: one update of the discriminator, one of the generator."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial, reduce
from typing import Callable

import torch
from torch import Tensor, nn

from ..config import Config
from ..models.adaptive import FAKE, LEARNING, REAL, Augmentation
from ..models.losses import (
    RELATIVISTIC,
    discriminator_loss,
    functional_gradient_penalty,
    generator_loss,
    gradient_penalty,
)
from ..models.networks import build
from ..models.penalties import Penalties
from ..precision import Precision
from .task import Batch, Losses, Part, Phase, Task


class Gan(Task):
    averaged = "generator"
    shown = ("d_loss", "g_loss", "penalty")
    rarely_shown = ("penalty",)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.penalties, self.augmentation = Penalties(config), Augmentation(config)

    def build(self) -> dict[str, nn.Module]:
        return build(self.config)._asdict()

    def phases(self) -> tuple[Phase, ...]:
        return (
            # The generator is not fixed: its images may serve its own update, too.
            Phase("discriminator", self.discriminate),
            Phase("generator", self.generate, fixed=("discriminator",)),
        )

    def draw(self, count: int, random: torch.Generator) -> Batch:
        drawn = {"noise": torch.randn((count, self.config.latent_dim), generator=random, device=random.device)}
        if self.augmentation.on:
            drawn["augment"] = self.augmentation.draw(count, random)
        return drawn

    def examples(self, batch: Batch) -> dict[str, tuple[Tensor, ...]]:
        labels = classes_of(batch)
        return {"generator": (batch["noise"], *labels), "discriminator": (batch["images"], *labels)}

    def rate(self, name: str) -> float:
        return self.config.lr_discriminator if name == "discriminator" else self.config.lr_generator

    def is_rare(self, step: int) -> bool:
        return self.penalties.due(step)

    def kinds(self) -> set[bool]:
        return self.penalties.kinds

    def start(self, networks: dict[str, nn.Module], run: dict[str, nn.Module], precision: Precision) -> None:
        super().start(networks, run, precision)
        self.penalties.start(networks["discriminator"], precision)
        self.augmentation.start(next(networks["discriminator"].parameters()).device)

    def state(self) -> dict[str, Tensor]:
        return self.augmentation.state() if self.augmentation.kind == "ada" else {}

    def figures(self) -> dict[str, float]:
        return {"augment": float(self.augmentation.strength)} if self.augmentation.kind == "ada" else {}

    def burn_in(self, done: float) -> None:
        self.penalties.raised = self.config.burn_in_gamma + (1.0 - self.config.burn_in_gamma) * done

    def after(self, step: int, mean_of_ranks: Callable[[Tensor], Tensor]) -> None:
        self.augmentation.settle(step, mean_of_ranks)

    def seen(self, part: Part, images: Tensor, which: int) -> Tensor:
        """Images as the discriminator sees them."""
        return self.augmentation.of(images, part.batch["augment"], which) if self.augmentation.on else images

    def discriminate(self, part: Part) -> Losses:
        """Its loss on real and generated images, and its weighted penalties R1 and R2 together."""
        labels = classes_of(part.batch)
        # One part: its fake images serve both updates. Several: holding all their graphs would undo the saving.
        with nullcontext() if part.whole else torch.no_grad():
            fake = self.run["generator"](part.batch["noise"], *labels)
        if part.whole:
            part.kept["fake"] = fake
        weights = [weight * self.penalties.raised if part.rare else 0.0 for weight in self.penalties.weights]
        # Where a penalty has a forward pass of its own, this one need not reach back to the pixels.
        sloped = [weight > 0 and self.penalties.share_logits for weight in weights]
        # Penalties are of the images as they are seen, so no second derivative goes through the augmentation.
        pair = (self.seen(part, part.batch["images"], REAL), self.seen(part, fake.detach(), FAKE))
        images = [batch.detach().requires_grad_(slope) for batch, slope in zip(pair, sloped)]
        logits = [self.run["discriminator"](batch, *labels) for batch in images]
        self.augmentation.note(logits[0])
        loss = discriminator_loss(self.config.loss, *logits)
        terms = [
            weight * self.penalties.of(*both, *labels) for weight, *both in zip(weights, images, logits) if weight > 0
        ]
        if not terms:
            return loss, {"d_loss": loss}
        penalty = reduce(torch.add, terms)
        return loss + penalty * self.penalties.every, {"d_loss": loss, "penalty": penalty}

    def generate(self, part: Part) -> Losses:
        """Only the generator learns from this, so the discriminator is called as it is."""
        labels = classes_of(part.batch)
        fake = part.kept["fake"] if part.whole else self.run["generator"](part.batch["noise"], *labels)
        discriminator = self.networks["discriminator"]
        logits: tuple[Tensor, ...] = (discriminator(self.seen(part, fake, LEARNING), *labels),)
        if self.config.loss == RELATIVISTIC:
            with torch.no_grad():
                logits += (discriminator(self.seen(part, part.batch["images"], REAL), *labels),)
        loss = generator_loss(self.config.loss, *logits)
        return loss, {"g_loss": loss}

    def compiled(self, names: set[str], batch: Batch, compile_more: Callable[..., tuple[Callable, str]]) -> list[str]:
        """The penalties differentiate twice, which compiled code refuses, so they are compiled in a form of their own,
        with the inner gradient traced (losses.py)."""
        if "discriminator" in names:
            self.penalties.share_logits = False
        if not self.penalties.wanted:
            return []
        plain = self.penalties.plain_discriminator

        def eager(images: Tensor, *labels: Tensor) -> Tensor:
            images = images.detach().requires_grad_(True)
            return gradient_penalty(plain(images, *labels), images)

        traceable = partial(functional_gradient_penalty, plain)
        inputs = (batch["images"], *classes_of(batch))
        network, precision = self.networks["discriminator"], self.penalties.precision
        found, line = compile_more("gradient penalty", network, eager, traceable, *inputs, precision=precision)
        self.penalties.compiled = None if found is eager else found
        return [line]


def classes_of(batch: Batch) -> tuple[Tensor, ...]:
    """What both networks are called with besides; generated images have the classes of the real ones beside them."""
    return (batch["labels"],) if "labels" in batch else ()
