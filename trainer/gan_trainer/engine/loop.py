# SPDX-License-Identifier: Apache-2.0
"""`Trainer.step`, the central method: the updates of the task, one after the other, and one of the average."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import Tensor, nn

from ..config import Config
from ..data.prefetch import normalise
from ..models.averaging import averaged_copy, copy_buffers, estimate_statistics, moves_in_passes
from ..models.networks import move_average
from ..own import OwnError
from ..parallel.distributed import ALONE, Ranks, data_parallel, gradients_stay_local
from ..precision import Precision, autocast, make_scaler, set_tf32
from ..tasks import Batch, Part, Phase, make_task
from ..tasks.task import build_checked
from .memory import MemoryReport, read_memory
from .optimizers import are_finite, gradient_norm, guarded_step, make_adam, set_learning_rate, set_second_beta
from .schedule import average_decay, burn_in, learning_rate, second_beta
from .stability import Watch
from .statistics_guard import RunningStatistics


class Trainer:
    """Networks, optimizers and everything else that a training step changes."""

    def __init__(self, config: Config, device: torch.device, precision: Precision, ranks: Ranks = ALONE) -> None:
        torch.manual_seed(config.seed)
        self.config, self.device, self.precision, self.ranks = config, device, precision, ranks
        self.on_gpu = device.type == "cuda"
        set_tf32(precision)
        # Sizes never change, so cuDNN's search for the fastest kernels pays off.
        torch.backends.cudnn.benchmark = config.cudnn_benchmark
        self.layout = torch.channels_last if config.channels_last and self.on_gpu else torch.contiguous_format
        self.task = make_task(config)
        self.networks = {name: self.place(network) for name, network in build_checked(self.task).items()}
        # Use `average`, whose statistics are its own.
        self.moving = averaged_copy(self.networks[self.task.averaged])
        self.moved = False
        self.statistics_kept = RunningStatistics(*self.networks.values())
        # Walking through a network's modules in every step takes as long as some of its layers.
        self.weights = {name: list(network.parameters()) for name, network in self.networks.items()}
        self.moving_weights = list(self.moving.parameters())
        # On which steps are recorded (cuda_graphs.py).
        self.stream = torch.cuda.Stream(device) if config.cuda_graphs and self.on_gpu else None
        # Losses go through these: DistributedDataParallel around the networks, or the networks themselves.
        self.run = {name: data_parallel(network, ranks, self.stream) for name, network in self.networks.items()}
        self.task.start(self.networks, self.run, precision)
        self.phases = self.task.phases()
        self.optimizers = {
            name: make_adam(network, self.task.rate(name), config) for name, network in self.networks.items()
        }
        self.scaler = make_scaler(precision)
        self.noise = torch.Generator(device).manual_seed(config.seed)
        self.update: Callable[[Batch, bool], None] = self.update_networks
        # What was asked for and does not run, and why: by "torch.compile" and "CUDA graphs" (speed_up.py).
        self.ran_without: dict[str, str] = {}
        self.watch, self.memory = Watch(device, self.task.shown, self.task.rarely_shown), MemoryReport(device)
        # What the data contain, for the checkpoint (census.py).
        self.census: dict[str, Any] = {}
        self.steps_done, self.steps_at_restart, self.bad_steps, self.lr_cut = 0, 0, 0, 1.0
        self.last_batch: Batch | None = None
        self.memory.note("networks")

    def place(self, network: nn.Module) -> nn.Module:
        if self.on_gpu and self.ranks.world > 1 and self.config.sync_batchnorm:
            network = nn.SyncBatchNorm.convert_sync_batchnorm(network)
        # The keyword memory_format is documented, and missing in PyTorch's types.
        to: Any = network.to
        return to(device=self.device, memory_format=self.layout)

    @property
    def losses(self) -> Tensor:
        """(L,) on the device: the last step's losses, in the task's order, without those of rare steps."""
        return self.watch.losses[: len(self.task.shown_always())]

    def step(self, images: Tensor, labels: Tensor | None = None) -> None:
        """One step on this rank's part of a batch; waits for nothing on a GPU.

        `images`: uint8 (N, 3, S, S) from anywhere, or float32 in [-1, 1] on the device, as a Prefetcher makes them.
        `labels`: int64 (N,), where the configuration has classes.
        """
        self.steps_done += 1
        for name, optimizer in self.optimizers.items():
            rate = learning_rate(self.config, self.task.rate(name), self.steps_done)
            set_learning_rate(optimizer, rate * self.lr_cut)
        if self.config.burn_in_steps:
            self.burn_in()
        real = normalise(images, self.device, self.layout) if images.dtype == torch.uint8 else images
        # For the whole batch, of which this rank takes its part: the images do not depend on the number of GPUs.
        count = len(real) * self.ranks.world
        batch = {name: self.ranks.part(values) for name, values in self.task.draw(count, self.noise).items()}
        if self.config.flip:
            chosen = torch.rand(count, generator=self.noise, device=self.device) < 0.5
            real = mirrored(real, self.ranks.part(chosen))
        batch["images"] = real
        if labels is not None:
            batch["labels"] = labels.to(self.device)
        self.last_batch = batch
        self.update(batch, self.task.is_rare(self.steps_done))
        self.task.after(self.steps_done, self.ranks.mean_on_device)
        # Not in a recorded graph: the decay may follow the step.
        move_average(self.moving_weights, self.weights[self.task.averaged], average_decay(self.config, self.steps_done))
        self.moved = True

    @property
    def average(self) -> nn.Module:
        """The averaged network as it draws now. The first to ask after a step waits for its statistics (averaging.py),
        so that nothing can be drawn, measured or saved without them."""
        if self.moved:
            model = self.networks[self.task.averaged]
            moves = moves_in_passes(self.moving, model)
            copy_buffers(self.moving, model)
            if moves:
                labels = self.last_batch.get("labels") if self.last_batch else None
                if labels is None and self.config.classes:
                    labels = torch.arange(self.config.classes)
                sampler, batch = self.task.sampler(self.moving), self.config.batch_size // self.config.accumulate
                seed = self.config.seed + self.steps_done
                estimate_statistics(self.moving, sampler, self.task.noise_shape(), labels, batch, seed)
            self.moved = False
        return self.moving

    def burn_in(self) -> None:
        """Everything else that changes during the burn-in; afterwards it stays as it is."""
        for optimizer in self.optimizers.values():
            set_second_beta(optimizer, second_beta(self.config, self.steps_done))
        self.task.burn_in(burn_in(self.config, self.steps_done))

    def update_networks(self, batch: Batch, rare: bool) -> None:
        """The step on the device."""
        note = self.memory.note if self.steps_done == 1 else lambda phase: None
        parts = split(batch, rare, self.config.accumulate)
        shown: dict[str, list[Tensor]] = {name: [] for name in self.task.shown}
        for phase in self.phases:
            self.learn(phase, parts, shown)
            note(phase.network)
        self.scaler.update()
        good = self.watch.step(*(mean(values) if values else None for values in shown.values()))
        self.statistics_kept.settle(good)
        note("update")

    def learn(self, phase: Phase, parts: list[Part], shown: dict[str, list[Tensor]]) -> None:
        """One network's update, from the summed gradients of all parts."""
        optimizer, last = self.optimizers[phase.network], len(parts) - 1
        fixed = [weight for name in phase.fixed for weight in self.weights[name] if weight.requires_grad]
        for weight in fixed:
            weight.requires_grad_(False)
        optimizer.zero_grad(set_to_none=True)
        for number, part in enumerate(parts):
            with gradients_stay_local(self.run[phase.network], number < last):
                with autocast(self.precision, self.device.type):
                    loss, found = phase.loss(part)
                self.scaler.scale(loss / len(parts) if last else loss).backward()
            for name, value in found.items():
                if name not in shown:
                    known = ", ".join(shown)
                    raise OwnError(f"task: {self.config.task}: a loss shows {name!r}; its `shown` has {known}")
                shown[name].append(value.detach())
        self.apply(optimizer, self.weights[phase.network])
        for weight in fixed:
            weight.requires_grad_(True)

    def apply(self, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]) -> None:
        """Clip, then update; left out when a gradient is not finite. In fp16 that is the scaler's business, and no
        fault: it lowers its scale and goes on."""
        if self.scaler.is_enabled():
            if self.config.clip_grad_norm:
                self.scaler.unscale_(optimizer)
                gradient_norm(parameters, self.config.clip_grad_norm)
            self.scaler.step(optimizer)
        else:
            finite = are_finite(parameters, self.config.clip_grad_norm)
            self.watch.gradients(finite)
            guarded_step(optimizer, finite)

    def statistics(self) -> dict[str, Any]:
        """Means since the last call, and the current learning rates, loss scale and peak memory in MiB (of a GPU)."""
        means = self.watch.means(self.steps_done - self.steps_at_restart)
        shown = self.ranks.mean(torch.tensor(means, dtype=torch.float64)).tolist()
        rates = {f"lr_{name}": float(own.param_groups[0]["lr"]) for name, own in self.optimizers.items()}
        skipped = int(self.watch.counts[2])
        self.watch.restart()
        self.steps_at_restart = self.steps_done
        return {
            "step": self.steps_done,
            **dict(zip(self.task.shown, shown)),
            **rates,
            **self.task.figures(),
            "loss_scale": self.scaler.get_scale(),
            "updates_left_out": skipped,
            "peak_memory_mib": read_memory(self.device).peak >> 20 if self.on_gpu else None,
        }

    def parts(self) -> dict[str, Any]:
        """The parts that have a state_dict."""
        optimizers = {f"{name}_optimizer": optimizer for name, optimizer in self.optimizers.items()}
        return {**self.networks, "average": self.average, **optimizers, "scaler": self.scaler}


def split(batch: Batch, rare: bool, count: int) -> list[Part]:
    """The batch in `count` parts of one size."""
    if count == 1:
        return [Part(batch, rare, True, {})]
    cut = {name: values.chunk(count) for name, values in batch.items()}
    return [Part({name: own[number] for name, own in cut.items()}, rare, False, {}) for number in range(count)]


def mirrored(images: Tensor, chosen: Tensor) -> Tensor:
    """Images (N, 3, S, S) of which the `chosen` (N, bool) are mirrored left to right."""
    return torch.where(chosen[:, None, None, None], images.flip(3), images)


def mean(values: list[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else torch.stack(values).mean()
