# SPDX-License-Identifier: Apache-2.0
"""How fast one device moves and multiplies, each as the median of timed rounds after a warm-up.

Every measurement also checks its result: speed does not count if a card computes or copies wrongly. The same code
runs on a CPU at small sizes, where it says nothing about a GPU.
"""

from __future__ import annotations

import ctypes
import mmap
import statistics
import time
from contextlib import contextmanager
from typing import Callable, Iterator, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

MIB = 1 << 20
CORNER = 8
# Of a product of unit normal numbers, relative to its own spread; rounding to bfloat16 stays far below.
TOLERANCE = 0.05
# The same of products of float32: TF32 rounds factors to 10 bits of 23, and stays above this at any size of a matrix.
EXACT = 1e-4


class MeasureError(RuntimeError):
    """A measurement gave no number; the text says why."""


class NotApplicable(MeasureError):
    """This device has no such thing."""


class Sizes(NamedTuple):
    """How much is moved and multiplied: bytes, length of a matrix' edge, rounds, and seconds of warm-up."""

    transfer: int
    copy: int
    edge: int
    reduce: int
    rounds: int
    warm_up: float


GPU_SIZES = Sizes(256 * MIB, 1024 * MIB, 8192, 1024 * MIB, 15, 0.5)
CPU_SIZES = Sizes(2 * MIB, 8 * MIB, 128, 4 * MIB, 5, 0.0)


def median_seconds(device: torch.device, work: Callable[[], object], sizes: Sizes) -> float:
    """The median time of `work` over the rounds, by CUDA events on a GPU: the clock of the device that works."""
    on_gpu = device.type == "cuda"
    end = time.perf_counter() + sizes.warm_up
    while True:
        work()
        if on_gpu:
            torch.cuda.synchronize(device)
        if time.perf_counter() >= end:
            break
    if not on_gpu:
        times = []
        for _ in range(sizes.rounds):
            begin = time.perf_counter()
            work()
            times.append(time.perf_counter() - begin)
        return statistics.median(times)
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(sizes.rounds)]
    for begin_event, end_event in events:
        begin_event.record()
        work()
        end_event.record()
    torch.cuda.synchronize(device)
    return statistics.median(first.elapsed_time(last) for first, last in events) / 1000.0


def random_bytes(count: int, device: str | torch.device) -> Tensor:
    return torch.randint(0, 256, (count,), dtype=torch.uint8, device=device)


@contextmanager
def host_buffer(size: int, pin: bool) -> Iterator[Tensor]:
    """New bytes in host memory, pinned for a GPU; their pages are on the NUMA node where the calling thread runs.

    Not from torch's allocators: those reuse pages that an earlier caller has placed elsewhere.
    """
    buffer = torch.frombuffer(mmap.mmap(-1, size), dtype=torch.uint8)
    # By this thread only: a page is placed next to the thread that touches it first.
    ctypes.memset(buffer.data_ptr(), 0, size)
    if pin and int(torch.cuda.cudart().cudaHostRegister(buffer.data_ptr(), size, 0)):
        raise MeasureError(f"the driver does not pin {size} bytes of the host's memory")
    try:
        yield buffer
    finally:
        if pin:
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaHostUnregister(buffer.data_ptr())


def transfer_rates(device: torch.device, sizes: Sizes) -> tuple[float, float]:
    """GB/s from the host to the device and back, the host's memory being next to the calling thread."""
    pin = device.type == "cuda"
    with host_buffer(sizes.transfer, pin) as host, host_buffer(sizes.transfer, pin) as back:
        host.copy_(random_bytes(sizes.transfer, "cpu"))
        there = torch.empty(sizes.transfer, dtype=torch.uint8, device=device)
        down = median_seconds(device, lambda: there.copy_(host, non_blocking=True), sizes)
        up = median_seconds(device, lambda: back.copy_(there, non_blocking=True), sizes)
        if not torch.equal(host, back):
            raise MeasureError("what came back is not what was sent")
    return sizes.transfer / down / 1e9, sizes.transfer / up / 1e9


def copy_rate(device: torch.device, sizes: Sizes) -> float:
    """GB/s of a copy inside the device's memory, counting both what is read and what is written."""
    count = sizes.copy
    if device.type == "cuda":
        count = min(count, torch.cuda.mem_get_info(device)[0] // 4)
    source = random_bytes(count, device)
    target = torch.empty_like(source)
    seconds = median_seconds(device, lambda: target.copy_(source), sizes)
    if not torch.equal(source, target):
        raise MeasureError("the copy is not what was copied")
    return 2 * count / seconds / 1e9


# name of a measure: (number format, precision of float32 products); "high" is TF32 where the card has it
FORMATS = {
    "fp16": (torch.float16, "highest"),
    "bf16": (torch.bfloat16, "highest"),
    "tf32": (torch.float32, "high"),
    "fp32": (torch.float32, "highest"),
}


def why_no_format(name: str, capability: tuple[int, int] | None) -> str:
    """Why a GPU of this compute capability does not compute in a format at full speed, "" if it does."""
    words = "compute capability {}.{} has {}"
    if capability is None:
        return ""
    if name in ("bf16", "tf32") and capability < (8, 0):
        return words.format(*capability, "bfloat16 by emulation only" if name == "bf16" else "no TF32")
    if name == "fp16" and capability < (7, 0) and capability != (6, 0):
        return words.format(*capability, "float16 at a small part of float32's rate")
    return ""


def product_rate(device: torch.device, name: str, sizes: Sizes) -> float:
    """TFLOP/s of a product of two square matrices in the format `name`."""
    dtype, precision = FORMATS[name]
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        generator = torch.Generator(device).manual_seed(0)
        shape = (sizes.edge, sizes.edge)
        left = torch.randn(shape, generator=generator, device=device).to(dtype)
        right = torch.randn(shape, generator=generator, device=device).to(dtype)
        out = torch.empty(shape, dtype=dtype, device=device)
        seconds = median_seconds(device, lambda: torch.mm(left, right, out=out), sizes)
    finally:
        torch.set_float32_matmul_precision(before)
    exact = left[:CORNER].double() @ right[:, :CORNER].double()
    error = (out[:CORNER, :CORNER].double() - exact).abs().max().item() / sizes.edge**0.5
    if wrong := why_wrong(name, error, device.type == "cuda"):
        raise MeasureError(wrong)
    return 2.0 * sizes.edge**3 / seconds / 1e12


def why_wrong(name: str, error: float, on_gpu: bool) -> str:
    """Why a product that is off by `error` of its spread is none in the format `name`, "" if it is one.

    The variable NVIDIA_TF32_OVERRIDE counts more than what torch asks for, and would give one format the other's speed.
    """
    if not error < TOLERANCE:
        return f"the product is wrong: off by {error:.2g} of its spread"
    if name == "fp32" and error > EXACT:
        return f"the factors were rounded (off by {error:.2g} of its spread): this is no product in fp32"
    if name == "tf32" and on_gpu and error < EXACT:
        return "TF32 is off: is NVIDIA_TF32_OVERRIDE set?"
    return ""


def peer_rate(device: torch.device, other: torch.device, sizes: Sizes) -> float:
    """GB/s from one GPU to another one, without the host between them."""
    if not torch.cuda.can_device_access_peer(device, other):
        raise NotApplicable(f"{device} cannot reach the memory of {other}")
    source = random_bytes(sizes.transfer, device)
    target = torch.empty(sizes.transfer, dtype=torch.uint8, device=other)
    with torch.cuda.device(device):
        seconds = median_seconds(device, lambda: target.copy_(source, non_blocking=True), sizes)
    torch.cuda.synchronize(other)
    # Compared on the host: a broken path between the two must not judge itself.
    if not torch.equal(source.cpu(), target.cpu()):
        raise MeasureError(f"what {other} got is not what {device} sent")
    return sizes.transfer / seconds / 1e9


def reduce_rank(rank: int, device: torch.device, sizes: Sizes) -> float:
    """GB/s that all-reduce moves over the slowest link (bus bandwidth of nccl-tests); runs in each rank of a group."""
    count = dist.get_world_size()
    probe = torch.full((1024,), float(rank + 1), device=device)
    dist.all_reduce(probe)
    if not torch.all(probe == count * (count + 1) / 2):
        raise MeasureError("the sum over all ranks is wrong")
    size = sizes.reduce
    if device.type == "cuda":
        size = min(size, torch.cuda.mem_get_info(device)[0] // 4)
    numbers = torch.zeros(size // 4, device=device)
    seconds = median_seconds(device, lambda: dist.all_reduce(numbers), sizes._replace(warm_up=0.0))
    return 2.0 * (count - 1) / count * numbers.numel() * 4 / seconds / 1e9
