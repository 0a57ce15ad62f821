# SPDX-License-Identifier: Apache-2.0
"""python -m gan_trainer.performance: how fast this node's devices move data and multiply matrices.

Prints one line of JSON: numbers only, since the node's checks decide what is fast enough. It loads every GPU, so
they should be idle. Exit codes: 0 no problems, 1 problems, 2 wrong command line.
"""

from __future__ import annotations

import argparse
import json
import traceback
from functools import partial
from typing import Any, Callable

EXIT_PROBLEMS = 1
RANK_SECONDS = 120


def parse(arguments: list[str] | None) -> argparse.Namespace:
    summary = "Measure transfers, copies, matrix products and all-reduce on every GPU, or the same code on the CPU."
    parser = argparse.ArgumentParser("python -m gan_trainer.performance", description=summary, allow_abbrev=False)
    parser.add_argument("--device", choices=("cuda", "cpu"), required=True, help="what to measure")
    parser.add_argument("--json", action="store_true", help="one line of JSON instead of an indented one")
    return parser.parse_args(arguments)


def measure_node(device: str) -> dict[str, Any]:
    """The report; whatever goes wrong becomes one of its `problems`, and a value that could not be measured is null."""
    report: dict[str, Any] = {"schema": 1, "torch": None, "device": device, "devices": [], "all_reduce": None}
    report["problems"] = []
    try:
        import torch

        from . import measures
    # A broken installation fails in more ways than ImportError.
    except Exception as error:
        traceback.print_exc()
        report["problems"].append(f"torch cannot be imported: {error}")
        return report
    report["torch"] = torch.__version__
    if device == "cpu":
        torch.set_num_threads(1)
    count = torch.cuda.device_count() if device == "cuda" and torch.cuda.is_available() else 0
    if device == "cuda" and not count:
        report["problems"].append(f"cuda was requested; torch {torch.__version__} finds no usable GPU")
    sizes = measures.GPU_SIZES if device == "cuda" else measures.CPU_SIZES
    names = [f"cuda:{index}" for index in range(count)] if device == "cuda" else ["cpu"]
    for name in names:
        record, problems = measure_device(torch.device(name), count, sizes)
        report["devices"].append(record)
        report["problems"] += problems
    # Two processes on a CPU, so that this code is run there too.
    ranks = count if device == "cuda" else 2
    if ranks > 1:
        report["all_reduce"], problems = measure_all_reduce(device, ranks, sizes)
        report["problems"] += problems
    return report


class Collector:
    """Values of one device; null with a problem for what failed, null with a reason for what it does not have."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.values: dict[str, float | None] = {}
        self.left_out: dict[str, str] = {}
        self.problems: list[str] = []

    def take(self, names: tuple[str, ...], measure: Callable[[], tuple[float, ...]]) -> None:
        from .measures import NotApplicable

        try:
            found = measure()
        except NotApplicable as reason:
            self.skip(names, str(reason))
        # Of many kinds: no memory, no kernel image for the card, a card that is lost.
        except Exception as error:
            traceback.print_exc()
            words = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            self.values.update(dict.fromkeys(names))
            self.problems += [f"{self.device} {name}: {words}" for name in names]
        else:
            self.values.update((name, float(f"{value:.4g}")) for name, value in zip(names, found))

    def skip(self, names: tuple[str, ...], reason: str) -> None:
        self.values.update(dict.fromkeys(names))
        self.left_out.update(dict.fromkeys(names, reason))


def measure_device(device: Any, count: int, sizes: Any) -> tuple[dict[str, Any], list[str]]:
    """The record of one of `count` GPUs, or of the CPU, and what went wrong."""
    import torch

    from . import measures
    from .placement import PlacementError, pci_address

    on_gpu = device.type == "cuda"
    found = Collector(str(device))
    capability = torch.cuda.get_device_capability(device) if on_gpu else None
    address = None
    if on_gpu:
        torch.cuda.set_device(device)
        try:
            address = pci_address(device.index)
        except PlacementError as error:
            found.problems.append(f"{device}: {error}")

    def product(name: str) -> tuple[float]:
        return (measures.product_rate(device, name, sizes),)

    measure_transfers(found, device, address, sizes)
    found.take(("copy_gb_s",), lambda: (measures.copy_rate(device, sizes),))
    for name in measures.FORMATS:
        reason = measures.why_no_format(name, capability)
        if reason:
            found.skip((f"matmul_{name}_tflops",), reason)
        else:
            found.take((f"matmul_{name}_tflops",), partial(product, name))
    if count > 1:
        other = torch.device("cuda", (device.index + 1) % count)
        found.take(("p2p_gb_s",), lambda: (measures.peer_rate(device, other, sizes),))
    else:
        found.skip(("p2p_gb_s",), "there is no second GPU")
    record: dict[str, Any] = {"device": str(device), "name": torch.cuda.get_device_name(device) if on_gpu else "CPU"}
    record.update(pci_id=address, measures=found.values, left_out=found.left_out)
    if on_gpu:
        torch.cuda.empty_cache()
    return record, found.problems


def measure_transfers(found: Collector, device: Any, address: str | None, sizes: Any) -> None:
    """To the device and back, from the processors next to it and from those of another NUMA node."""
    from .measures import NotApplicable, transfer_rates
    from .placement import PlacementError, gpu_node, link_speed, numa_nodes, working_on

    near, far, link = ("h2d_gb_s", "d2h_gb_s"), ("h2d_remote_gb_s", "d2h_remote_gb_s"), ("link_gt_s",)
    nodes = numa_nodes()
    here = gpu_node(address) if address else -1
    others = sorted(set(nodes) - {here})

    def from_node(node: int) -> tuple[float, float]:
        with working_on(nodes[node]):
            return transfer_rates(device, sizes)

    def from_near() -> tuple[float, float]:
        try:
            return from_node(here) if here in nodes else transfer_rates(device, sizes)
        except PlacementError:
            # A container may not choose: then from wherever this process runs, and `from_far` gives the reason.
            return transfer_rates(device, sizes)

    def from_far() -> tuple[float, float]:
        try:
            return from_node(others[0])
        except PlacementError as error:
            raise NotApplicable(f"this process may not choose its NUMA node: {error}") from error

    found.take(near, from_near)
    if address is None:
        found.skip(link, "no PCIe address")
    else:
        # Just after a transfer, the link has not yet returned to its idle speed.
        found.take(link, lambda: (link_speed(address, "current"),))
    if here in nodes and others:
        found.take(far, from_far)
    else:
        found.skip(
            far, "the host has one NUMA node" if len(nodes) < 2 else "the host names no NUMA node of this device"
        )


def measure_all_reduce(device: str, ranks: int, sizes: Any) -> tuple[dict[str, Any] | None, list[str]]:
    """The slowest rank's rate over `ranks` GPUs, or over processes on a CPU."""
    from ..parallel.ranks import RankError, run_ranks
    from .measures import reduce_rank

    try:
        rates = run_ranks(reduce_rank, ranks, device, RANK_SECONDS, sizes)
    except RankError as error:
        return None, [f"all_reduce: {error}"]
    return {"gpus": ranks, "value": float(f"{min(rates):.4g}")}, []


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    report = measure_node(options.device)
    print(json.dumps(report, indent=None if options.json else 2), flush=True)
    return EXIT_PROBLEMS if report["problems"] else 0
