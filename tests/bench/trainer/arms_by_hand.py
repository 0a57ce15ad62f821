"""More ways to write the loop of arms.py by hand, with torch.compile and as one CUDA graph; and arms that are kept.

The first two are what a person who knows PyTorch would try next, so that the trainer is measured beside the best.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from arms import NotAsNamed, Outcome, Parts, Steps, TrainerStep, clocked, update_by_hand, why_eager
from gan_trainer.config import Config
from torch import Tensor

Step = Callable[[Tensor], Tensor]
WARM_UP, WARM_AGAIN = 3, 2


class Kept:
    """An arm whose step is made once and measured in every round: compiling takes longer than all the rounds.

    make(config, device) returns the step and a function that says what of it did not run as named, "" if all did.
    """

    def __init__(self, make: Callable[[Config, torch.device], tuple[Step, Callable[[], str]]]) -> None:
        self.make = make
        self.step: Step | None = None
        self.first: Outcome | None = None
        self.switches: tuple[Any, ...] = ()

    def __call__(self, config: Config, device: torch.device, batches: list[Tensor], steps: Steps) -> Outcome:
        """Raises NotAsNamed. Losses and memory are those of the first call: both grow from the same start."""
        if self.step is None or self.first is None:
            self.step, why = self.make(config, device)
            self.first = clocked(self.step, batches, steps, device)
            self.switches = switches()
            if why():
                raise NotAsNamed(why())
            return self.first
        # Other arms have set them meanwhile, and compiled code would be compiled anew.
        set_switches(*self.switches)
        return self.first._replace(step_s=clocked(self.step, batches, (WARM_AGAIN, steps[1]), device).step_s)

    def release(self) -> None:
        """Its networks and graphs hold memory until then."""
        self.step = self.first = None


def switches() -> tuple[Any, ...]:
    return torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark


def set_switches(tf32: bool, precision: str, benchmark: bool) -> None:
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark = tf32, benchmark
    torch.set_float32_matmul_precision(precision)


def trainer_kept(config: Config, device: torch.device) -> tuple[Step, Callable[[], str]]:
    if config.cuda_graphs and device.type != "cuda":
        raise NotAsNamed("a CPU has no CUDA graphs")
    step = TrainerStep(config, device)
    return step, lambda: why_eager(step.made, config)


def compiled_by_hand(config: Config, device: torch.device) -> tuple[Step, Callable[[], str]]:
    """Both networks through torch.compile as it is."""
    if device.type != "cuda":
        raise NotAsNamed("on a CPU compiling takes longer than a trial may")
    from torch._dynamo.utils import counters

    parts, before = Parts(config, device, tuned=True), counters["stats"]["unique_graphs"]
    # In place: the average, the optimizers and state_dict see the same networks as before.
    parts.generator.compile()
    parts.discriminator.compile()

    def why() -> str:
        return "" if counters["stats"]["unique_graphs"] > before else "torch.compile compiled nothing"

    return lambda images: update_by_hand(parts, images, False), why


def graphed_by_hand(config: Config, device: torch.device, batches: list[Tensor], steps: Steps) -> Outcome:
    """The whole step recorded once and replayed, as PyTorch's notes on CUDA graphs show it. Raises NotAsNamed."""
    if device.type != "cuda":
        raise NotAsNamed("a CPU has no CUDA graphs")
    parts = Parts(config, device, tuned=True)
    if parts.scaler.is_enabled():
        raise NotAsNamed("GradScaler waits for the GPU in every step, which cannot be recorded")
    for optimizer in (parts.g_optimizer, parts.d_optimizer):
        for group in optimizer.param_groups:
            group["capturable"] = True
    images = batches[0].to(device)
    noise = parts.noise(len(images))
    # As the first step of the other arms draws it.
    parts.random.manual_seed(config.seed)
    graph, losses = torch.cuda.CUDAGraph(), torch.zeros(2, device=device)
    stream, done = torch.cuda.Stream(device), 0

    def step(batch: Tensor) -> Tensor:
        nonlocal losses, done
        images.copy_(batch, non_blocking=True)
        noise.copy_(parts.noise(len(batch)))
        done += 1
        if done <= WARM_UP:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                eager = update_by_hand(parts, images, False, noise)
            torch.cuda.current_stream().wait_stream(stream)
            return eager.clone()
        if done == WARM_UP + 1:
            with torch.cuda.graph(graph, stream=stream):
                losses = update_by_hand(parts, images, False, noise)
        graph.replay()
        return losses.clone()

    return clocked(step, batches, steps, device)
