# SPDX-License-Identifier: Apache-2.0
"""One step of the tournament: all ranks of a group of nodes, started by torchrun on each, work together for a while.

Two speeds are measured. All-reduce back to back shows the slowest link; products in step, each followed by a sum over
all ranks that only takes as long as the last of them, show the slowest processor.
"""

from __future__ import annotations

import fcntl
import os
import socket
import statistics
import struct
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from gan_trainer.performance import measures
from work import CPU_EDGE, Products, agreed

SIOCGIFADDR = 0x8915
REDUCE_SHARE = 0.5
# Products of one step: long enough that the sum over the ranks costs little beside them.
STEP_PRODUCTS = 8


def own_address(peer: str, port: int) -> str:
    """The address from which this node reaches a peer; nothing is sent. OSError if there is no way to it."""
    family, kind, protocol, _name, place = socket.getaddrinfo(peer, port, socket.AF_INET, socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(place)
        return str(probe.getsockname()[0])


def interface_of(address: str) -> str:
    """The name of the network interface that has an IPv4 address; "" if none has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _index, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return ""


def choose_interface(peer: str, port: int) -> str:
    """Have NCCL and gloo use the network that leads to the rendezvous; a site's own choice is kept.

    Without it gloo takes the address of the host's own name, which on Debian is the loopback.
    """
    try:
        name = interface_of(own_address(peer, port))
    except OSError:
        return ""
    if name:
        for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ.setdefault(variable, name)
    return name


def work_together(device_kind: str, seconds: float, timeout: float) -> dict[str, Any]:
    """Join the group and measure; the record of this rank. Whatever torch raises ends the step."""
    rank, ranks, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    interface = choose_interface(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    device = torch.device(f"cuda:{local}" if device_kind == "cuda" else "cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    sizes = measures.GPU_SIZES if device.type == "cuda" else measures.CPU_SIZES
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=timedelta(seconds=timeout))
    rates = reduce_rates(rank, device, sizes, seconds * REDUCE_SHARE)
    steps, own, faults = steps_together(device, sizes, seconds * (1.0 - REDUCE_SHARE))
    dist.destroy_process_group()
    return {
        "rank": rank,
        "ranks": ranks,
        "interface": interface,
        "series": {"reduce_gb_s": rates, "steps_per_s": steps},
        "own_product_s": own,
        "faults": faults,
    }


def reduce_rates(rank: int, device: torch.device, sizes: measures.Sizes, seconds: float) -> list[float]:
    """GB/s over the slowest link, the median of each tenth of the time."""
    # The first one also sets up the connections.
    measures.reduce_rank(rank, device, sizes)
    end, medians = time.monotonic() + seconds, []
    while True:
        begin, rates = time.monotonic(), []
        while True:
            rates.append(measures.reduce_rank(rank, device, sizes))
            if agreed(device, time.monotonic() - begin >= seconds / 10):
                break
        medians.append(float(f"{statistics.median(rates):.4g}"))
        if agreed(device, time.monotonic() >= end):
            return medians


def steps_together(device: torch.device, sizes: measures.Sizes, seconds: float) -> tuple[list[float], float, list[str]]:
    """Steps a second in each tenth of the time, this rank's median seconds for its products, and wrong products."""
    products = Products(device, "fp32", sizes.edge if device.type == "cuda" else CPU_EDGE)
    rates: list[float] = []
    own: list[float] = []
    faults: list[str] = []
    one = torch.ones(1, device=device)
    end = time.monotonic() + seconds
    while True:
        begin, steps = time.monotonic(), 0
        while True:
            start = time.monotonic()
            faults += [words for words in (products.once() for _ in range(STEP_PRODUCTS)) if words]
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            own.append(time.monotonic() - start)
            dist.all_reduce(one.fill_(1.0))
            steps += 1
            if agreed(device, time.monotonic() - begin >= seconds / 10):
                break
        rates.append(float(f"{steps / (time.monotonic() - begin):.4g}"))
        if agreed(device, time.monotonic() >= end):
            return rates, float(f"{statistics.median(own):.4g}"), faults[:10]
