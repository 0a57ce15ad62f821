# SPDX-License-Identifier: Apache-2.0
"""What a task provides to the engine; gan.py and flow.py are two tasks.

The engine has the rest: devices, precision, loss scaling, parallelism, prefetching, accumulation, clipping, updates
that are left out, the average, checkpoints, statistics, graphs, compilation, memory, profiles.
"""

from __future__ import annotations

from typing import Callable, Dict, Mapping, NamedTuple, Tuple

import torch
from torch import Tensor, nn

from ..config import Config
from ..own import OwnError, is_own
from ..precision import Precision
from ..runs.samples import class_of_each

# "images": float32 (N, 3, S, S) in [-1, 1] on the device; "labels": int64 (N,) where the data have them; what the
# task's `draw` gives. All have N rows.
Batch = Dict[str, Tensor]
# What is minimised, and what is shown of it under the names of `Task.shown`; both scalars on the device.
Losses = Tuple[Tensor, Mapping[str, Tensor]]

# Anything else in a checkpoint.
RESERVED = {
    "average",
    "average_statistics",
    "census",
    "scaler",
    "watch",
    "schedule",
    "random",
    "step",
    "steps_at_restart",
    "config",
    "task",
}


class Part(NamedTuple):
    """What a loss is computed from: a batch, or one of its `accumulate` parts.

    rare   whether this step has what is computed only now and then (`Task.is_rare`)
    whole  whether it is the only part; only then may a phase leave something with a graph to the next one in `kept`
    """

    batch: Batch
    rare: bool
    whole: bool
    kept: dict[str, Tensor]


class Phase(NamedTuple):
    """One update in a step: of one network, by a loss; the networks that are `fixed` get no gradients from it."""

    network: str
    loss: Callable[[Part], Losses]
    fixed: tuple[str, ...] = ()


class Task:
    """Base class of tasks; the function that `task` names returns one, made from the configuration."""

    # The network that draws: its average is kept, sampled, measured and exported.
    averaged = ""
    # Losses as they are shown and logged; the last of them may be those that only rare steps have.
    shown: tuple[str, ...] = ("loss",)
    rarely_shown: tuple[str, ...] = ()

    def __init__(self, config: Config) -> None:
        self.config = config
        # As they are, and as they must be called by the loss that trains them: there may be several processes.
        self.networks: dict[str, nn.Module] = {}
        self.run: dict[str, nn.Module] = {}

    def build(self) -> dict[str, nn.Module]:
        """The networks on the CPU, by name, initialised from torch's random numbers."""
        raise NotImplementedError

    def phases(self) -> tuple[Phase, ...]:
        """The updates of a step, in their order; every network has one."""
        raise NotImplementedError

    def draw(self, count: int, random: torch.Generator) -> Batch:
        """The step's random numbers, `count` rows each, on the generator's device; all that a step needs comes from
        here, so that it depends neither on the number of GPUs nor on a recorded graph."""
        return {}

    def examples(self, batch: Batch) -> dict[str, tuple[Tensor, ...]]:
        """What each network is called with, for torch.compile's check and for the diagnosis; others run eagerly."""
        return {}

    def noise_shape(self) -> tuple[int, ...]:
        """Shape of one image's noise, which is normally distributed."""
        return (self.config.latent_dim,)

    def sampler(self, network: nn.Module) -> nn.Module:
        """From noise (N, *noise_shape), and classes (N,) where there are, to images (N, 3, S, S) in [-1, 1], by the
        averaged network."""
        return network

    def rate(self, name: str) -> float:
        """The base learning rate of a network."""
        return self.config.lr_generator

    def shown_always(self) -> tuple[str, ...]:
        return tuple(name for name in self.shown if name not in self.rarely_shown)

    def is_rare(self, step: int) -> bool:
        """Whether this step (from 1) computes what others do not."""
        return False

    def kinds(self) -> set[bool]:
        """The values that `is_rare` returns during a run."""
        return {False}

    def state(self) -> dict[str, Tensor]:
        """Other tensors that the next step depends on; they are saved, and restored in place."""
        return {}

    def figures(self) -> dict[str, float]:
        """What a line of statistics has besides the losses; may wait for the device."""
        return {}

    def burn_in(self, done: float) -> None:
        """Before each step of a run that has a burn-in: how much of it is done, from 0 to 1."""

    def after(self, step: int, mean_of_ranks: Callable[[Tensor], Tensor]) -> None:
        """After each step, outside its recorded graph."""

    def start(self, networks: dict[str, nn.Module], run: dict[str, nn.Module], precision: Precision) -> None:
        """The networks are on their device."""
        self.networks, self.run = networks, run

    def compiled(self, names: set[str], batch: Batch, compile_more: Callable[..., tuple[Callable, str]]) -> list[str]:
        """After these networks were compiled: what else is, one line each. `compile_more(name, network, eager,
        traceable, *examples)` gives the compiled function, or `eager`, and such a line."""
        return []


def build_checked(task: Task) -> dict[str, nn.Module]:
    """The task's networks; if the parts of a user's own task do not fit together, OwnError says which."""
    networks = task.build()
    if not is_own(task.config.task):
        return networks
    name, size = f"task: {task.config.task}", task.config.image_size
    if not isinstance(networks, dict) or not all(isinstance(part, nn.Module) for part in networks.values()):
        raise OwnError(f"{name}: build() gives {type(networks).__name__}, expected networks by name")
    taken = sorted(set(networks) & RESERVED)
    if taken:
        raise OwnError(f"{name}: no network can be called {taken[0]}; checkpoints have that name already")
    learnt = [phase.network for phase in task.phases()]
    if sorted(learnt) != sorted(networks):
        trained = ", ".join(learnt) or "none"
        raise OwnError(f"{name}: its networks are {', '.join(networks)}; its phases train {trained}")
    if task.averaged not in networks:
        raise OwnError(f"{name}: averaged is {task.averaged!r}, expected one of {', '.join(networks)}")
    sampler = task.sampler(networks[task.averaged]).eval()
    labels = class_of_each(2, task.config.classes)
    with torch.no_grad():
        given = tuple(sampler(torch.zeros(2, *task.noise_shape()), *labels).shape)
    sampler.train()
    if given != (2, 3, size, size):
        raise OwnError(f"{name}: its sampler gives {given}, expected {(2, 3, size, size)}")
    return networks
