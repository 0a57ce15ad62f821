# SPDX-License-Identifier: Apache-2.0
"""How much memory each phase of a training holds, and an allocator that wastes less of it."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any, NamedTuple

import torch

MIB = 1 << 20


class Reading(NamedTuple):
    """Bytes. On a GPU as PyTorch's allocator counts them, on a CPU of the whole process (nothing is `reserved`)."""

    allocated: int
    reserved: int | None
    peak: int
    total: int


def read_memory(device: torch.device) -> Reading:
    """Read the memory in use; does not wait, since the allocator counts on the CPU."""
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        held, reserved = torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)
        return Reading(held, reserved, torch.cuda.max_memory_allocated(device), total)
    page = os.sysconf("SC_PAGE_SIZE")
    resident = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * page
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Reading(resident, None, max(peak, resident), os.sysconf("SC_PHYS_PAGES") * page)


class MemoryReport:
    """One line for each phase of the first step: networks, discriminator, generator, update."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.phases: dict[str, dict[str, Any]] = {}

    def note(self, phase: str) -> None:
        """Read the memory at the end of a phase, and begin to look for the next one's peak."""
        now = read_memory(self.device)
        self.phases[phase] = {
            "allocated_mib": now.allocated // MIB,
            "reserved_mib": None if now.reserved is None else now.reserved // MIB,
            "peak_mib": now.peak // MIB,
            "fraction": round((now.reserved or now.allocated) / now.total, 4),
        }
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)

    def table(self) -> str:
        """For people: MiB, and the share of the card in use; of a CPU without what is reserved."""
        on_gpu = self.device.type == "cuda"
        keys = ("allocated_mib", "reserved_mib", "peak_mib") if on_gpu else ("allocated_mib", "peak_mib")
        heads = [key.replace("_mib", " MiB") for key in keys] + ["of the card" if on_gpu else "of the memory"]
        rows = [f"{'phase':<14}" + "".join(f"{head:>15}" for head in heads)]
        for phase, line in self.phases.items():
            numbers = "".join(f"{line[key]:>15}" for key in keys)
            rows.append(f"{phase:<14}{numbers}{line['fraction']:>15.1%}")
        return "\n".join(rows)


def use_expandable_segments(environment: dict[str, str] | os._Environ) -> None:
    """Let the allocator grow its blocks instead of adding new ones; to be called before the first use of the GPU.

    A setting made by the user takes precedence. Both names: 2.9 deprecates the old one, and 2.9.1 does not read this
    setting under the new one (pytorch issue 183387).
    """
    # torch 2.0 would refuse to start with an option that it does not know.
    if torch.__version__ < "2.1":
        return
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        if environment.get(name):
            return
    environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
