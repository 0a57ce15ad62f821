"""How long the plan takes to answer: `make bench-plan`, questions drawn from all cards, systems, profiles, some pins.

CPU time of single answers, then the best of six of the slowest: the first says what other work does to them.
"""

from __future__ import annotations

import importlib
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "tests/node_library"), str(REPOSITORY / "collections")]
sys.path[:0] = [*map(str, (REPOSITORY / "tests/unit").glob("**"))]

NAMES = importlib.import_module("gpuwright.gpu.devices").NAMES
PLAN = "ansible_collections.gpuwright.node.plugins.plugin_utils.plan"
imagined_host = importlib.import_module(f"{PLAN}.question").imagined_host
solve = importlib.import_module(f"{PLAN}.solve").solve
MATRIX = importlib.import_module("test_plan_questions").MATRIX

QUESTIONS, SLOWEST, TRIES = 2000, 60, 6
PINS: list[dict[str, str]] = [
    {},
    {"driver_branch": "590"},
    {"driver_flavour": "open"},
    {"cuda": "13.0"},
    {"pytorch": "2.15"},
    {"python": "3.12"},
    {"python": "3.8", "pytorch": "2.5"},
    {"cuda": "12", "tensorflow": "2", "nccl": "2"},
    {"driver_branch": "590", "cuda": "10.2", "python": "3.6", "pytorch": "2.9", "tensorflow": "2.21", "nccl": "2"},
]


def milliseconds(host: dict[str, Any], pins: dict[str, str]) -> float:
    start = time.process_time()
    solve(MATRIX, host, pins)
    return (time.process_time() - start) * 1000


def main() -> None:
    systems = [f"{row['id']} {row['version']}" for row in MATRIX["os_releases"]]
    every = [
        (d, s, {**p, "profile": f}) for d in sorted(NAMES) for s in systems for f in MATRIX["profiles"] for p in PINS
    ]
    drawn = random.Random(0).sample(every, QUESTIONS)
    rows = sorted(
        ((milliseconds(imagined_host(f"10de:{d}", s), p), d, s, p) for d, s, p in drawn), key=lambda row: -row[0]
    )
    times = [row[0] for row in rows]
    print(f"{QUESTIONS} of {len(every)} questions, ms of CPU time: median {statistics.median(times):.1f}, ", end="")
    print(f"99 % {times[QUESTIONS // 100]:.1f}, most {times[0]:.1f}")
    best = [
        (min(milliseconds(imagined_host(f"10de:{d}", s), p) for _ in range(TRIES)), d, s, p)
        for _, d, s, p in rows[:SLOWEST]
    ]
    most = max(best, key=lambda row: row[0])
    print(f"best of {TRIES} of the {SLOWEST} slowest: most {most[0]:.1f} (10de:{most[1]}, {most[2]}, {most[3]})")


if __name__ == "__main__":
    main()
