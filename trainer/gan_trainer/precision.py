# SPDX-License-Identifier: Apache-2.0
"""Which number format the networks compute in, and why.

Every path has the same two objects, an autocast context and a GradScaler; if they have nothing to do, they are
switched off, not left out, so that the training step is written once.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple

import torch

from .errors import UsageError

Capability = Optional[Tuple[int, int]]


class Precision(NamedTuple):
    """A number format: `name` is fp32, tf32, fp16 or bf16, `because` one sentence."""

    name: str
    because: str

    @property
    def dtype(self) -> torch.dtype:
        return {"fp16": torch.float16, "bf16": torch.bfloat16}.get(self.name, torch.float32)


class PrecisionError(UsageError):
    """The hardware cannot do what the configuration asks for."""


def choose_precision(wanted: str, capability: Capability) -> Precision:
    """Resolve auto, fp32, tf32, fp16 or bf16 for a GPU of this CUDA compute capability, None for a CPU.

    bf16 is never emulated: `torch.cuda.is_bf16_supported()` says yes to a V100 that can only emulate it, so the compute
    capability decides. Raises PrecisionError.
    """
    if capability is None:
        return _choose_for_cpu(wanted)
    version = "compute capability {}.{}".format(*capability)
    if wanted in ("bf16", "tf32") and capability < (8, 0):
        raise PrecisionError(
            f"precision: {wanted} needs compute capability 8.0 and this GPU has {version}; use auto or fp16"
        )
    if wanted != "auto":
        return Precision(wanted, "asked for")
    if capability >= (8, 0):
        return Precision("bf16", f"{version}: bfloat16 in hardware, and its range needs no loss scaling")
    if capability >= (7, 0):
        return Precision("fp16", f"{version}: float16 in hardware with loss scaling, bfloat16 only by emulation")
    return Precision("fp32", f"{version}: without tensor cores half precision gains nothing")


def _choose_for_cpu(wanted: str) -> Precision:
    if wanted in ("fp16", "tf32"):
        raise PrecisionError(f"precision: {wanted} needs a GPU; use fp32 or auto")
    if wanted == "bf16":
        return Precision("bf16", "trial on the CPU: bfloat16 autocast, correct in its results and slow on most CPUs")
    return Precision("fp32", "asked for" if wanted == "fp32" else "on a CPU: half precision gains nothing")


def set_tf32(precision: Precision) -> None:
    """fp32 means all 23 bits of fraction, in convolutions too, where torch's own default is TF32's 10."""
    torch.backends.cudnn.allow_tf32 = precision.name != "fp32"
    torch.set_float32_matmul_precision("highest" if precision.name == "fp32" else "high")


def autocast(precision: Precision, device_type: str) -> Any:
    """The context in which networks and losses run forward."""
    enabled = precision.dtype != torch.float32
    # A disabled context still checks its dtype on older torch, and float32 would earn a warning.
    return torch.autocast(device_type, dtype=precision.dtype if enabled else torch.bfloat16, enabled=enabled)


def make_scaler(precision: Precision) -> Any:
    """A GradScaler, switched on only for fp16; torch.amp has it since 2.3, torch.cuda.amp warns since 2.4."""
    enabled = precision.name == "fp16"
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler("cuda", enabled=enabled)
    return torch.cuda.amp.GradScaler(enabled=enabled)
