# SPDX-License-Identifier: Apache-2.0
"""How strongly what the discriminator sees is augmented: not at all, always, or as far as it overfits."""

from __future__ import annotations

from typing import Callable

import torch
from torch import Tensor

from ..config import Config
from .augment import NUMBERS, ada_augment, diff_augment

# Steps between two looks at the signs, as in the paper.
EVERY = 4
# Real images; generated ones for the discriminator's update; those for the generator's.
REAL, FAKE, LEARNING = range(3)


class Augmentation:
    """`augment` of the configuration.

    ada measures the mean sign of the discriminator's outputs for real images: 0 where it cannot tell, 1 where it knows
    all of them. Above `augment_target` the strength grows, below it falls (Karras et al. 2020, section 3).
    """

    def __init__(self, config: Config) -> None:
        self.kind, self.target = config.augment, config.augment_target
        self.by = EVERY * config.batch_size / config.augment_images
        self.strength, self.signs, self.seen = (torch.zeros(()) for _ in range(3))

    @property
    def on(self) -> bool:
        return self.kind != "none"

    def start(self, device: torch.device) -> None:
        self.strength, self.signs, self.seen = (tensor.to(device) for tensor in self.state().values())

    def state(self) -> dict[str, Tensor]:
        return {"strength": self.strength, "signs": self.signs, "seen": self.seen}

    def draw(self, count: int, random: torch.Generator) -> Tensor:
        """Numbers for the images of a step, (count, 3, NUMBERS)."""
        return torch.rand((count, 3, NUMBERS), generator=random, device=random.device)

    def of(self, images: Tensor, numbers: Tensor, which: int) -> Tensor:
        """The images as the discriminator sees them; `numbers` are those of the step."""
        if self.kind == "diff":
            return diff_augment(images, numbers[:, which])
        return ada_augment(images, numbers[:, which], self.strength) if self.on else images

    def note(self, real_logits: Tensor) -> None:
        """The discriminator's outputs for the real images of a part; on the device."""
        if self.kind == "ada":
            # A step that went wrong teaches nothing.
            self.signs.add_(real_logits.detach().float().sign().nan_to_num().mean())
            self.seen.add_(1)

    def settle(self, step: int, mean_of_ranks: Callable[[Tensor], Tensor]) -> None:
        """After a step: now and then, a new strength."""
        if self.kind == "ada" and step % EVERY == 0:
            sign = mean_of_ranks(self.signs / self.seen.clamp_min(1.0))
            self.strength.add_((sign - self.target).sign() * self.by).clamp_(0.0, 1.0)
            self.signs.zero_()
            self.seen.zero_()
