# SPDX-License-Identifier: Apache-2.0
"""What a burn-in does on one device, over and over, with every result checked; runs in each rank of a group.

Speeds are those of gan_trainer.performance, so that the same floors apply to them. What is added here is load that
lasts, and results that are compared: a product of the same inputs must be the same to the last bit, and a pattern in
memory must be read back as it was written.
"""

from __future__ import annotations

import os
import statistics
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from gan_trainer.performance import measures
from gan_trainer.performance.placement import PlacementError, pci_address
from gan_trainer.performance.program import Collector, measure_transfers
from product_bits import bits_of, comparable, numbers
from torch import Tensor

# Shares of each round: products heat a card most; what the measurements leave of it belongs to all-reduce.
PRODUCTS, MEMORY = 0.5, 0.2
# All bits off, all on, and both ways of alternating: neighbouring cells of memory differ.
PATTERNS = (0x00, 0xFF, 0xAA, 0x55)
CHUNK = 256 * measures.MIB
MEMORY_SHARE = 0.8
CPU_MEMORY = 32 * measures.MIB
CPU_EDGE = 256
MOST_FAULTS = 20
# Of a product to the first one, at the time, before the clock is looked at again.
PRODUCTS_AT_ONCE = 8


class Plan(NamedTuple):
    """How long one device works: seconds in all, and seconds of one round."""

    seconds: float
    round_s: float


class Found:
    """What one device has shown: figures over time, what was counted, and faults, at most MOST_FAULTS of them."""

    def __init__(self, device: str, begin: float) -> None:
        self.device, self.begin = device, begin
        self.series: dict[str, list[tuple[float, float]]] = {}
        self.left_out: dict[str, str] = {}
        self.counts = {"products": 0, "memory_bytes": 0, "faults": 0}
        self.faults: list[str] = []
        self.products: dict[str, Any] = {"of": "", "bits": {}}

    def at(self) -> float:
        return round(time.monotonic() - self.begin, 1)

    def point(self, name: str, value: float) -> None:
        self.series.setdefault(name, []).append((self.at(), float(f"{value:.4g}")))

    def fault(self, words: str) -> None:
        self.counts["faults"] += 1
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(f"{self.device}, {self.at():g} s after the start: {words}")

    def take(self, collector: Collector) -> None:
        """The values of one measurement as points of their series."""
        for name, value in collector.values.items():
            if value is not None:
                self.point(name, value)
        self.left_out.update(collector.left_out)
        for problem in collector.problems:
            self.fault(problem)

    def record(self, name: str, address: str | None) -> dict[str, Any]:
        return {
            "device": self.device,
            "name": name,
            "pci_id": address,
            "series": self.series,
            "counts": self.counts,
            "left_out": self.left_out,
            "faults": self.faults,
            "products": self.products,
        }


def multiply(left: Tensor, right: Tensor, out: Tensor) -> None:
    torch.mm(left, right, out=out)


def formats_of(device: torch.device) -> list[str]:
    """Number formats in which this device multiplies at full speed."""
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else None
    return [name for name in measures.FORMATS if not measures.why_no_format(name, capability)]


class Products:
    """Products of the same two matrices in one format, each compared with the first one to the last bit.

    The libraries promise equal bits for equal inputs, shapes and memory on one stream of one device, and here all four
    stay the same. The first product is held against double precision, since it is what all others are compared with.
    """

    def __init__(self, device: torch.device, name: str, edge: int) -> None:
        self.name = name
        dtype, self.precision = measures.FORMATS[name]
        self.left = numbers(device, edge, 0).to(dtype)
        self.right = numbers(device, edge, 1).to(dtype)
        self.out = torch.empty((edge, edge), dtype=dtype, device=device)
        self.first: Tensor | None = None

    def once(self) -> str:
        """Multiply; what is wrong with the result, "" if nothing is."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(self.precision)
        try:
            self.out.zero_()
            multiply(self.left, self.right, self.out)
        finally:
            torch.set_float32_matmul_precision(before)
        if self.first is None:
            error = self.error()
            if not error < measures.TOLERANCE:
                return f"the first product in {self.name} is wrong: off by {error:.2g} of its spread"
            self.first = self.out.clone()
            return ""
        if torch.equal(self.out, self.first):
            return ""
        wrong = int((self.out != self.first).sum())
        return f"{wrong} of {self.out.numel()} numbers of a product in {self.name} differ from the first product"

    def error(self) -> float:
        """The largest difference from a product in double precision, in a corner, relative to the numbers' spread."""
        corner = measures.CORNER
        exact = self.left[:corner].double() @ self.right[:, :corner].double()
        return float((self.out[:corner, :corner].double() - exact).abs().max().item() / self.left.shape[0] ** 0.5)


def burn_products(device: torch.device, products: list[Products], seconds: float, found: Found) -> None:
    """Multiply in all formats in turn for this long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for each in products:
            for _ in range(PRODUCTS_AT_ONCE):
                words = each.once()
                found.counts["products"] += 1
                if words:
                    found.fault(words)
            if time.monotonic() >= end:
                break


def memory_size(device: torch.device) -> int:
    """Bytes that are tried: most of what is free on a card, a fixed small part on a CPU."""
    if device.type != "cuda":
        return CPU_MEMORY
    return int(torch.cuda.mem_get_info(device)[0] * MEMORY_SHARE) // 2 * 2


def burn_memory(device: torch.device, seconds: float, found: Found) -> None:
    """Write each pattern, move it to the other half, read both back, at least once for each pattern."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    half = memory_size(device) // 2
    end = time.monotonic() + seconds
    source = torch.empty(half, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    while True:
        for pattern in PATTERNS:
            fill(source, pattern)
            target.copy_(source)
            for place, part in (("written", source), ("moved", target)):
                wrong = wrong_bytes(part, pattern)
                if wrong:
                    found.fault(f"{wrong} bytes are not 0x{pattern:02x} as they were {place}")
            found.counts["memory_bytes"] += 2 * half
        if time.monotonic() >= end:
            return


def fill(part: Tensor, pattern: int) -> None:
    part.fill_(pattern)


def wrong_bytes(part: Tensor, pattern: int) -> int:
    """How many bytes differ from the pattern; in chunks, since the comparison itself takes memory."""
    return sum(int((chunk != pattern).sum()) for chunk in part.split(CHUNK))


def burn_reduce(rank: int, device: torch.device, sizes: measures.Sizes, until: float, found: Found) -> None:
    """All-reduce over the ranks of this node until rank 0's clock says so, at least once; checks its sums."""
    rates = []
    while True:
        try:
            rates.append(measures.reduce_rank(rank, device, sizes))
        except measures.MeasureError as error:
            found.fault(f"all-reduce: {error}")
        if agreed(device, time.monotonic() >= until):
            break
    if rank == 0 and rates:
        found.point("all_reduce", statistics.median(rates))


def agreed(device: torch.device, answer: bool) -> bool:
    """Rank 0's answer, in all ranks: they must take part in the same number of rounds."""
    flag = torch.tensor([1.0 if answer else 0.0], device=device)
    dist.broadcast(flag, 0)
    return bool(flag.item())


def measure(rank: int, device: torch.device, address: str | None, sizes: measures.Sizes, found: Found) -> None:
    """One point of every series. Transfers are measured one rank after the other: cards share the way to the host."""
    collector = Collector(str(device))
    ranks = dist.get_world_size()
    for turn in range(ranks):
        if turn == rank:
            measure_transfers(collector, device, address, sizes)
            if device.type == "cuda" and ranks > 1:
                other = torch.device("cuda", (rank + 1) % ranks)
                collector.take(("p2p_gb_s",), partial(one_peer, device, other, sizes))
        dist.barrier()
    collector.take(("copy_gb_s",), lambda: (measures.copy_rate(device, sizes),))
    for name in formats_of(device):
        work: Callable[[], tuple[float, ...]] = partial(one_product, device, name, sizes)
        collector.take((f"matmul_{name}_tflops",), work)
    found.take(collector)


def one_peer(device: torch.device, other: torch.device, sizes: measures.Sizes) -> tuple[float]:
    return (measures.peer_rate(device, other, sizes),)


def one_product(device: torch.device, name: str, sizes: measures.Sizes) -> tuple[float]:
    return (measures.product_rate(device, name, sizes),)


def burn_rank(rank: int, device: torch.device, plan: Plan) -> dict[str, Any]:
    """One device's burn-in: its record. Runs in each rank of `run_ranks`, a rank for each card."""
    # cuBLAS promises equal bits only with a workspace of fixed size.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    begin = time.monotonic()
    found = Found(str(device), begin)
    on_gpu = device.type == "cuda"
    sizes = measures.GPU_SIZES if on_gpu else measures.CPU_SIZES
    address = None
    if on_gpu:
        try:
            address = pci_address(device.index)
        except PlacementError as error:
            found.fault(str(error))
    edge = sizes.edge if on_gpu else CPU_EDGE
    while True:
        start = time.monotonic()
        try:
            products = [Products(device, name, edge) for name in formats_of(device)]
            burn_products(device, products, plan.round_s * PRODUCTS, found)
            if not found.products["of"]:
                bits = {each.name: bits_of(each.first) for each in products if each.first is not None}
                found.products = {"of": comparable(device, edge), "bits": bits}
            del products
            burn_memory(device, plan.round_s * MEMORY, found)
        # A card that is lost, or has no memory left; ranks that wait for this one must not wait for ever.
        except RuntimeError as error:
            traceback.print_exc()
            found.fault(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
        measure(rank, device, address, sizes, found)
        if dist.get_world_size() > 1:
            burn_reduce(rank, device, sizes, max(start + plan.round_s, time.monotonic()), found)
        if agreed(device, time.monotonic() - begin >= plan.seconds):
            break
    return found.record(torch.cuda.get_device_name(device) if on_gpu else "CPU", address)
