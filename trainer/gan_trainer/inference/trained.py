# SPDX-License-Identifier: Apache-2.0
"""A trained generator for use: the averaged one of a checkpoint, noise for it, and its images."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any, NamedTuple, Sequence

import torch
from torch import Tensor

from ..config import Config, ConfigError, make_config
from ..models.averaging import MARK, estimate_statistics, has_statistics
from ..runs.checkpoint import CheckpointError, load_checkpoint
from ..runs.samples import sizes, to_uint8
from ..tasks import make_task

EARLIER = (
    "was saved by an earlier release, with the batch-norm statistics of the network in training; they are estimated "
    "anew for the averaged one, which takes a moment"
)


class Trained(NamedTuple):
    """What draws, by the averaged network: from noise (N, *noise_shape) to images, in eval mode on the CPU; what it was
    trained with, and after how many steps."""

    generator: torch.nn.Module
    config: Config
    step: int
    noise_shape: tuple[int, ...]


def load_trained(folder: str | Path, file: str | Path | None = None) -> Trained:
    """From `file`, or the newest readable checkpoint in `folder`. Raises CheckpointError.

    The checkpoint's own configuration builds the network, so a config file that has changed since does no harm.
    """
    if file is None:
        state = load_checkpoint(Path(folder))
        if state is None:
            raise CheckpointError(
                f"run_dir: {folder} holds no checkpoint; train first, or name a file with --checkpoint"
            )
    else:
        state = read_checkpoint(Path(file))
    try:
        config = make_config(state["config"])
        task = make_task(config)
        network = task.build()[task.averaged]
        network.load_state_dict(state["average"])
    except (ConfigError, KeyError, RuntimeError) as error:
        raise CheckpointError(f"{file or folder}: is not a checkpoint of this release: {error}") from error
    generator = task.sampler(network).eval().requires_grad_(False)
    if MARK not in state and has_statistics(network):
        print(f"train-gan: {file or folder}: step {state['step']} {EARLIER}", file=sys.stderr, flush=True)
        labels = torch.arange(config.classes) if config.classes else None
        estimate_statistics(
            network, generator, task.noise_shape(), labels, config.batch_size, config.seed + state["step"]
        )
    return Trained(generator, config, state["step"], task.noise_shape())


def read_checkpoint(file: Path) -> dict[str, Any]:
    """One checkpoint file; plain data only (`weights_only`), so that a file from elsewhere cannot run code."""
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise CheckpointError(f"checkpoint: {file}: there is no such file") from error
    # A damaged file may raise anything.
    except Exception as error:
        raise CheckpointError(f"checkpoint: {file}: cannot be read: {str(error).strip().splitlines()[0]}") from error


def make_noise(seeds: list[int], shape: int | Sequence[int], truncation: float | None = None) -> Tensor:
    """Noise (N, *shape), one row for each seed, the same everywhere.

    truncation  standard deviations at which the normal distribution is cut (Brock et al. 2019): nearer to 0 gives fewer
                odd images and less variety; None leaves it whole. A seed keeps its row's direction, whatever the cut.
    """
    generator = torch.Generator()
    uniform = torch.stack(
        [torch.rand(sizes(shape), generator=generator.manual_seed(s), dtype=torch.float64) for s in seeds]
    )
    inside = 1.0 if truncation is None else math.erf(truncation / math.sqrt(2.0))
    # float32 has no larger erfinv than that of the last value below 1.
    signed = ((uniform * 2.0 - 1.0) * inside).clamp(-1.0 + 1e-9, 1.0 - 1e-9)
    return (torch.erfinv(signed) * math.sqrt(2.0)).float()


@torch.no_grad()
def images_of(generator: torch.nn.Module, noise: Tensor, batch_size: int = 64, labels: Tensor | None = None) -> Tensor:
    """uint8 images (N, 3, S, S) on the CPU for `noise` (N, *shape), of the classes `labels` (N,) where there are."""
    device = next(generator.parameters()).device
    inputs = [given.to(device).split(batch_size) for given in (noise, labels) if given is not None]
    return torch.cat([to_uint8(generator(*parts)).cpu() for parts in zip(*inputs)])
