"""The same GAN training written in several ways: same networks, losses, optimizer, batches and noise.

Each arm is `arm(config, device, batches, steps) -> Outcome`; it trains steps[0] steps to warm up and times steps[1]
more. Nothing but the way of writing differs, so the losses of all arms must agree; where they do not, the benches
refuse to compare.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle, islice
from typing import Any, NamedTuple

import torch
from gan_trainer.bench import timing
from gan_trainer.bench.newcomer import NewcomersLoop
from gan_trainer.bench.training import make_trainer
from gan_trainer.config import Config
from gan_trainer.data.prefetch import normalise
from gan_trainer.engine.schedule import learning_rate
from gan_trainer.models.losses import discriminator_loss, generator_loss
from gan_trainer.models.networks import build, update_average
from gan_trainer.precision import Precision, autocast, choose_precision, make_scaler, set_tf32
from torch import Tensor

Steps = tuple[int, int]


class NotAsNamed(RuntimeError):
    """An arm would be eager mode under another name; the text says of what."""


class Outcome(NamedTuple):
    """Seconds of one timed step, losses (steps, 2) of all steps, and the peak of the GPU's memory in MiB."""

    step_s: float
    losses: Tensor
    peak_memory_mib: int | None


class Parts:
    """Networks, average, optimizers and noise, made alike in every arm; `tuned` as someone who knows PyTorch would."""

    def __init__(self, config: Config, device: torch.device, tuned: bool) -> None:
        torch.manual_seed(config.seed)
        self.config, self.device = config, device
        on_gpu = device.type == "cuda"
        capability = torch.cuda.get_device_capability(device) if on_gpu else None
        self.precision = choose_precision(config.precision, capability) if tuned else Precision("fp32", "plain")
        set_tf32(self.precision)
        torch.backends.cudnn.benchmark = tuned
        self.layout = torch.channels_last if tuned and on_gpu else torch.contiguous_format
        self.generator, self.discriminator = (net.to(device, memory_format=self.layout) for net in build(config))
        self.average = copy.deepcopy(self.generator).eval().requires_grad_(False)
        first = config.warmup_steps + 1
        rates = [learning_rate(config, base, first) for base in (config.lr_generator, config.lr_discriminator)]
        options: dict[str, Any] = {"betas": (config.beta1, config.beta2), "fused": (tuned and on_gpu) or None}
        self.g_optimizer = torch.optim.Adam(self.generator.parameters(), rates[0], **options)
        self.d_optimizer = torch.optim.Adam(self.discriminator.parameters(), rates[1], **options)
        self.scaler = make_scaler(self.precision)
        self.random = torch.Generator(device).manual_seed(config.seed)

    def noise(self, count: int) -> Tensor:
        return torch.randn((count, self.config.latent_dim), generator=self.random, device=self.device)

    def autocast(self) -> Any:
        return autocast(self.precision, self.device.type)


def repeat(batches: list[Tensor], count: int) -> Iterator[Tensor]:
    return islice(cycle(batches), count)


def clocked(step: Callable[[Tensor], Tensor], batches: list[Tensor], steps: Steps, device: torch.device) -> Outcome:
    """Run `step`, which returns losses (2,) on the device, and time it after the warm-up."""
    losses, start = [], 0.0
    for number, images in enumerate(repeat(batches, sum(steps))):
        if number == steps[0]:
            reset(device)
            start = timing.clock()
        losses.append(step(images))
    return outcome(start, losses, steps, device)


def reset(device: torch.device) -> None:
    timing.synchronise(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def outcome(start: float, losses: list[Tensor], steps: Steps, device: torch.device) -> Outcome:
    timing.synchronise(device)
    seconds = (timing.clock() - start) / steps[1]
    peak = torch.cuda.max_memory_allocated(device) >> 20 if device.type == "cuda" else None
    return Outcome(seconds, torch.stack([pair.float().cpu() for pair in losses]), peak)


# -- ours


class TrainerStep:
    """The trainer's own step; `made` is the trainer, which knows what of it runs as asked."""

    def __init__(self, config: Config, device: torch.device) -> None:
        self.made = make_trainer(config, device)

    def __call__(self, images: Tensor) -> Tensor:
        """Losses (2,) of uint8 images (N, 3, H, W)."""
        self.made.step(images)
        return self.made.losses.clone()


def trainer(config: Config, device: torch.device, batches: list[Tensor], steps: Steps) -> Outcome:
    if config.cuda_graphs and device.type != "cuda":
        raise NotAsNamed("a CPU has no CUDA graphs")
    step = TrainerStep(config, device)
    found = clocked(step, batches, steps, device)
    why = why_eager(step.made, config)
    if why:
        raise NotAsNamed(why)
    return found


def why_eager(made: Any, config: Config) -> str:
    """What was asked for and did not run in the steps just timed, "" if all did."""
    missing = []
    if config.compile == "on":
        # compile_networks sets what it compiled on the network itself.
        missing += [f"{name} runs eagerly" for name, network in made.networks.items() if "forward" not in vars(network)]
    if config.cuda_graphs and not getattr(made.update, "graphs", None):
        missing.append("no step was recorded as a CUDA graph")
    return "; ".join(missing)


# -- by hand


def newcomer(read_losses: bool = True, tf32: bool = False) -> Callable[..., Outcome]:
    """float32 made on the host, every setting at its default; `tf32` leaves PyTorch's default for convolutions."""

    def arm(config: Config, device: torch.device, batches: list[Tensor], steps: Steps) -> Outcome:
        loop = NewcomersLoop(config, device, read_losses, float_on_host=True, tf32=tf32)

        def step(images: Tensor) -> Tensor:
            loop.step(images)
            return loop.losses

        return clocked(step, batches, steps, device)

    return arm


def best(read_losses: bool = False) -> Callable[..., Outcome]:
    """A loop by someone who knows PyTorch, without a framework: all that eager mode offers, nothing watched."""

    def arm(config: Config, device: torch.device, batches: list[Tensor], steps: Steps) -> Outcome:
        return clocked(best_step(config, device, read_losses), batches, steps, device)

    return arm


def best_step(config: Config, device: torch.device, read_losses: bool = False) -> Callable[[Tensor], Tensor]:
    parts = Parts(config, device, tuned=True)
    return lambda images: update_by_hand(parts, images, read_losses)


def update_by_hand(parts: Parts, images: Tensor, read_losses: bool, noise: Tensor | None = None) -> Tensor:
    config, scaler = parts.config, parts.scaler
    real = normalise(images, parts.device, parts.layout)
    with parts.autocast():
        fake = parts.generator(parts.noise(len(real)) if noise is None else noise)
        d_loss = discriminator_loss(config.loss, parts.discriminator(real), parts.discriminator(fake.detach()))
    parts.d_optimizer.zero_grad(set_to_none=True)
    scaler.scale(d_loss).backward()
    scaler.step(parts.d_optimizer)
    parts.discriminator.requires_grad_(False)
    with parts.autocast():
        logits = parts.discriminator(fake)
        g_loss = generator_loss(config.loss, logits)
    parts.g_optimizer.zero_grad(set_to_none=True)
    scaler.scale(g_loss).backward()
    scaler.step(parts.g_optimizer)
    parts.discriminator.requires_grad_(True)
    scaler.update()
    update_average(parts.average, parts.generator, config.ema_decay)
    if read_losses:
        # As lightweight-gan does for its progress line.
        d_loss.item(), g_loss.item(), logits.mean().item()
    return torch.stack((d_loss.detach(), g_loss.detach()))


# -- frameworks


def accelerate(config: Config, device: torch.device, batches: list[Tensor], steps: Steps) -> Outcome:
    """Hugging Face Accelerate, as its documentation shows, with the tuned parts."""
    from accelerate import Accelerator

    parts = Parts(config, device, tuned=True)
    mixed = {"fp32": "no", "tf32": "no"}.get(parts.precision.name, parts.precision.name)
    accelerator = Accelerator(mixed_precision=mixed, cpu=device.type == "cpu")
    generator, discriminator, g_optimizer, d_optimizer, loader = accelerator.prepare(
        *(parts.generator, parts.discriminator, parts.g_optimizer, parts.d_optimizer),
        torch.utils.data.DataLoader(Repeated(batches, sum(steps)), batch_size=None),
    )
    losses, start = [], 0.0
    for number, images in enumerate(loader):
        if number == steps[0]:
            reset(device)
            start = timing.clock()
        real = normalise(images, device, parts.layout)
        with accelerator.autocast():
            fake = generator(parts.noise(len(real)))
            d_loss = discriminator_loss(config.loss, discriminator(real), discriminator(fake.detach()))
        d_optimizer.zero_grad(set_to_none=True)
        accelerator.backward(d_loss)
        d_optimizer.step()
        discriminator.requires_grad_(False)
        with accelerator.autocast():
            g_loss = generator_loss(config.loss, discriminator(fake))
        g_optimizer.zero_grad(set_to_none=True)
        accelerator.backward(g_loss)
        g_optimizer.step()
        discriminator.requires_grad_(True)
        update_average(parts.average, parts.generator, config.ema_decay)
        losses.append(torch.stack((d_loss.detach(), g_loss.detach())))
    return outcome(start, losses, steps, device)


def lightning(config: Config, device: torch.device, batches: list[Tensor], steps: Steps) -> Outcome:
    """PyTorch Lightning with manual optimisation, as its documentation shows for GANs, with the tuned parts."""
    import logging

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import lightning.pytorch as pl

        parts = Parts(config, device, tuned=True)
        losses: list[Tensor] = []
        times: dict[str, float] = {}
        outcomes: list[Outcome] = []

        class Gan(pl.LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.automatic_optimization = False
                self.generator, self.discriminator = parts.generator, parts.discriminator

            def configure_optimizers(self) -> list:
                return [parts.d_optimizer, parts.g_optimizer]

            def training_step(self, images: Tensor, number: int) -> None:
                if number == steps[0]:
                    reset(device)
                    times["start"] = timing.clock()
                d_optimizer, g_optimizer = self.optimizers()
                real = normalise(images, device, parts.layout)
                fake = self.generator(parts.noise(len(real)))
                d_loss = discriminator_loss(config.loss, self.discriminator(real), self.discriminator(fake.detach()))
                self.toggle_optimizer(d_optimizer)
                d_optimizer.zero_grad(set_to_none=True)
                self.manual_backward(d_loss)
                d_optimizer.step()
                self.untoggle_optimizer(d_optimizer)
                self.toggle_optimizer(g_optimizer)
                g_loss = generator_loss(config.loss, self.discriminator(fake))
                g_optimizer.zero_grad(set_to_none=True)
                self.manual_backward(g_loss)
                g_optimizer.step()
                self.untoggle_optimizer(g_optimizer)
                update_average(parts.average, parts.generator, config.ema_decay)
                losses.append(torch.stack((d_loss.detach(), g_loss.detach())))
                if number == sum(steps) - 1:
                    outcomes.append(outcome(times["start"], losses, steps, device))

        precision = {"fp16": "16-mixed", "bf16": "bf16-mixed"}.get(parts.precision.name, "32-true")
        quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
        accelerator = "gpu" if device.type == "cuda" else "cpu"
        fit = pl.Trainer(
            **{"max_epochs": 1, "accelerator": accelerator, "devices": 1, "precision": precision, **quiet},
            benchmark=True,
            use_distributed_sampler=False,
        )
        loader = torch.utils.data.DataLoader(Repeated(batches, sum(steps)), batch_size=None)
        with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
            fit.fit(Gan(), loader)
    (found,) = outcomes
    return found


class Repeated(torch.utils.data.Dataset):
    """The batches over and over, since the frameworks want a loader."""

    def __init__(self, batches: list[Tensor], count: int) -> None:
        self.batches, self.count = batches, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Tensor:
        return self.batches[number % len(self.batches)]


def with_settings(arm: Callable[..., Outcome], **settings: Any) -> Callable[..., Outcome]:
    """The arm with a changed configuration."""
    return lambda config, *rest: arm(replace(config, **settings), *rest)


def disagreement(outcomes: dict[str, Outcome], first: int) -> dict[str, float]:
    """Largest difference of a loss from the first arm's in the first steps, relative to the loss.

    Later the smallest difference in rounding grows, as in every GAN training.
    """
    base = next(iter(outcomes.values())).losses[:first]
    return {
        name: float(((found.losses[:first] - base).abs() / base.abs().clamp_min(1e-3)).max())
        for name, found in outcomes.items()
    }
