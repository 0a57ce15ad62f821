# SPDX-License-Identifier: Apache-2.0
"""Products that can be compared between cards and days: inputs that are equal everywhere, a digest of the bits."""

from __future__ import annotations

import ctypes
import hashlib

import torch
from torch import Tensor

DIGITS = 16


def numbers(device: torch.device, edge: int, which: int) -> Tensor:
    """A matrix of float32 with spread 1 whose bits are the same on every device: made from whole numbers.

    torch's own random numbers depend on the card's number of multiprocessors, and on the CPU's vectors.
    """
    found = torch.arange(which * edge * edge, (which + 1) * edge * edge, dtype=torch.int64, device=device)
    for _ in range(2):
        found = ((found >> 16 ^ found) * 0x45D9F3B) & 0xFFFFFFFF
    found = (found >> 16 ^ found) & 0xFFFFFF
    return ((found.to(torch.float32) / 2**23 - 1) * 3**0.5).view(edge, edge)


def bits_of(product: Tensor) -> str:
    """A digest of the numbers' bits, by which a product is compared with that of another card, or of another day."""
    data = product.cpu().contiguous()
    size = data.numel() * data.element_size()
    return hashlib.sha256((ctypes.c_char * size).from_address(data.data_ptr())).hexdigest()[:DIGITS]


def comparable(device: torch.device, edge: int) -> str:
    """What products must have in common, besides versions and the card's model, for their bits to be the same.

    cuBLAS promises equal bits for the same architecture and number of multiprocessors ("Results reproducibility").
    """
    if device.type != "cuda":
        return f"{edge} {torch.backends.cpu.get_cpu_capability()} {torch.get_num_threads()} threads"
    return f"{edge} {torch.cuda.get_device_properties(device).multi_processor_count} multiprocessors"
