# SPDX-License-Identifier: Apache-2.0
"""The training: `Trainer.step` is the method, `train` the run around it."""

from __future__ import annotations

import copy
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .checkpoint import CheckpointError, list_checkpoints, load_checkpoint, save_checkpoint
from .config import Config
from .data import open_loader
from .errors import UserError
from .losses import discriminator_loss, generator_loss
from .networks import Discriminator, Generator, update_average
from .precision import Precision, autocast, choose_precision, make_scaler
from .run_folder import RunFolder, StopSignal

# What the shape of the saved tensors depends on.
SHAPE_KEYS = ("image_size", "latent_dim", "channels")


class TrainingError(UserError):
    """The training went wrong; the text is a diagnosis."""


class Trainer:
    """Networks, optimizers and everything else that a training step changes."""

    def __init__(self, config: Config, device: torch.device, precision: Precision) -> None:
        torch.manual_seed(config.seed)
        self.config, self.device, self.precision = config, device, precision
        on_gpu = device.type == "cuda"
        self.layout = torch.channels_last if config.channels_last and on_gpu else torch.contiguous_format
        self.generator = Generator(config.image_size, config.latent_dim, config.channels)
        self.discriminator = Discriminator(config.image_size, config.channels)
        for network in (self.generator, self.discriminator):
            network.to(device=device, memory_format=self.layout)
        self.average = copy.deepcopy(self.generator).eval().requires_grad_(False)
        # The fused optimizer is one kernel, and it reads GradScaler's verdict on the GPU instead of waiting for it.
        adam = partial(torch.optim.Adam, betas=(config.beta1, config.beta2), fused=on_gpu)
        self.generator_optimizer = adam(self.generator.parameters(), config.lr_generator)
        self.discriminator_optimizer = adam(self.discriminator.parameters(), config.lr_discriminator)
        self.scaler = make_scaler(precision)
        self.noise = torch.Generator(device).manual_seed(config.seed)
        self.steps_done = self.steps_summed = 0
        self.losses = torch.zeros(2, device=device)
        self.loss_sums = torch.zeros(2, device=device)
        self.first_bad_step = torch.zeros((), dtype=torch.int64, device=device)

    def step(self, images: Tensor) -> None:
        """One discriminator and one generator update on uint8 images (N, 3, S, S); waits for nothing on the GPU."""
        self.steps_done += 1
        pixels = images.to(self.device, non_blocking=True)
        real = pixels.to(torch.float32, memory_format=self.layout).div_(127.5).sub_(1.0)
        noise = torch.randn(len(real), self.config.latent_dim, generator=self.noise, device=self.device)

        with autocast(self.precision, self.device.type):
            fake = self.generator(noise)
            d_loss = discriminator_loss(self.config.loss, self.discriminator(real), self.discriminator(fake.detach()))
        self.update(self.discriminator_optimizer, d_loss)

        # The same fake images; only the generator learns from them, so the discriminator needs no gradients of its own.
        self.discriminator.requires_grad_(False)
        with autocast(self.precision, self.device.type):
            g_loss = generator_loss(self.config.loss, self.discriminator(fake))
        self.update(self.generator_optimizer, g_loss)
        self.discriminator.requires_grad_(True)

        self.scaler.update()
        update_average(self.average, self.generator, self.config.ema_decay)
        self.watch(d_loss.detach(), g_loss.detach())

    def update(self, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        """Backward and optimizer step; with fp16 the scaler skips the step when a gradient overflowed."""
        optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(optimizer)

    def watch(self, d_loss: Tensor, g_loss: Tensor) -> None:
        """Note every step's losses on the device, so that none goes unseen and none is waited for."""
        self.losses = torch.stack((d_loss, g_loss))
        self.loss_sums += self.losses
        self.steps_summed += 1
        bad = ~torch.isfinite(self.losses).all() & (self.first_bad_step == 0)
        self.first_bad_step = torch.where(bad, self.steps_done, self.first_bad_step)

    def check(self) -> None:
        """Raise TrainingError if any step so far had a loss that is no number, or fp16 has run out of range."""
        bad_step = int(self.first_bad_step)
        if bad_step:
            networks = {"generator": self.generator, "discriminator": self.discriminator}
            broken = [name for name, network in networks.items() if not is_finite(network)]
            raise TrainingError(
                f"loss not finite: first in step {bad_step}, noticed in step {self.steps_done}, {self.precision.name}; "
                f"parameters not finite: {' and '.join(broken) or 'none'}. Nothing of this was saved. "
                "Lower lr_discriminator and lr_generator, or try precision=fp32 to tell overflow from divergence"
            )
        if self.scaler.is_enabled() and self.scaler.get_scale() < 1.0:
            raise TrainingError(
                f"loss scale fell to {self.scaler.get_scale():g} by step {self.steps_done}: float16 gradients overflow "
                "in nearly every step. Lower the learning rates, or train with precision=fp32"
            )

    def statistics(self) -> dict[str, Any]:
        """Mean losses since the last call, loss scale, and the GPU memory's peak in MiB (None on a CPU)."""
        d_loss, g_loss = (self.loss_sums / max(1, self.steps_summed)).tolist()
        self.loss_sums.zero_()
        self.steps_summed = 0
        on_gpu = self.device.type == "cuda"
        return {
            "step": self.steps_done,
            "d_loss": d_loss,
            "g_loss": g_loss,
            "loss_scale": self.scaler.get_scale(),
            "peak_memory_mib": torch.cuda.max_memory_allocated(self.device) >> 20 if on_gpu else None,
        }

    def parts(self) -> dict[str, Any]:
        """What has a state_dict."""
        names = ("generator", "discriminator", "average", "generator_optimizer", "discriminator_optimizer", "scaler")
        return {name: getattr(self, name) for name in names}

    def state(self) -> dict[str, Any]:
        """Everything that the next step depends on, as tensors and plain values."""
        state = {name: part.state_dict() for name, part in self.parts().items()}
        state.update(loss_sums=self.loss_sums, steps_summed=self.steps_summed, noise=self.noise.get_state())
        state.update(step=self.steps_done, config=asdict(self.config))
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state`; learning rates and betas follow the present configuration. Raises CheckpointError."""
        for key in SHAPE_KEYS:
            saved, wanted = state["config"][key], getattr(self.config, key)
            if saved != wanted:
                raise CheckpointError(f"{key}: the checkpoint was made with {saved}, the configuration says {wanted}")
        for name, part in self.parts().items():
            saved = state[name]
            for group, present in zip(saved.get("param_groups", ()), getattr(part, "param_groups", ())):
                group.update({key: present[key] for key in ("lr", "betas", "fused")})
            # A scaler that is off saves an empty state, and one that is on refuses it.
            if name != "scaler" or (saved and part.is_enabled()):
                part.load_state_dict(saved)
        self.noise.set_state(state["noise"])
        self.loss_sums.copy_(state["loss_sums"])
        self.steps_done, self.steps_summed = state["step"], state["steps_summed"]


def is_finite(network: torch.nn.Module) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in network.parameters())


def choose_device(wanted: str) -> torch.device:
    """The device of the configuration; TrainingError rather than a silent CPU when a GPU was demanded."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise TrainingError(f"device: cuda was demanded, but torch {torch.__version__} finds no usable GPU")
    return torch.device("cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu")


def train(config: Config, resume: str = "auto") -> None:
    """Run `config` to its last step, or until SIGTERM or SIGUSR1; the same call starts and resumes."""
    device = choose_device(config.device)
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else None
    precision = choose_precision(config.precision, capability)
    # Image size and batch never change, so cuDNN's search for the fastest kernels pays.
    torch.backends.cudnn.benchmark = True
    trainer = Trainer(config, device, precision)
    folder = Path(config.run_dir)
    with RunFolder(folder, config) as run:
        if resume == "never" and list_checkpoints(folder):
            raise CheckpointError(f"run_dir: {folder} holds checkpoints; choose a new folder to start anew")
        state = load_checkpoint(folder)
        if state:
            trainer.restore(state)
        run.begin(trainer.steps_done)
        if trainer.steps_done >= config.steps:
            print(f"train-gan: {folder} already holds step {trainer.steps_done} of {config.steps}", flush=True)
            return
        verb = f"resumes after step {trainer.steps_done}" if state else "starts"
        print(f"train-gan: {verb} on {device}, {precision.name}: {precision.because}", flush=True)
        stop = StopSignal()
        with open_loader(config, trainer.steps_done, pin_memory=device.type == "cuda") as batches:
            for images in batches:
                trainer.step(images)
                step = trainer.steps_done
                last = stop.asked or step == config.steps
                if last or step % config.log_every == 0:
                    trainer.check()
                    run.log(trainer.statistics())
                if last or step % config.checkpoint_every == 0:
                    trainer.check()
                    save_checkpoint(folder, step, trainer.state(), config.keep_checkpoints)
                if last:
                    break
