# SPDX-License-Identifier: Apache-2.0
"""Fused Adam and AdamW, gradient clipping, and updates that are skipped if a gradient is not a number."""

from __future__ import annotations

from math import isfinite
from typing import Any, Iterable

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from ..config import Config


def make_adam(network: nn.Module, rate: float, config: Config) -> torch.optim.Optimizer:
    """Adam or AdamW for one network, on a GPU one fused kernel that also reads there whether to skip (guarded_step)."""
    device = next(network.parameters()).device
    on_gpu = device.type == "cuda"
    graphs = config.cuda_graphs and on_gpu
    # A recorded step needs its learning rate on the GPU.
    start = torch.tensor(rate, device=device) if graphs else rate
    # False and None differ: None lets torch take its multi-tensor loops on a GPU.
    fused = True if config.fused_optimizer and on_gpu else None
    given: dict[str, Any] = {"betas": (config.beta1, config.beta2), "fused": fused, "capturable": graphs}
    if config.weight_decay:
        return torch.optim.AdamW(network.parameters(), start, weight_decay=config.weight_decay, **given)
    return torch.optim.Adam(network.parameters(), start, **given)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def set_second_beta(optimizer: torch.optim.Optimizer, beta2: float) -> None:
    for group in optimizer.param_groups:
        group["betas"] = (group["betas"][0], beta2)


def gradient_norm(parameters: Iterable[nn.Parameter], clip: float) -> Tensor:
    """The norm of all gradients together, on the device; above `clip` (if that is not 0) they are scaled down to it."""
    if clip:
        return clip_grad_norm_(parameters, clip)
    return torch.stack(torch._foreach_norm([p.grad for p in parameters if p.grad is not None])).norm()


def are_finite(parameters: list[nn.Parameter], clip: float) -> Tensor | bool:
    """Whether the norm of the gradients is finite, which `clip` bounds as above; a truth value on a GPU, where nothing
    may wait for it. On a CPU it is cheaper to look at each norm than to compute with them."""
    if clip or parameters[0].is_cuda:
        return torch.isfinite(gradient_norm(parameters, clip))
    norms = torch._foreach_norm([p.grad for p in parameters if p.grad is not None])
    return all(isfinite(norm.item()) for norm in norms)


def guarded_step(optimizer: torch.optim.Optimizer, finite: Tensor | bool) -> None:
    """The update, skipped if `finite` is false. A fused optimizer decides on the GPU, so nothing waits for it."""
    if optimizer.defaults.get("fused") and isinstance(finite, Tensor):
        # What GradScaler passes to a fused optimizer, here without a scale. PyTorch's types do not name these two.
        fused: Any = optimizer
        fused.grad_scale, fused.found_inf = None, torch.logical_not(finite).float()
        optimizer.step()
        del fused.grad_scale, fused.found_inf
    elif bool(finite):
        optimizer.step()
