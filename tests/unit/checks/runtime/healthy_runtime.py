"""What the readings say of the launcher and its allocators where every check passes."""

from __future__ import annotations

from typing import Any

from node_names import Changes

RANKS: list[dict[str, Any]] = [
    {
        "pid": 4321,
        "name": "python",
        "cpus": "0-9",
        "cores": "0-9",
        "threads": 10,
        "cards": ["0000:3b:00.0"],
        "near": "0-9,20-29",
        "memory_mib": 4096,
        "far_mib": 12,
    },
    {
        "pid": 4322,
        "name": "python",
        "cpus": "10-19",
        "cores": "10-19",
        "threads": 10,
        "cards": ["0000:af:00.0"],
        "near": "10-19,30-39",
        "memory_mib": 4096,
        "far_mib": 255,
    },
]

READINGS: dict[str, Any] = {
    "ranks": [],
    "allocators": {
        "jemalloc": {"path": "/usr/lib64/libjemalloc.so.2", "problem": "none"},
        "tcmalloc": {"path": "/usr/lib64/libtcmalloc_minimal.so.4", "problem": "none"},
    },
    "launcher": {
        "file": {"is_file": True, "executable": True, "mode": "0755", "unsafe": ""},
        "policy": "ok",
        "allocator": {"name": "malloc", "why": "not calibrated on this machine: gpu-run --calibrate -- command"},
    },
}
# Checks that make sense on other nodes only, and what makes this one such a node.
OTHER_NODES: dict[str, Changes] = {"runtime.ranks": {("ranks",): RANKS}}
