"""Run arms in turn and compare each with the bare one of its own round."""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from arms import BARE, Arm
from gpuwright.launch.calibration.rule import MOST_SPREAD, spread

WORKLOADS = Path(__file__).with_name("workloads.py")


class Failed(RuntimeError):
    """A command of an arm ended badly; the text says which and how."""


def run(arm: Arm, python: str, *words: str, timeout: float = 900) -> dict:
    """The JSON object that the workload printed under this arm."""
    done = subprocess.run(
        arm.command(python, str(WORKLOADS), *words),
        env=arm.full_environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
    )
    lines = [line for line in done.stdout.splitlines() if "RESULT {" in line]
    if done.returncode != 0 or not lines:
        raise Failed(f"{arm.name}: exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}")
    result = json.loads(lines[-1].partition("RESULT ")[2])
    wrong = why_not(arm, result.pop("allocators"), result.pop("malloc_conf"), done.stderr)
    if wrong:
        raise Failed(f"{arm.name}: {wrong}")
    return result


def why_not(arm: Arm, loaded: list[str], conf: str, said: str) -> str:
    """Why the process of an arm did not allocate as its name says, "" if it did."""
    missing = [name for name in arm.allocators if name not in loaded]
    if missing:
        return f"{', '.join(missing)} was not loaded, so this row would be the default allocator's"
    # A launcher without an allocator in its name chooses for itself.
    if arm.prefix and not arm.allocators:
        return ""
    others = [name for name in loaded if name not in arm.allocators]
    if others:
        return f"it has loaded {', '.join(others)}, which its name does not say"
    wanted = arm.environment.get("MALLOC_CONF", "")
    if conf != wanted:
        return f"MALLOC_CONF is {conf!r}, not {wanted!r}"
    # jemalloc goes on without what it does not understand.
    return next((line.strip() for line in said.splitlines() if line.startswith("<jemalloc>")), "")


def start_of(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Milliseconds of wall and of CPU time, user and system, of a command that must succeed."""
    with Path("/dev/null").open("r+b") as null:
        # Not fork: copying this large process would count as CPU time of the command.
        start = time.perf_counter()
        files = [(os.POSIX_SPAWN_DUP2, null.fileno(), number) for number in (0, 1)]
        pid = os.posix_spawnp(command[0], command, environment, file_actions=files)
        _, status, usage = os.wait4(pid, 0)
        seconds = time.perf_counter() - start
    if status != 0:
        raise Failed(f"{command[0]}: exit code {os.waitstatus_to_exitcode(status)}")
    return {"ms": 1000 * seconds, "CPU ms": 1000 * (usage.ru_utime + usage.ru_stime)}


def interleave(arms: list[Arm], rounds: int, once: Callable[[Arm], dict], label: str) -> list[dict[str, dict]]:
    """[{arm: values}] of rounds in which every arm ran once, in another order each time; one warm-up is thrown away."""
    order = random.Random(0)
    once(arms[0])
    results = []
    for number in range(rounds):
        values = {}
        for arm in order.sample(arms, len(arms)):
            values[arm.name] = once(arm)
        results.append({arm.name: values[arm.name] for arm in arms})
        print(f"{label}: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return results


def compare(rounds: list[dict[str, dict]], metric: str, higher_is_better: bool) -> dict:
    """For every arm its median and the median of its paired ratios to bare (above 1: better than bare).

    `spread` is the bare arm's own; where it exceeds the limit, ratios are left out: they would be noise.
    """
    base = [values[BARE][metric] for values in rounds]
    own = spread(base)
    table = {}
    for arm in rounds[0]:
        here = [values[arm][metric] for values in rounds]
        ratios = [a / b if higher_is_better else b / a for a, b in zip(here, base, strict=True)]
        row = {"median": statistics.median(here), "spread": spread(here)}
        if own <= MOST_SPREAD:
            row |= {"ratio": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)}
        table[arm] = row
    return {"metric": metric, "higher_is_better": higher_is_better, "spread": own, "arms": table}


def interval(values: list[float]) -> tuple[float, float]:
    """Lowest and highest value that the median may have, with 95 % confidence or more where there are six or more.

    Order statistics, so nothing is supposed of the noise: of n values, as many are left out at both ends as a fair coin
    shows heads in n throws at most once in forty. Fewer than six tell less: all of them are the interval.
    """
    ordered, left_out = sorted(values), 0
    tail = 0.0
    while left_out < len(values) // 2:
        tail += math.comb(len(values), left_out) / 2 ** len(values)
        if tail > 0.025:
            break
        left_out += 1
    first = max(left_out - 1, 0)
    return ordered[first], ordered[-1 - first]


def verdict(comparison: dict, ours: str, others: list[str], rounds: list[dict[str, dict]]) -> dict | None:
    """How `ours` does beside the one of `others` that it looks worst beside, round by round: {other, ratio, interval}.

    None where bare's own spread exceeds the limit: what is withheld of the arms is withheld here too.
    """
    metric, up = comparison["metric"], comparison["higher_is_better"]
    if comparison["spread"] > MOST_SPREAD:
        return None

    def paired(other: str) -> list[float]:
        pairs = [(values[ours][metric], values[other][metric]) for values in rounds]
        return [a / b if up else b / a for a, b in pairs]

    best = min(others, key=lambda other: statistics.median(paired(other)))
    return {"other": best, "ratio": statistics.median(paired(best)), "interval": list(interval(paired(best)))}


def cost_verdict(ours: str, rounds: list[dict[str, dict]], metric: str, most: float) -> str:
    """What a start through `ours` adds to a bare one, against the goal; milliseconds."""
    added = [values[ours][metric] - values[BARE][metric] for values in rounds]
    lowest, highest = interval(added)
    word = "met" if highest <= most else "missed" if lowest > most else "not told"
    found = f"adds {statistics.median(added):.1f} ms (95 % interval {lowest:.1f} to {highest:.1f})"
    return f"{found}; goal at most {most:g} ms: {word}"
