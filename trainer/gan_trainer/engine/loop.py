# SPDX-License-Identifier: Apache-2.0
"""`Trainer.step` is the method: one update of the discriminator, one of the generator, one of its average."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import Any, Callable

import torch
from torch import Tensor, nn

from ..config import Config
from ..data.prefetch import normalise
from ..models.losses import RELATIVISTIC, discriminator_loss, generator_loss
from ..models.networks import build, update_average
from ..models.penalties import Penalties
from ..parallel.distributed import ALONE, Ranks, data_parallel, gradients_stay_local
from ..precision import Precision, autocast, make_scaler, set_tf32
from .memory import MemoryReport, read_memory
from .optimizers import gradient_norm, guarded_step, make_adam, set_learning_rate
from .running_statistics import RunningStatistics
from .schedule import average_decay, learning_rate
from .stability import Watch


class Trainer:
    """Networks, optimizers and everything else that a training step changes."""

    def __init__(self, config: Config, device: torch.device, precision: Precision, ranks: Ranks = ALONE) -> None:
        torch.manual_seed(config.seed)
        self.config, self.device, self.precision, self.ranks = config, device, precision, ranks
        self.on_gpu = device.type == "cuda"
        set_tf32(precision)
        # Sizes never change, so cuDNN's search for the fastest kernels pays.
        torch.backends.cudnn.benchmark = config.cudnn_benchmark
        self.layout = torch.channels_last if config.channels_last and self.on_gpu else torch.contiguous_format
        self.generator, self.discriminator = (self.place(network) for network in build(config))
        self.average = copy.deepcopy(self.generator).eval().requires_grad_(False)
        self.statistics_kept = [RunningStatistics(network) for network in (self.generator, self.discriminator)]
        # Calls go through these: DistributedDataParallel around the networks, or the networks themselves.
        self.run_generator = data_parallel(self.generator, ranks)
        self.run_discriminator = data_parallel(self.discriminator, ranks)
        self.penalties = Penalties(self.discriminator, config, precision)
        self.generator_optimizer = make_adam(self.generator, config.lr_generator, config)
        self.discriminator_optimizer = make_adam(self.discriminator, config.lr_discriminator, config)
        self.scaler = make_scaler(precision)
        self.noise = torch.Generator(device).manual_seed(config.seed)
        self.update: Callable[[Tensor, Tensor, bool], None] = self.update_networks
        self.watch, self.memory = Watch(device), MemoryReport(device)
        self.steps_done, self.steps_at_restart, self.bad_steps, self.lr_cut = 0, 0, 0, 1.0
        self.last_batch: tuple[Tensor, Tensor] | None = None
        self.memory.note("networks")

    def place(self, network: nn.Module) -> nn.Module:
        if self.on_gpu and self.ranks.world > 1 and self.config.sync_batchnorm:
            network = nn.SyncBatchNorm.convert_sync_batchnorm(network)
        return network.to(device=self.device, memory_format=self.layout)

    @property
    def losses(self) -> Tensor:
        """(2,) on the device: the last step's losses of discriminator and generator, without penalties."""
        return self.watch.losses[:2]

    def step(self, images: Tensor) -> None:
        """One step on this rank's part of a batch; waits for nothing on a GPU.

        `images`: uint8 (N, 3, S, S) from anywhere, or float32 in [-1, 1] on the device, as a Prefetcher makes them.
        """
        self.steps_done += 1
        for optimizer, base in self.optimizers():
            set_learning_rate(optimizer, learning_rate(self.config, base, self.steps_done) * self.lr_cut)
        real = normalise(images, self.device, self.layout) if images.dtype == torch.uint8 else images
        # Noise for the whole batch, of which this rank takes its part: the images do not depend on the number of GPUs.
        shape = (len(real) * self.ranks.world, self.config.latent_dim)
        noise = self.ranks.part(torch.randn(shape, generator=self.noise, device=self.device))
        if self.config.flip:
            chosen = torch.rand(shape[0], generator=self.noise, device=self.device) < 0.5
            real = mirrored(real, self.ranks.part(chosen))
        self.last_batch = real, noise
        self.update(real, noise, self.penalties.due(self.steps_done))
        # Not in a recorded graph: the decay may follow the step.
        update_average(self.average, self.generator, average_decay(self.config, self.steps_done))

    def optimizers(self) -> tuple[tuple[torch.optim.Optimizer, float], ...]:
        """Each with its base learning rate."""
        config = self.config
        return (
            (self.generator_optimizer, config.lr_generator),
            (self.discriminator_optimizer, config.lr_discriminator),
        )

    def update_networks(self, real: Tensor, noise: Tensor, penalise: bool) -> None:
        """The step on the device. Gradients of `accumulate` parts are summed before each update."""
        note = self.memory.note if self.steps_done == 1 else lambda phase: None
        parts = list(zip(real.chunk(self.config.accumulate), noise.chunk(self.config.accumulate)))
        last, several = len(parts) - 1, len(parts) > 1
        # One part: its fake images serve both updates. Several: holding all their graphs would undo the saving.
        kept: Tensor | None = None
        d_losses, g_losses, penalties = [], [], []

        self.discriminator_optimizer.zero_grad(set_to_none=True)
        for number, (images, latents) in enumerate(parts):
            with autocast(self.precision, self.device.type), torch.no_grad() if several else nullcontext():
                fake = self.run_generator(latents)
            kept = None if several else fake
            with gradients_stay_local(self.run_discriminator, number < last):
                loss, penalty = self.judge(images, fake.detach(), penalise)
                total = loss if penalty is None else loss + penalty * self.penalties.every
                self.scaler.scale(total / len(parts) if several else total).backward()
            d_losses.append(loss.detach())
            penalties += [] if penalty is None else [penalty.detach()]
        note("discriminator")
        self.apply(self.discriminator_optimizer, self.discriminator)

        # Only the generator learns from this, so the discriminator needs no gradients of its own.
        self.discriminator.requires_grad_(False)
        self.generator_optimizer.zero_grad(set_to_none=True)
        for number, (images, latents) in enumerate(parts):
            with gradients_stay_local(self.run_generator, number < last):
                with autocast(self.precision, self.device.type):
                    fake = self.run_generator(latents) if kept is None else kept
                    logits = (self.discriminator(fake),)
                    if self.config.loss == RELATIVISTIC:
                        with torch.no_grad():
                            logits += (self.discriminator(images),)
                    loss = generator_loss(self.config.loss, *logits)
                self.scaler.scale(loss / len(parts) if several else loss).backward()
            g_losses.append(loss.detach())
        note("generator")
        self.apply(self.generator_optimizer, self.generator)
        self.discriminator.requires_grad_(True)

        self.scaler.update()
        good = self.watch.step(mean(d_losses), mean(g_losses), mean(penalties) if penalties else None)
        for statistics in self.statistics_kept:
            statistics.settle(good)
        note("update")

    def judge(self, real: Tensor, fake: Tensor, penalise: bool) -> tuple[Tensor, Tensor | None]:
        """The discriminator's loss, and its weighted penalties R1 and R2 together (None where there are none)."""
        weights = self.penalties.weights if penalise else (0.0, 0.0)
        # Where a penalty has a forward pass of its own, this one need not reach back to the pixels.
        sloped = [weight > 0 and self.penalties.share_logits for weight in weights]
        images = [batch.detach().requires_grad_(slope) for batch, slope in zip((real, fake), sloped)]
        with autocast(self.precision, self.device.type):
            logits = [self.run_discriminator(batch) for batch in images]
            loss = discriminator_loss(self.config.loss, *logits)
        terms = [weight * self.penalties.of(*pair) for weight, *pair in zip(weights, images, logits) if weight > 0]
        return loss, sum(terms) if terms else None

    def apply(self, optimizer: torch.optim.Optimizer, network: nn.Module) -> None:
        """Clip, then update; left out when a gradient is not finite. In fp16 that is the scaler's business, and no
        fault: it lowers its scale and goes on."""
        parameters = list(network.parameters())
        if self.scaler.is_enabled():
            if self.config.clip_grad_norm:
                self.scaler.unscale_(optimizer)
                gradient_norm(parameters, self.config.clip_grad_norm)
            self.scaler.step(optimizer)
        else:
            finite = torch.isfinite(gradient_norm(parameters, self.config.clip_grad_norm))
            self.watch.gradients(finite)
            guarded_step(optimizer, finite)

    def statistics(self) -> dict[str, Any]:
        """Means since the last call, and the present learning rates, loss scale and peak memory in MiB (of a GPU)."""
        means = self.watch.means(self.steps_done - self.steps_at_restart)
        d_loss, g_loss, penalty = self.ranks.mean(torch.tensor(means, dtype=torch.float64)).tolist()
        rates = [float(optimizer.param_groups[0]["lr"]) for optimizer, _ in self.optimizers()]
        skipped = int(self.watch.counts[2])
        self.watch.restart()
        self.steps_at_restart = self.steps_done
        return {
            "step": self.steps_done,
            "d_loss": d_loss,
            "g_loss": g_loss,
            "penalty": penalty,
            "lr_generator": rates[0],
            "lr_discriminator": rates[1],
            "loss_scale": self.scaler.get_scale(),
            "updates_left_out": skipped,
            "peak_memory_mib": read_memory(self.device).peak >> 20 if self.on_gpu else None,
        }

    def parts(self) -> dict[str, Any]:
        """What has a state_dict."""
        names = ("generator", "discriminator", "average", "generator_optimizer", "discriminator_optimizer", "scaler")
        return {name: getattr(self, name) for name in names}


def mirrored(images: Tensor, chosen: Tensor) -> Tensor:
    """Images (N, 3, S, S) of which the `chosen` (N, bool) are turned left to right."""
    return torch.where(chosen[:, None, None, None], images.flip(3), images)


def mean(values: list[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else torch.stack(values).mean()
