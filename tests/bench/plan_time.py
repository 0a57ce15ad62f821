"""How long the plan takes to answer: `make bench-plan`, questions drawn from all cards, systems, profiles, some pins.

CPU time of single answers, then the best of six of the slowest: the first says what other work does to them. Written to
docs/benchmarks/plan-answers.json and plan-answers.md.
"""

from __future__ import annotations

import importlib
import json
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

OUT = REPOSITORY / "docs/benchmarks"
TEXT = """\
# How long the plan takes to answer

Written by `make bench-plan`; do not edit. {questions} of {possible} questions, each asked once: a card, a system, a
profile and one of {pins} sets of pins. {refusals} of them are refused. CPU time of one answer, in milliseconds:

| | median | 99 % | most |
|---|---|---|---|
| all | {median} | {most_of_99} | {most} |
| refusals | {refusal_median} | {refusal_most_of_99} | {refusal_most} |

Other work on the machine makes single answers up to twice as slow. The {slowest} slowest questions were asked {tries}
more times, and the best time of each was taken: none needs more than {best}.
"""


def milliseconds(host: dict[str, Any], pins: dict[str, str]) -> float:
    start = time.process_time()
    solve(MATRIX, host, pins)
    return (time.process_time() - start) * 1000


def summary(name: str, times: list[float]) -> dict[str, float]:
    """Median, the most of 99 % and the most of all, in milliseconds; `name` is put before each of their names."""
    ordered = sorted(times)
    most_of_99 = ordered[len(ordered) - 1 - len(ordered) // 100]
    values = {"median": statistics.median(ordered), "most_of_99": most_of_99, "most": ordered[-1]}
    return {name + key: round(value, 1) for key, value in values.items()}


def main() -> None:
    systems = [f"{row['id']} {row['version']}" for row in MATRIX["os_releases"]]
    every = [
        (d, s, {**p, "profile": f}) for d in sorted(NAMES) for s in systems for f in MATRIX["profiles"] for p in PINS
    ]
    asked = [(imagined_host(f"10de:{d}", s), p) for d, s, p in random.Random(0).sample(every, QUESTIONS)]
    times = [milliseconds(host, pins) for host, pins in asked]
    refused = [
        time for time, (host, pins) in zip(times, asked, strict=True) if "conflicts" in solve(MATRIX, host, pins)
    ]
    slowest = sorted(range(QUESTIONS), key=lambda place: -times[place])[:SLOWEST]
    found: dict[str, float] = {
        "questions": QUESTIONS,
        "possible": len(every),
        "pins": len(PINS),
        "refusals": len(refused),
        "slowest": SLOWEST,
        "tries": TRIES,
        **summary("", times),
        **summary("refusal_", refused),
        "best": round(max(min(milliseconds(*asked[place]) for _ in range(TRIES)) for place in slowest), 1),
    }
    (OUT / "plan-answers.json").write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")
    (OUT / "plan-answers.md").write_text(TEXT.format(**found))
    print(TEXT.format(**found))


if __name__ == "__main__":
    main()
