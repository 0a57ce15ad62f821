# SPDX-License-Identifier: Apache-2.0
"""The obvious first loop: float32 batches made on the CPU, every setting at its default, losses read each step.

It trains the same networks with the same losses, optimizer and average as loop.py (without penalties), so that the
ladder compares speed only.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from ..config import Config
from ..engine.schedule import average_decay, learning_rate
from ..models.losses import discriminator_loss, generator_loss
from ..models.networks import build, update_average
from ..precision import Precision, set_tf32


class NewcomersLoop:
    """`step(images)` on uint8 images (N, 3, S, S) of the host.

    read_losses  wait for the device and read three values in every step, as progress lines do
    float_on_host  divide into float32 before the copy, as ToTensor and Normalize do: four times the bytes
    tf32  leave TensorFloat-32 as PyTorch ships it; else float32 is float32
    """

    def __init__(
        self, config: Config, device: torch.device, read_losses: bool, float_on_host: bool, tf32: bool = False
    ) -> None:
        torch.manual_seed(config.seed)
        self.config, self.device = config, device
        self.read_losses, self.float_on_host = read_losses, float_on_host
        set_tf32(Precision("fp32", "the plain loop"))
        if tf32:
            torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = False
        self.generator, self.discriminator = (network.to(device) for network in build(config))
        self.average = copy.deepcopy(self.generator).eval().requires_grad_(False)
        betas, first = (config.beta1, config.beta2), config.warmup_steps + 1
        rates = [learning_rate(config, base, first) for base in (config.lr_generator, config.lr_discriminator)]
        self.g_optimizer = torch.optim.Adam(self.generator.parameters(), rates[0], betas)
        self.d_optimizer = torch.optim.Adam(self.discriminator.parameters(), rates[1], betas)
        self.noise = torch.Generator(device).manual_seed(config.seed)
        self.losses = torch.zeros(2)
        self.steps_done = 0

    def step(self, images: Tensor) -> None:
        if self.float_on_host:
            real = images.to(torch.float32).div(127.5).sub(1.0).to(self.device)
        else:
            real = images.to(self.device).to(torch.float32).div(127.5).sub(1.0)
        noise = torch.randn((len(real), self.config.latent_dim), generator=self.noise, device=self.device)
        fake = self.generator(noise)

        self.d_optimizer.zero_grad()
        logits = self.discriminator(real), self.discriminator(fake.detach())
        d_loss = discriminator_loss(self.config.loss, *logits)
        d_loss.backward()
        self.d_optimizer.step()

        # The next zero_grad discards the gradients that this leaves in the discriminator.
        self.g_optimizer.zero_grad()
        g_loss = generator_loss(self.config.loss, self.discriminator(fake))
        g_loss.backward()
        self.g_optimizer.step()

        self.steps_done += 1
        update_average(self.average, self.generator, average_decay(self.config, self.steps_done))
        if self.read_losses:
            self.read = d_loss.item(), g_loss.item(), logits[0].mean().item()
        self.losses = torch.stack((d_loss.detach(), g_loss.detach()))
