"""The parts in the order of their value, with their share of nine minutes and what they need."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from . import gpu, host, launcher, training
from .context import Context

# Needs: nothing, an interpreter with PyTorch, or one under which the trainer can be imported. Without a card such a
# part runs as a trial of its code on the CPU.
NOTHING, TORCH, TRAINER = "", "torch", "trainer"


class Part(NamedTuple):
    """`seconds`: its share of a run of nine minutes. `least`: with less it is not begun."""

    name: str
    title: str
    seconds: float
    least: float
    needs: str
    work: Callable[[Context], None]


PARTS = (
    Part("machine", "This machine, its PyTorch and its cards", 30, 5, NOTHING, host.machine),
    Part("scan", "gpu-doctor's scan, with every raw answer", 20, 5, NOTHING, host.scan),
    Part("compilers", "What the host can compile", 50, 10, TORCH, host.compilers),
    Part("bench", "The trainer beside other loops", 190, 20, TRAINER, training.bench),
    Part("performance", "The verification's measurements, beside their floors", 30, 5, TORCH, gpu.performance),
    Part("smoke", "The smoke test, in all number formats", 35, 8, TRAINER, gpu.smoke),
    Part("launcher", "gpu-run beside numactl and bare", 45, 15, TRAINER, launcher.launcher),
    Part("burn_in", "The acceptance's burn-in, for a minute", 80, 20, TORCH, gpu.burn_in),
    Part("process_group", "PyTorch's process group, with CUDA graphs", 35, 10, TORCH, gpu.process_group),
    Part("tables", "The A5 servers' tables, for this card", 45, 15, TRAINER, training.tables),
    Part("phases", "Memory of each phase of a step", 20, 8, TRAINER, training.phases),
    Part("plan", "The plan for this host", 10, 3, NOTHING, host.plan),
    Part("bounds", "What bounds a step of the trainer", 30, 10, TRAINER, training.bounds),
    Part("calibration", "gpu-run's calibration", 110, 30, TRAINER, launcher.calibration),
)
BY_NAME = {part.name: part for part in PARTS}
# Minutes that the shares are made for.
MINUTES = 9.0
