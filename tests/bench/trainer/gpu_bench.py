"""make gpu-bench: the trainer's speed on one GPU, beside what others do in the same run.

Ceilings first (matrix products, copies), then for 64, 128 and 256 px: strict float32 and TF32-default loops as
newcomers write them, a loop that reads its losses, loops by hand (eager, compiled, as a CUDA graph), Lightning,
Accelerate, and the trainer eager, compiled and with CUDA graphs; the prefetcher on and off; losses in half precision
against float32. An arm that fails, does not train as the others do, or runs eagerly under another name has a note in
place of figures. Ends with one sentence and exit code 1 where there is no GPU. Writes into docs/benchmarks/trainer.json
and trainer.md after each size, so that a bench that is stopped leaves what it has.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import arms
import gpu_goals
import report
import torch
from arms_by_hand import Kept, compiled_by_hand, graphed_by_hand, trainer_kept
from gan_trainer.bench.timing import summarise, synchronise
from gan_trainer.bench.training import make_batches, make_trainer
from gan_trainer.config import Config, make_config
from gan_trainer.data.prefetch import Prefetcher
from gan_trainer.engine.memory import use_expandable_segments
from gpu_rounds import NO_TIME, Rounds, free, why_failed

COMMON: dict[str, Any] = {
    "device": "cuda",
    "precision": "auto",
    "data": "synthetic",
    "lr_scaling": "none",
    "compile": "off",
}
CASES: dict[str, dict[str, Any]] = {
    "64 px, DCGAN, batch 128": {"image_size": 64, "batch_size": 128, "model": "dcgan"},
    "128 px, DCGAN, batch 128": {"image_size": 128, "batch_size": 128, "model": "dcgan"},
    "256 px, DCGAN, batch 128": {"image_size": 256, "batch_size": 128, "model": "dcgan"},
}
# On a CPU the same code at a size that says nothing about a GPU.
SMALL: dict[str, Any] = {
    "image_size": 32,
    "batch_size": 8,
    "model": "dcgan",
    "channels": 8,
    "latent_dim": 16,
    "device": "cpu",
}
TRIALS = {"32 px, DCGAN, batch 8, a trial on a CPU": SMALL}
STEPS, LOSS_STEPS = (10, 40), 200
# Steps of the large network are long enough; its rounds would be few.
STEPS_OF_256, STEPS_OF_A_TRIAL = (5, 20), (1, 4)
# Of the time of all sizes, where there is a limit: the first promises are about 256 px.
SHARES = {256: 0.45, 64: 0.35, 128: 0.2, 32: 1.0}
# Of a size's time, before what is compiled joins.
FIRST_ROUNDS = 0.4
GEMM = 8192
# What prefetching and losses need at the end of a size, as a part of its time.
REST = 0.15
Keep = Callable[..., None]


def all_arms() -> dict[str, Callable[..., arms.Outcome]]:
    """The most telling ones first: where time is short, the last ones are left out."""
    found = {
        gpu_goals.STRICT: arms.newcomer(read_losses=True),
        gpu_goals.HAND: arms.best(),
        gpu_goals.EAGER: arms.trainer,
        gpu_goals.GRAPHS: arms.with_settings(arms.trainer, cuda_graphs=True),
        gpu_goals.TF32: arms.newcomer(read_losses=True, tf32=True),
        gpu_goals.HAND_GRAPHED: graphed_by_hand,
        gpu_goals.ITEM: arms.best(read_losses=True),
    }
    frameworks = {"Lightning": ("lightning", arms.lightning), "Accelerate": ("accelerate", arms.accelerate)}
    found.update({name: arm for name, (module, arm) in frameworks.items() if find_spec(module)})
    return found


def late_arms() -> dict[str, Kept]:
    """What is compiled joins the rounds later: a compiler may take all the time that there is."""
    return {
        gpu_goals.BOTH: Kept(
            lambda config, device: trainer_kept(replace(config, compile="on", cuda_graphs=True), device)
        ),
        gpu_goals.HAND_COMPILED: Kept(compiled_by_hand),
        gpu_goals.COMPILED: Kept(lambda config, device: trainer_kept(replace(config, compile="on"), device)),
    }


def measure_case(
    config: Config,
    device: torch.device,
    rounds: int,
    steps: arms.Steps,
    gemm: float,
    until: float = float("inf"),
    keep: Callable[[list[dict[str, Any]]], None] = lambda rows: None,
) -> list[dict[str, Any]]:
    """Rows of one network and batch; `gemm` is the measured bf16 rate in FLOP/s, 0 for none.

    until  on time.monotonic(), see Rounds; keep gets the rows after each round
    """
    taken = Rounds(config, device, steps, until)
    share = flop_of_step(config) / config.batch_size / gemm if gemm else 0.0
    taken.arms.update(all_arms())
    late = late_arms()
    try:
        now = time.monotonic()
        first = now + FIRST_ROUNDS * (until - now)
        taken.go(max(1, rounds // 3), first, lambda: keep(taken.rows(share)))
        taken.join(late)
        taken.go(rounds, until, lambda: keep(taken.rows(share)))
    finally:
        for arm in late.values():
            arm.release()
    for name in [*taken.arms]:
        if not taken.times.get(name):
            taken.notes.setdefault(name, NO_TIME)
    keep(taken.rows(share))
    return taken.rows(share)


def flop_of_step(config: Config) -> float:
    """Floating-point operations of one step, counted on the CPU on a batch of 2 by PyTorch's own counter."""
    from torch.utils.flop_counter import FlopCounterMode

    small = replace(config, device="cpu", precision="fp32", batch_size=2, compile="off", cuda_graphs=False)
    trainer = make_trainer(small, torch.device("cpu"))
    batch = make_batches(small, 2, pinned=False)[0]
    with FlopCounterMode(display=False) as counter:
        trainer.step(batch)
    return counter.get_total_flops() / 2 * config.batch_size


def ceilings(device: torch.device) -> dict[str, float]:
    """TFLOP/s of square matrix products, GB/s of copies from the host."""
    found = {}
    for name, dtype, precise in (
        ("bf16 GEMM, TFLOP/s", torch.bfloat16, "high"),
        ("TF32 GEMM, TFLOP/s", torch.float32, "high"),
        ("float32 GEMM, TFLOP/s", torch.float32, "highest"),
    ):
        torch.set_float32_matmul_precision(precise)
        a, b = (torch.randn(GEMM, GEMM, device=device, dtype=dtype) for _ in range(2))
        found[name] = 2 * GEMM**3 / seconds_of(partial(torch.matmul, a, b), 20) / 1e12
    for name, pinned in (("host to GPU, pinned, GB/s", True), ("host to GPU, pageable, GB/s", False)):
        block = torch.empty(256 << 20, dtype=torch.uint8, pin_memory=pinned)
        found[name] = block.numel() / seconds_of(partial(block.to, device, non_blocking=True), 10) / 1e9
    return found


def seconds_of(work: Callable[[], Any], count: int) -> float:
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / count


def prefetching(config: Config, device: torch.device, rounds: int, steps: int) -> dict[str, Any]:
    """The trainer fed from host memory with the prefetcher on and off, and the part of a step that waits for data."""
    batches = make_batches(config, config.batch_size, pinned=device.type == "cuda")
    rates: dict[str, list[float]] = {"off": [], "on": []}
    waits: dict[str, list[float]] = {"off": [], "on": []}
    trainer = make_trainer(config, device)
    for number in range(rounds):
        for name in ("off", "on") if number % 2 == 0 else ("on", "off"):
            source = Prefetcher(list(arms.repeat(batches, STEPS[0] + steps)), device, trainer.layout, name == "on")
            for count, real in enumerate(source):
                if count == STEPS[0]:
                    arms.reset(device)
                    start, source.waited = time.perf_counter(), 0.0
                trainer.step(real)
            synchronise(device)
            seconds = time.perf_counter() - start
            rates[name].append(steps * config.batch_size / seconds)
            waits[name].append(source.waited / seconds)
    rows = report.rows(summarise(rates))
    for row in rows:
        row.update(
            name=f"prefetcher {row['name']}",
            peak_memory_mib="",
            gemm=f"waits {statistics.median(waits[row['name']]):.1%}",
        )
    return {"rows": rows, "wait": statistics.median(waits["on"])}


def losses_in_half(config: Config, device: torch.device) -> float:
    """|mean loss in half precision - in float32| / float32, over the last half of LOSS_STEPS steps."""
    batches = make_batches(config, config.batch_size, pinned=device.type == "cuda")
    means = []
    for precision in ("fp32", "auto"):
        found = arms.trainer(replace(config, precision=precision), device, batches, (0, LOSS_STEPS))
        means.append(found.losses[LOSS_STEPS // 2 :].mean(dim=0))
    return float(((means[1] - means[0]).abs() / means[0].abs()).max())


def case(name: str, config: Config, device: torch.device, rounds: int, gemm: float, until: float, keep: Keep) -> None:
    """Measure one size; `keep` gets the values of its record after each step, so that what comes later costs nothing.

    {rows, goals, wait, loss_in_half}; `failed` names a step that ended in an error.
    """
    steps = STEPS_OF_256 if config.image_size == 256 else STEPS
    steps = steps if device.type == "cuda" else STEPS_OF_A_TRIAL
    early = until - REST * (until - time.monotonic()) if until < float("inf") else until
    rows = measure_case(config, device, rounds, steps, gemm, early, lambda rows: keep(rows=rows))
    judged = gpu_goals.goals(name, rows)
    keep(goals=judged)
    try:
        fed = prefetching(config, device, rounds, steps[1])
        judged += gpu_goals.data_goals(fed)
        keep(rows=rows + fed["rows"], wait=fed["wait"], goals=judged)
        if device.type == "cuda" and time.monotonic() < until:
            worst = losses_in_half(config, device)
            judged.append((f"loss in half precision {worst:.1%} from float32's, goal 2 %", worst <= 0.02))
            keep(loss_in_half=worst, goals=judged)
    # As with an arm: the other sizes go on.
    except Exception as error:
        keep(failed=why_failed(error))
    free(device)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of each arm (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=report.FOLDER, help="folder of the results")
    parser.add_argument("--raw", type=Path, help="folder for every single value; without it none is kept")
    parser.add_argument("--sizes", type=int, nargs="+", help="pixels, in this order (default: all)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for all sizes, of as many rounds as fit")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a trial of the code, small")
    return parser.parse_args()


def main() -> int:
    options = parse()
    if options.device == "cuda" and not torch.cuda.is_available():
        built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built for the CPU"
        print(f"gpu-bench needs a GPU: torch {torch.__version__}, {built}, finds none", file=sys.stderr)
        return 1
    begin, device = time.monotonic(), torch.device(options.device)
    if options.device == "cpu":
        torch.set_num_threads(1)
    found: dict[str, Any] = {"schema": 1, "kind": "gpu", "machine": report.machine(device), "rounds": options.rounds}
    found.update(trial=options.device == "cpu", ceilings=ceilings(device) if device.type == "cuda" else {}, cases=[])
    gemm = found["ceilings"].get("bf16 GEMM, TFLOP/s", 0.0) * 1e12
    cases = CASES if device.type == "cuda" else TRIALS
    if options.sizes and device.type == "cuda":
        cases = {name: row for size in options.sizes for name, row in cases.items() if row["image_size"] == size}

    def keep(**values: Any) -> None:
        found["cases"][-1].update(values)
        report.write(options.output, "gpu", found, options.raw)

    for number, (name, settings) in enumerate(cases.items()):
        print(f"gpu-bench: {name} ...", flush=True)
        left = options.seconds - (time.monotonic() - begin)
        shares = [SHARES[row["image_size"]] for row in list(cases.values())[number:]]
        until = time.monotonic() + left * shares[0] / sum(shares)
        found["cases"].append({"name": name, "rows": [], "goals": []})
        case(name, make_config({**COMMON, **settings}), device, options.rounds, gemm, until, keep)
    print(report.gpu_page(found))
    return 0


if __name__ == "__main__":
    use_expandable_segments(os.environ)
    sys.exit(main())
