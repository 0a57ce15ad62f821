# SPDX-License-Identifier: Apache-2.0
"""Flow matching (Lipman et al. 2023; straight paths: Liu et al. 2023): one network learns the velocity from noise to an
image, and an image is drawn by following it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from ..models.velocity import VelocityNetwork
from .task import Batch, Losses, Part, Phase, Task


class Flow(Task):
    averaged = "velocity"

    def build(self) -> dict[str, nn.Module]:
        return {"velocity": VelocityNetwork(self.config.image_size, self.config.channels)}

    def phases(self) -> tuple[Phase, ...]:
        return (Phase("velocity", self.match),)

    def noise_shape(self) -> tuple[int, ...]:
        return (3, self.config.image_size, self.config.image_size)

    def draw(self, count: int, random: torch.Generator) -> Batch:
        noise = torch.randn((count, *self.noise_shape()), generator=random, device=random.device)
        return {"noise": noise, "time": torch.rand(count, generator=random, device=random.device)}

    def examples(self, batch: Batch) -> dict[str, tuple[Tensor, ...]]:
        return {"velocity": (batch["images"], batch["time"])}

    def match(self, part: Part) -> Losses:
        """The velocity of a straight path from noise (time 0) to the image (time 1) is their difference."""
        images, noise, time = (part.batch[name] for name in ("images", "noise", "time"))
        along = time[:, None, None, None]
        found = self.run["velocity"](noise + along * (images - noise), time)
        loss = mse_loss(found.float(), images - noise)
        return loss, {"loss": loss}

    def sampler(self, network: nn.Module) -> nn.Module:
        return Path(network, self.config.flow_steps)


class Path(nn.Module):
    """Noise (N, 3, S, S) to images, by `steps` steps of the midpoint method."""

    def __init__(self, velocity: nn.Module, steps: int) -> None:
        super().__init__()
        self.velocity, self.steps = velocity, steps

    def forward(self, noise: Tensor) -> Tensor:
        images = noise
        for number in range(self.steps):
            begin, middle = (images.new_full((1,), (number + half) / self.steps) for half in (0.0, 0.5))
            between = images + self.velocity(images, begin) / (2 * self.steps)
            images = images + self.velocity(between, middle) / self.steps
        return images
