"""make bench-trainer: what can be measured of the trainer's speed on a CPU, beside what others do in the same run.

1. Framework overhead: the trainer's step against a hand-written loop that watches nothing.
2. Against Lightning, Accelerate and the newcomer's loop: same networks, losses, optimizer, batches, noise.
3. The data path: a plain Pillow to float32 loader against uint8, memory map, memory map with whole batches.
4. Loaders of files and archives beside torchvision's ImageFolder and webdataset.

Arms take turns; ratios are medians of paired ratios; where an arm differs from itself by more than 15 % there is none.
Time is CPU time of this process with one thread, so that what else runs on the machine counts little. Writes
docs/benchmarks/trainer.json, trainer.md and trainer.png. `tests/bench/trainer/run bench_trainer.py --parts loaders`
measures one part anew.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import arms
import loaders
import report
import torch
from gan_trainer.bench import data, timing
from gan_trainer.bench.timing import summarise
from gan_trainer.bench.training import make_batches
from gan_trainer.config import Config, make_config

CPU = torch.device("cpu")
# float32 with every switch that is for GPUs off.
COMMON = {"device": "cpu", "precision": "fp32", "compile": "off", "data": "synthetic", "lr_scaling": "none"}
# So small that little but Python and PyTorch's own calls is left.
TINY = make_config({**COMMON, "image_size": 32, "channels": 4, "latent_dim": 8, "batch_size": 2})
# As large as one core trains in good time.
SMALL = make_config({**COMMON, "image_size": 32, "channels": 16, "latent_dim": 64, "batch_size": 32})
DEFAULT = make_config(COMMON)
DATA = make_config({**COMMON, "image_size": 64, "batch_size": 32})
OURS = "gan_trainer"
AGREE_STEPS, AGREE = 5, 1e-3
OVERHEAD_STEPS, DEFAULT_STEPS, WARM_UP = 200, 12, 2
OVERHEAD_US, OVERHEAD_SHARE, DATA_RATIO = 20.0, 0.01, 3.0


def run_arms(
    found: dict[str, Callable[..., arms.Outcome]], config: Config, steps: arms.Steps, rounds: int
) -> dict[str, Any]:
    """Step times of each arm in each round, and how far the losses of the arms are apart."""
    batches = make_batches(config, config.batch_size, pinned=False)
    times: dict[str, list[float]] = {name: [] for name in found}
    last: dict[str, arms.Outcome] = {}
    for number in range(rounds):
        for name in list(found) if number % 2 == 0 else reversed(list(found)):
            last[name] = found[name](config, CPU, batches, steps)
            times[name].append(last[name].step_s)
    apart = arms.disagreement({name: last[name] for name in found}, AGREE_STEPS)
    if max(apart.values()) > AGREE:
        raise SystemExit(f"the arms do not train alike, so their times cannot be compared: {apart}")
    return {"times": times, "disagreement": apart}


def overhead(rounds: int) -> dict[str, Any]:
    """What the trainer's step takes more than the hand-written loop's, in us, and as a part of a step.

    It does not grow with the batch, so it is measured on batches of 2, where it is not lost in the step, with tiny
    networks and with those of the default configuration; the share is of that configuration's own step. The two loops
    take turns step by step: whatever slows the machine for longer than a step hits both.
    """
    tiny = extra_us(*steps_in_turns(TINY, OVERHEAD_STEPS * rounds))
    wide = extra_us(*steps_in_turns(replace(DEFAULT, batch_size=2), DEFAULT_STEPS * rounds))
    whole = statistics.median(steps_in_turns(DEFAULT, 2)[0]) * 1e6
    limit = max(OVERHEAD_US, OVERHEAD_SHARE * whole)
    # Where the limit lies between the ends it cannot be told.
    clear = wide["interval"][1] <= limit or wide["interval"][0] > limit
    return {
        "tiny": tiny,
        "default": wide,
        "default_step_us": round(whole, 1),
        "share": round(wide["extra_us"] / whole, 4),
        "goal": f"at most {OVERHEAD_US:g} us, or {OVERHEAD_SHARE:.0%} of a step",
        "met": wide["extra_us"] <= limit if clear else None,
    }


def extra_us(bare: list[float], ours: list[float]) -> dict[str, Any]:
    """Median of the difference in us with its 95 % interval, and the bare step."""
    extra = sorted((own - other) * 1e6 for other, own in zip(bare, ours, strict=True))
    ends = [round(end, 1) for end in ends_of_median(extra)]
    bare_us = round(statistics.median(bare) * 1e6, 1)
    middle = round(statistics.median(extra), 1)
    return {"extra_us": middle, "interval": ends, "steps": len(extra), "bare_step_us": bare_us}


def ends_of_median(ordered: list[float]) -> tuple[float, float]:
    """Between which of many ordered values their true median lies, each end wrong by chance in 1 of 40 cases.

    Order statistics: as many values are below the true median as heads in tosses of a coin, which is normally
    distributed for many (Conover 1999, section 3.2).
    """
    count = len(ordered)
    off = 1.96 * count**0.5 / 2
    return ordered[max(0, math.floor(count / 2 - off))], ordered[min(count - 1, math.ceil(count / 2 + off))]


def steps_in_turns(config: Config, count: int) -> tuple[list[float], list[float]]:
    """Seconds of each step of the hand-written loop and of the trainer."""
    batches = make_batches(config, config.batch_size, pinned=False)
    loops = arms.best_step(config, CPU), arms.TrainerStep(config, CPU)
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(WARM_UP + count):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            start = timing.clock()
            loops[which](batches[number % len(batches)])
            times[which].append(timing.clock() - start)
    return times[0][WARM_UP:], times[1][WARM_UP:]


def peers(rounds: int) -> dict[str, Any]:
    # Lightning imports a torchvision that is there, and stops where it stops.
    loaders.why_missing("torchvision")
    found = {
        "hand-written loop": arms.best(),
        OURS: arms.trainer,
        "newcomer's loop": arms.newcomer(),
        "Lightning": arms.lightning,
        "Accelerate": arms.accelerate,
    }
    measured = run_arms(found, SMALL, (3, 15), rounds)
    rates = {name: [SMALL.batch_size / seconds for seconds in own] for name, own in measured["times"].items()}
    verdicts = [loaders.verdict(rates, OURS, other) for other in found if other != OURS]
    return {"rows": report.rows(summarise(rates)), "disagreement": measured["disagreement"], "verdicts": verdicts}


def data_path(rounds: int) -> dict[str, Any]:
    data.ROUNDS = rounds
    found = data.bench_data(DATA, CPU)
    plain, best = found["paths"][0]["rates"], found["paths"][-1]["rates"]
    gains = [fast / slow for slow, fast in zip(plain, best, strict=True)]
    # What holds in every round, or in none, holds whatever the noise.
    met = True if min(gains) >= DATA_RATIO else False if max(gains) < DATA_RATIO else None
    goal = f"at least {DATA_RATIO:g} times the plain loader"
    return {**found, "goal": goal, "lowest_gain": round(min(gains), 1), "met": met}


PARTS: dict[str, Callable[[int], Any]] = {
    "overhead": overhead,
    "peers": peers,
    "data": data_path,
    "loaders": partial(loaders.measure, DATA),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="of each arm (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=report.FOLDER, help="folder of the results")
    parser.add_argument("--raw", type=Path, help="folder for every single value; without it none is kept")
    parser.add_argument("--parts", nargs="+", choices=PARTS, help="these alone; of the others the last results stay")
    options = parser.parse_args()
    torch.set_num_threads(1)
    timing.clock = time.process_time
    found: dict[str, Any] = {"schema": 1, "kind": "cpu", "machine": report.machine(CPU), "rounds": options.rounds}
    for name in options.parts or PARTS:
        print(f"bench-trainer: {name} ...", flush=True)
        before = report.machine(CPU)
        found[name] = PARTS[name](options.rounds)
        # Measured alone, a part has its own day and machine.
        if options.parts:
            found[name]["measured"] = {"machine": {**before, "load_at_end": report.load()}, "rounds": options.rounds}
    found["machine"]["load_at_end"] = report.load()
    found = report.with_the_others(options.output, found) if options.parts else found
    report.write(options.output, "cpu", found, options.raw)
    print(report.cpu_page(report.summary(found)))


if __name__ == "__main__":
    main()
