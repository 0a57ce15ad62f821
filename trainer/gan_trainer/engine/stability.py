# SPDX-License-Identifier: Apache-2.0
"""NaN and infinity in losses and gradients: detected in every step, never waited for, never replaced by zero.

The verdict stays on the device: an update with such gradients is skipped there, and each case is counted. What
becomes of it (stop, lower the learning rate, continue) is decided in reaction.py, from the counts, when the loop logs.
"""

from __future__ import annotations

import math
from typing import Any, Mapping, Sequence, cast

import torch
from torch import Tensor, nn

from ..errors import UserError


class TrainingError(UserError):
    """The training went wrong; the text is a diagnosis."""


class Watch:
    """Counts on the device. Only in-place operations, so that a CUDA graph can hold them."""

    def __init__(self, device: torch.device, shown: Sequence[str], rarely_shown: Sequence[str] = ()) -> None:
        # Of the last step, in the order of `shown`; 0 for what only rare steps have.
        self.losses = torch.zeros(len(shown), device=device)
        self.sums = torch.zeros(len(shown), device=device)
        self.rare = [name in rarely_shown for name in shown]
        # Rare steps so far. The name is that of checkpoints.
        self.penalties = torch.zeros((), device=device)
        # Bad steps, good steps before the first of these, skipped updates.
        self.counts = torch.zeros(3, dtype=torch.int64, device=device)
        self.bad = torch.zeros((), dtype=torch.bool, device=device)
        self.bad_steps, self.good_before, self.skipped = self.counts.unbind()
        self.none = torch.zeros((), device=device)
        # Looking at a number costs less than computing with it there.
        self.on_host = device.type == "cpu"

    def gradients(self, finite: Tensor | bool) -> None:
        """Note whether an update's gradients were finite."""
        if self.on_host:
            if not finite:
                self.skipped.add_(1)
                self.bad.fill_(True)
            return
        bad = torch.logical_not(cast(Tensor, finite))
        self.skipped.add_(bad)
        self.bad.logical_or_(bad)

    def step(self, *losses: Tensor | None) -> Tensor | bool:
        """Note the losses of a step, and end it; whether all its numbers were finite, on a GPU as a truth value there,
        for which nothing waits."""
        torch.stack([self.none if loss is None else loss.float() for loss in losses], out=self.losses)
        self.sums.add_(self.losses)
        if any(self.rare) and all(loss is not None for loss in losses):
            self.penalties.add_(1)
        if self.on_host:
            good = all(map(math.isfinite, self.losses.tolist())) and not self.bad.item()
            if not good:
                self.bad_steps.add_(1)
                self.bad.zero_()
            elif not self.bad_steps.item():
                self.good_before.add_(1)
            return good
        self.bad.logical_or_(~torch.isfinite(self.losses).all())
        self.bad_steps.add_(self.bad)
        self.good_before.add_(self.bad_steps == 0)
        sound = ~self.bad
        self.bad.zero_()
        return sound

    def means(self, steps: int) -> list[float]:
        """Mean losses of the `steps` since the last restart, the rare ones of rare steps; waits for the device."""
        rare_steps = max(1.0, float(self.penalties)) if any(self.rare) else 1.0
        return [total / (rare_steps if rare else max(1, steps)) for total, rare in zip(self.sums.tolist(), self.rare)]

    def forget_bad_steps(self, steps: int) -> None:
        """They have been dealt with; the next one is looked for from here, `steps` after the last restart."""
        self.bad_steps.zero_()
        self.good_before.fill_(steps)

    def restart(self) -> None:
        """Begin a new stretch of steps."""
        for tensor in (self.sums, self.penalties, self.counts):
            tensor.zero_()


def first_bad_layer(network: nn.Module, *inputs: Tensor) -> str:
    """Name of the first layer whose output for `inputs` is not finite, or ''. Runs the network once."""
    names: list[str] = []

    def look(name: str) -> Any:
        def hook(module: nn.Module, arguments: Any, output: Any) -> None:
            if isinstance(output, Tensor) and not bool(torch.isfinite(output).all()):
                names.append(name)

        return hook

    hooks = [module.register_forward_hook(look(name)) for name, module in network.named_modules() if name]
    try:
        with torch.no_grad():
            network(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return names[0] if names else ""


def bad_tensors(network: nn.Module, gradients: bool) -> list[str]:
    """Names of the parameters that are not finite, or whose gradients are not."""
    tensors = ((name, p.grad if gradients else p) for name, p in network.named_parameters())
    return [name for name, tensor in tensors if tensor is not None and not bool(torch.isfinite(tensor).all())]


def diagnose(
    networks: Mapping[str, nn.Module], batch: Mapping[str, Tensor], examples: Mapping[str, Sequence[Tensor]]
) -> str:
    """Where numbers go wrong in this batch: input, parameters, activations or gradients. `examples` are the inputs of
    the networks that are tried."""
    sound = all(bool(torch.isfinite(tensor).all()) for tensor in batch.values())
    found = [f"input: {'finite' if sound else 'not finite'}"]
    for what, gradients in (("parameters", False), ("gradients", True)):
        names = [f"{name}.{tensor}" for name, net in networks.items() for tensor in bad_tensors(net, gradients)]
        found.append(f"{what} not finite: {f'{names[0]} and {len(names) - 1} more' if names else 'none'}")
    layers = {name: first_bad_layer(networks[name], *inputs) for name, inputs in examples.items()}
    named = [f"{name}.{layer}" for name, layer in layers.items() if layer]
    found.append(f"activations: {' and '.join(named) + ' first' if named else 'finite in the last batch'}")
    return "; ".join(found)
