# SPDX-License-Identifier: Apache-2.0
"""Failures of the machine during training, as one sentence with numbers and what to do."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import torch

from ..config import Config
from ..errors import UserError
from ..runs.checkpoint import describe_full

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
SHARED_MEMORY = Path("/dev/shm")
MIB = 1 << 20


class MachineError(UserError):
    """Memory, disk or a data worker failed; the text says which, how much there was, and what to do."""


def explain(error: Exception, config: Config, device: torch.device) -> MachineError | None:
    """The error in one sentence, or None if it is not the machine's fault."""
    text = str(error)
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return MachineError(gpu_memory_full(config, device))
    if isinstance(error, MemoryError) or "DefaultCPUAllocator: can't allocate memory" in text:
        return MachineError(f"the host's memory is full at batch_size {config.batch_size}; lower it, or num_workers")
    # The data loader's own words for SIGBUS: a batch did not fit into shared memory.
    if isinstance(error, RuntimeError) and ("shared memory" in text or "Bus error" in text):
        return MachineError(shared_memory_full(config))
    if isinstance(error, RuntimeError) and "DataLoader worker" in text:
        return MachineError(
            f"a data worker was killed ({text.splitlines()[0]}); most often the host's memory is full: `dmesg` says so"
            ". Lower num_workers or prefetch_factor"
        )
    if isinstance(error, OSError) and error.errno in FULL:
        return MachineError(describe_full(Path(config.run_dir), error.strerror or "full"))
    if isinstance(error, OSError) and error.errno in (errno.EROFS, errno.EIO, errno.ESTALE):
        where = error.filename or config.run_dir
        return MachineError(f"{where}: {error.strerror}; the file system failed, look at `dmesg` and the mount")
    return None


def gpu_memory_full(config: Config, device: torch.device) -> str:
    free, total = torch.cuda.mem_get_info(device)
    return (
        f"the GPU's memory is full at batch_size {config.batch_size} and image_size {config.image_size}: "
        f"{torch.cuda.max_memory_allocated(device) // MIB} MiB allocated at most, {free // MIB} of {total // MIB} MiB "
        "free. Lower batch_size, or set accumulate: 2, activation_checkpointing: true or auto_batch: true; nvidia-smi "
        "shows who else uses the card"
    )


def shared_memory_full(config: Config) -> str:
    usage = shutil.disk_usage(SHARED_MEMORY)
    batch = config.batch_size * 3 * config.image_size**2
    return (
        f"{SHARED_MEMORY} is too small for the data workers: {usage.free // MIB} of {usage.total // MIB} MiB free, and "
        f"each of num_workers x prefetch_factor {config.prefetch_factor} batches takes {max(1, batch // MIB)} MiB. "
        "Lower them, or give a container more with --shm-size"
    )
