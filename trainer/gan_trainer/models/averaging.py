# SPDX-License-Identifier: Apache-2.0
"""The averaged copy of a network (EMA): its weights follow those in training, its statistics are estimated for it.

Batch norm's running statistics are those of the activations that the network in training has. Averaged weights make
others, layer by layer, so with copied statistics they draw other images. As BigGAN's standing statistics (Brock et al.
2019) and PyTorch's swa_utils.update_bn, they are estimated from passes in training mode before they are used.
"""

from __future__ import annotations

import copy
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

# In a checkpoint, or in best.pt: the average's statistics are its own. Earlier releases kept those of the network in
# training.
MARK = "average_statistics"
# More passes, or more images in each, change the distance of what is drawn by less than its own noise
# (docs/trainer.md).
PASSES, LARGEST_PASS = 16, 64


class Alone(_BatchNorm):
    """SyncBatchNorm in a copy that one process has for itself: nobody else takes part in its passes."""

    def _check_input_dim(self, input: Tensor) -> None:
        pass


def averaged_copy(network: nn.Module) -> nn.Module:
    """In eval mode, without gradients."""
    average = copy.deepcopy(network).eval().requires_grad_(False)
    for layer in average.modules():
        if isinstance(layer, nn.SyncBatchNorm):
            one: Any = layer
            one.__class__ = Alone
    return average


@torch.no_grad()
def copy_buffers(average: nn.Module, model: nn.Module) -> None:
    for own, value in zip(average.buffers(), model.buffers()):
        own.copy_(value)


def has_statistics(network: nn.Module) -> bool:
    """Of a norm's layers: means and variances of what has passed."""
    return any(isinstance(layer, _NormBase) and layer.track_running_stats for layer in network.modules())


def moves_in_passes(average: nn.Module, model: nn.Module) -> bool:
    """Whether passes in training mode change more than weights: a norm's statistics, or whatever buffer the model in
    training has moved, such as the vectors of a spectral norm."""
    pairs = zip(average.buffers(), model.buffers())
    return has_statistics(model) or any(not torch.equal(own, value) for own, value in pairs)


@torch.no_grad()
def estimate_statistics(
    network: nn.Module, sampler: nn.Module, shape: Sequence[int], labels: Tensor | None, batch: int, seed: int
) -> None:
    """Running statistics of `network` as their mean over PASSES passes of `sampler`, which draws by it, from noise
    (N, *shape) of `seed` and from `labels` (M,) in turn; what else learns in passes goes on from where it is.

    batch: images of a pass of training; at most LARGEST_PASS are taken, and fewer where memory has no room. Nobody
    else's random numbers are used. Raises OutOfMemoryError if two images do not fit.
    """
    # Batch norm needs several values of each channel.
    count = max(2, min(batch, LARGEST_PASS))
    device = next(network.parameters()).device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        while True:
            torch.manual_seed(seed)
            try:
                with learning(network):
                    for number in range(PASSES):
                        sampler(*inputs(count, number, shape, labels, device))
                return
            except torch.cuda.OutOfMemoryError:
                if count == 2:
                    raise
                count = max(2, count // 2)


def inputs(
    count: int, number: int, shape: Sequence[int], labels: Tensor | None, device: torch.device
) -> tuple[Tensor, ...]:
    """Of pass `number`: noise (count, *shape) from the CPU's random numbers, and the classes of its images."""
    noise = torch.randn(count, *shape).to(device)
    if labels is None:
        return (noise,)
    places = (torch.arange(count, device=labels.device) + number * count) % len(labels)
    return noise, labels[places].to(device)


@contextmanager
def learning(network: nn.Module) -> Iterator[None]:
    """In training mode, its running statistics beginning anew as plain means of all passes."""
    modes = [(module, module.training) for module in network.modules()]
    with ExitStack() as stack:
        for layer in network.modules():
            if isinstance(layer, _NormBase) and layer.track_running_stats:
                stack.callback(setattr, layer, "momentum", layer.momentum)
                layer.reset_running_stats()
                stack.callback(layer.register_forward_pre_hook(mean_so_far()).remove)
        network.train()
        try:
            yield
        finally:
            for module, mode in modes:
                module.training = mode


def mean_so_far() -> Callable[[Any, Any], None]:
    """A hook before each pass of a layer: the pass weighs as much as each one before it. Momentum None would do the
    same for batch norm, and switch instance norm's statistics off."""
    passes = 0

    def weigh(layer: Any, arguments: Any) -> None:
        nonlocal passes
        passes += 1
        layer.momentum = 1.0 / passes

    return weigh
