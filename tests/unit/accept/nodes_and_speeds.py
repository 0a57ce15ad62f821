"""Made-up nodes for the acceptance: what a group of them measures, and what one of them records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpuwright.node.plugins.plugin_utils.accept import tournament

SHARE = 0.1
Fault = Callable[[Sequence[str]], str]


class Cluster:
    """Nodes with a speed each; a group is as slow as its slowest node, or fails with what `fault` says of it."""

    def __init__(self, speeds: Mapping[str, float], fault: Fault = lambda group: "", gone: Sequence[str] = ()) -> None:
        self.speeds, self.fault, self.gone = dict(speeds), fault, gone
        self.slow_switch: set[str] = set()
        self.history: list[Any] = []

    def run(self, group: Sequence[str]) -> dict[str, Any]:
        problem = self.fault(group)
        speed = min(self.speeds[name] for name in group)
        if len(group) > 2 and set(group) & self.slow_switch and not set(group) <= self.slow_switch:
            speed *= 0.1
        figures = None if problem else {"reduce_gb_s": speed, "steps_per_s": 10 * speed}
        return {"group": list(group), "figures": figures, "problem": problem, "own_product_s": {}}

    def play(self) -> tournament.Standing:
        """The whole tournament; a node that dies takes part in the first round only."""
        nodes = list(self.speeds)
        for _ in range(40):
            alive = [name for name in nodes if not self.history or name not in self.gone]
            step = tournament.next_step(nodes, alive, self.history, SHARE)
            if not step.groups:
                return tournament.standing(nodes, self.history, SHARE)
            used = [name for group in step.groups for name in group]
            assert len(used) == len(set(used)), "a node works in one group at a time"
            self.history.append({"kind": step.kind, "results": [self.run(group) for group in step.groups]})
        raise AssertionError("the tournament does not end")

    def kinds(self) -> list[str]:
        return [row["kind"] for row in self.history]


def speeds(count: int, **slow: float) -> dict[str, float]:
    return {**{f"n{number}": 1.0 for number in range(1, count + 1)}, **slow}


def device(name: str = "Tesla V100-PCIE-16GB", index: int = 0, factor: float = 1.0, **more: Any) -> dict[str, Any]:
    """One device's record; its figures are those of a healthy V100 times `factor`."""
    healthy = {"copy_gb_s": 760.0, "h2d_gb_s": 12.0, "d2h_gb_s": 12.5, "matmul_fp32_tflops": 13.4}
    series = {key: [[10.0 * at, value * factor] for at in range(10)] for key, value in healthy.items()}
    kept = {"device": f"cuda:{index}", "name": name, "pci_id": "0000:3b:00.0", "series": series, "faults": []}
    return {**kept, "counts": {"products": 1000, "memory_bytes": 1 << 30, "faults": 0}, "left_out": {}, **more}


def answer(*devices: dict[str, Any], kind: str = "cuda", **more: Any) -> dict[str, Any]:
    """What on_node.py prints for a node's own burn-in."""
    record = {"schema": 1, "kind": "node", "device": kind, "torch": "2.10.0+cu128", "cuda": "12.8", "seconds": 3600}
    watched = {"looks": [look(0.0, 0), look(3600.0, 0)]} if kind == "cuda" else {}
    return {
        "record": {**record, "devices": list(devices), "problems": []},
        "problem": "",
        "round": 0,
        **watched,
        **more,
    }


def look(at: float, errors: int | None) -> dict[str, Any]:
    """What nvidia-smi says at one moment of the one card; errors: None where it has no ECC."""
    return {"at_s": at, "gpus": [{"pci_id": "0000:3b:00.0", "ecc_uncorrected_volatile": errors}]}
