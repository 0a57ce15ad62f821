# SPDX-License-Identifier: Apache-2.0
"""Processes that decode images: how many, on which CPUs, and what they inherit."""

from __future__ import annotations

import os
import signal
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import torch

from .. import CPUS_AT_START
from ..parallel.distributed import Ranks
from ..stop_signal import STOP_SIGNALS

# More workers gain nothing: the disk or the memory bus becomes the limit.
MAX_WORKERS = 16
PCI_DEVICES = Path("/sys/bus/pci/devices")


def count_workers(cpus: int, processes: int) -> int:
    """Workers of one training process when `processes` share `cpus`: one CPU stays for the training itself."""
    return max(0, min(cpus // max(1, processes) - 1, MAX_WORKERS))


def too_few_cpus() -> str:
    """A line where Slurm was asked for more CPUs than this process may use, or ''."""
    told = os.environ.get("SLURM_CPUS_PER_TASK", "")
    if not (told.isascii() and told.isdecimal()) or int(told) <= len(CPUS_AT_START):
        return ""
    return (
        f"this process may use {len(CPUS_AT_START)} CPU(s) of the SLURM_CPUS_PER_TASK={told} that were asked for; from "
        "Slurm 22.05 on srun has to be told, too: srun --cpus-per-task, or SRUN_CPUS_PER_TASK"
    )


def default_workers(device: torch.device, ranks: Ranks) -> int:
    """From the CPUs of the GPU's NUMA node that this process may use, and the processes whose GPUs share that node."""
    if device.type != "cuda":
        return count_workers(len(CPUS_AT_START), ranks.local_world)
    own = cpus_near(pci_address(device.index or 0))
    sharing = sum(cpus_near(pci_address(index)) == own for index in range(min(ranks.local_world, gpus())))
    # Where each process sees its own GPU alone, the others' places are not known.
    sharing = ranks.local_world if gpus() < ranks.local_world else sharing
    # A launcher that binds each process has already divided the CPUs.
    bound = not own <= CPUS_AT_START and len(CPUS_AT_START) < (os.cpu_count() or 1)
    return count_workers(len(own & CPUS_AT_START or CPUS_AT_START), 1 if bound else sharing)


def gpus() -> int:
    return torch.cuda.device_count()


def pci_address(index: int) -> str:
    """Such as 0000:3b:00.0 for the GPU with this index; empty if torch (before 2.5) does not provide it."""
    # The types of torch do not list the address.
    gpu: Any = torch.cuda.get_device_properties(index)
    if not hasattr(gpu, "pci_bus_id"):
        return ""
    return f"{gpu.pci_domain_id:04x}:{gpu.pci_bus_id:02x}:{gpu.pci_device_id:02x}.0"


def cpus_near(address: str, devices: Path = PCI_DEVICES) -> set[int]:
    """CPUs of the NUMA node at which a PCI device is attached; every CPU at start if the kernel does not say."""
    try:
        # The kernel's list, such as 0-9,20-29. It has all CPUs if there is one node.
        text = (devices / address / "local_cpulist").read_text(encoding="ascii").strip() if address else ""
    except OSError:
        text = ""
    near: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        near.update(range(int(first), int(last or first) + 1))
    return near or set(CPUS_AT_START)


def prepare_worker(ending: Event, worker: int) -> None:
    """Undo in a data worker the harmful settings that it inherits, and let the trainer decide when it ends."""
    # OpenMP may have bound its parent to one core.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, CPUS_AT_START)
    # systemd and Slurm signal every process of a job, but the trainer still needs its workers: it saves first, and a
    # worker's death would tear it out of that. multiprocessing itself ends workers with SIGTERM, after `ending`.
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: ending.is_set() and os._exit(0))
