# SPDX-License-Identifier: Apache-2.0
"""Losses and gradients that are no numbers: seen in every step, never waited for, never replaced by zero.

The verdict stays on the device: an update with such gradients is left out there, and what happened is counted. The loop
looks at the counts when it logs, and stops, lowers the learning rate or goes on, as configured.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UserError


class TrainingError(UserError):
    """The training went wrong; the text is a diagnosis."""


class Watch:
    """Counts on the device. Only in-place operations, so that a CUDA graph can hold them."""

    def __init__(self, device: torch.device) -> None:
        # Of the last step: discriminator's loss, generator's loss, penalty (0 in a step without).
        self.losses = torch.zeros(3, device=device)
        self.sums = torch.zeros(3, device=device)
        self.penalties = torch.zeros((), device=device)
        # Steps gone bad, good steps before the first of these, updates left out.
        self.counts = torch.zeros(3, dtype=torch.int64, device=device)
        self.bad = torch.zeros((), dtype=torch.bool, device=device)

    def gradients(self, finite: Tensor) -> None:
        """Note whether an update's gradients were finite."""
        bad = ~finite
        self.counts[2].add_(bad)
        self.bad.logical_or_(bad)

    def step(self, d_loss: Tensor, g_loss: Tensor, penalty: Tensor | None) -> Tensor:
        """Note the losses of a step, and end it; a truth value on the device: whether all its numbers were finite."""
        self.losses.copy_(torch.stack((d_loss, g_loss, d_loss.new_zeros(()) if penalty is None else penalty)))
        self.sums.add_(self.losses)
        if penalty is not None:
            self.penalties.add_(1)
        self.bad.logical_or_(~torch.isfinite(self.losses).all())
        bad_steps, good_before, _ = self.counts.unbind()
        bad_steps.add_(self.bad)
        good_before.add_(bad_steps == 0)
        good = ~self.bad
        self.bad.zero_()
        return good

    def means(self, steps: int) -> tuple[float, float, float]:
        """Mean losses and penalty of the `steps` since the last restart; waits for the device."""
        sums, steps = self.sums.tolist(), max(1, steps)
        penalties = max(1.0, float(self.penalties))
        return sums[0] / steps, sums[1] / steps, sums[2] / penalties

    def forget_bad_steps(self, steps: int) -> None:
        """They have been reacted to; the next one is looked for from here, `steps` after the last restart."""
        self.counts[0].zero_()
        self.counts[1].fill_(steps)

    def restart(self) -> None:
        """Begin a new stretch of steps."""
        for tensor in (self.sums, self.penalties, self.counts):
            tensor.zero_()


def first_bad_layer(network: nn.Module, *inputs: Tensor) -> str:
    """Name of the first layer whose output for `inputs` is not finite, or ''."""
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


def diagnose(generator: nn.Module, discriminator: nn.Module, real: Tensor, noise: Tensor) -> str:
    """Where numbers go wrong in this batch: input, parameters, activations or gradients. Runs the networks once."""
    networks = {"generator": generator, "discriminator": discriminator}
    sound = all(bool(torch.isfinite(tensor).all()) for tensor in (real, noise))
    found = [f"input: {'finite' if sound else 'not finite'}"]
    for what, gradients in (("parameters", False), ("gradients", True)):
        names = [f"{name}.{tensor}" for name, net in networks.items() for tensor in bad_tensors(net, gradients)]
        found.append(f"{what} not finite: {f'{names[0]} and {len(names) - 1} more' if names else 'none'}")
    layers = {"generator": first_bad_layer(generator, noise), "discriminator": first_bad_layer(discriminator, real)}
    named = [f"{name}.{layer}" for name, layer in layers.items() if layer]
    found.append(f"activations: {' and '.join(named) + ' first' if named else 'finite in the last batch'}")
    return "; ".join(found)
