"""make gpu-bench: the trainer's speed on one GPU, beside what others do in the same run.

Ceilings first (matrix products, copies), then for 64, 128 and 256 px: strict float32 and TF32-default loops as
newcomers write them, a loop that reads its losses, the best loop by hand, Lightning, Accelerate, and the trainer eager,
compiled and with CUDA graphs; the prefetcher on and off; losses in half precision against float32. Ends with one
sentence and exit code 1 where there is no GPU. Writes into docs/benchmarks/trainer.json and trainer.md.
"""

from __future__ import annotations

import argparse
import gc
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
import report
import torch
from gan_trainer.bench.timing import summarise, synchronise
from gan_trainer.bench.training import make_batches, make_trainer
from gan_trainer.config import Config, make_config
from gan_trainer.data.prefetch import Prefetcher
from gan_trainer.engine.memory import use_expandable_segments

COMMON = {"device": "cuda", "precision": "auto", "data": "synthetic", "lr_scaling": "none", "compile": "off"}
CASES = {
    "64 px, DCGAN, batch 128": {"image_size": 64, "batch_size": 128, "model": "dcgan"},
    "128 px, DCGAN, batch 128": {"image_size": 128, "batch_size": 128, "model": "dcgan"},
    "256 px, DCGAN, batch 128": {"image_size": 256, "batch_size": 128, "model": "dcgan"},
}
STRICT, TF32, ITEM = "newcomer, strict float32", "newcomer, TF32 default", "loop that reads three losses"
HAND, EAGER, COMPILED = "best loop by hand", "gan_trainer, eager", "gan_trainer, compiled"
GRAPHS, BOTH = "gan_trainer, CUDA graphs", "gan_trainer, compiled, CUDA graphs"
OURS = (EAGER, COMPILED, GRAPHS, BOTH)
PEERS = ("Lightning", "Accelerate", HAND)
STEPS, AGREE_STEPS, LOSS_STEPS = (10, 40), 3, 200
# Different number formats and orders of sums, three steps from the same start.
AGREE = 0.1
GEMM = 8192


def all_arms() -> dict[str, Callable[..., arms.Outcome]]:
    found = {
        STRICT: arms.newcomer(read_losses=True),
        TF32: arms.newcomer(read_losses=True, tf32=True),
        ITEM: arms.best(read_losses=True),
        HAND: arms.best(),
        EAGER: arms.trainer,
        COMPILED: arms.with_settings(arms.trainer, compile="on"),
        GRAPHS: arms.with_settings(arms.trainer, cuda_graphs=True),
        BOTH: arms.with_settings(arms.trainer, compile="on", cuda_graphs=True),
    }
    frameworks = {"Lightning": ("lightning", arms.lightning), "Accelerate": ("accelerate", arms.accelerate)}
    found.update({name: arm for name, (module, arm) in frameworks.items() if find_spec(module)})
    return found


def measure_case(
    config: Config, device: torch.device, rounds: int, steps: arms.Steps, gemm: float
) -> list[dict[str, Any]]:
    """Rows of one network and batch; `gemm` is the measured bf16 rate in FLOP/s. SystemExit for unequal losses."""
    batches = make_batches(config, config.batch_size, pinned=device.type == "cuda")
    found = all_arms()
    times: dict[str, list[float]] = {}
    last: dict[str, arms.Outcome] = {}
    notes: dict[str, str] = {}
    for number in range(rounds):
        for name in list(found) if number % 2 == 0 else reversed(list(found)):
            if name in notes:
                continue
            try:
                last[name] = found[name](config, device, batches, steps)
                times.setdefault(name, []).append(last[name].step_s)
            except torch.cuda.OutOfMemoryError:
                notes[name] = "does not fit"
            gc.collect()
            if device.type == "cuda":
                torch.cuda.empty_cache()
    apart = arms.disagreement({name: last[name] for name in found if name in times and name not in notes}, AGREE_STEPS)
    if max(apart.values()) > AGREE:
        raise SystemExit(f"gpu-bench: the arms do not train alike, so their times cannot be compared: {apart}")
    flop = flop_of_step(config)
    rates = {
        name: [config.batch_size / s for s in times[name]] for name in found if name in times and name not in notes
    }
    rows = report.rows(summarise(rates))
    for row in rows:
        share = flop * row["images_per_s"] / config.batch_size / gemm if gemm else 0.0
        row.update(peak_memory_mib=last[row["name"]].peak_memory_mib, gemm=f"{share:.0%}")
    empty = {"images_per_s": None, "ratio": None, "spread": 0.0, "peak_memory_mib": None, "gemm": "-"}
    return rows + [{"name": name, "note": note, **empty} for name, note in notes.items()]


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


def goals(name: str, rows: list[dict[str, Any]]) -> list[tuple[str, bool | None]]:
    """Each goal of this size with whether it was met; None where noise hides it."""
    rates = {row["name"]: row["images_per_s"] for row in rows if row["images_per_s"]}
    noisy = {row["name"] for row in rows if row["ratio"] is None}
    fastest = max((arm for arm in OURS if arm in rates), key=lambda arm: rates[arm])

    def over(text: str, base: str, wanted: float, arm: str = fastest) -> tuple[str, bool | None]:
        if base not in rates or arm not in rates:
            return f"{text}: not measured", None
        gain = rates[arm] / rates[base]
        clear = not {arm, base} & noisy
        return f"{arm} over {base}: {gain:.2f} times, goal {wanted:g}", gain >= wanted if clear else None

    found = [over(peer, peer, 1.0) for peer in PEERS] + [over(ITEM, ITEM, 1.5)]
    if name.startswith("256"):
        found += [over(STRICT, STRICT, 2.5), over(TF32, TF32, 1.5)]
        share = next(row["gemm"] for row in rows if row["name"] == fastest)
        found.append((f"{fastest}: {share} of the bf16 GEMM rate, goal 20 %", int(share.rstrip("%")) >= 20))
    else:
        found.append(over(EAGER, EAGER, 3.0))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of each arm (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=report.FOLDER, help="folder of the results")
    parser.add_argument("--raw", type=Path, help="folder for every single value; without it none is kept")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built for the CPU"
        print(f"gpu-bench needs a GPU: torch {torch.__version__}, {built}, finds none", file=sys.stderr)
        return 1
    device = torch.device("cuda")
    found: dict[str, Any] = {"schema": 1, "kind": "gpu", "machine": report.machine(device), "rounds": options.rounds}
    found["ceilings"], found["cases"] = ceilings(device), []
    gemm = found["ceilings"]["bf16 GEMM, TFLOP/s"] * 1e12
    for name, settings in CASES.items():
        print(f"gpu-bench: {name} ...", flush=True)
        config = make_config({**COMMON, **settings})
        rows = measure_case(config, device, options.rounds, STEPS, gemm)
        fed = prefetching(config, device, options.rounds, STEPS[1])
        worst = losses_in_half(config, device)
        on_over_off = fed["rows"][1]["ratio"]
        known = goals(name, rows) + [
            (f"prefetcher on over off: {report.ratio(fed['rows'][1])}, goal 1.0", on_over_off and on_over_off >= 1.0),
            (f"waits for data {fed['wait']:.1%} of a step, goal 2 %", fed["wait"] <= 0.02),
            (f"loss in half precision {worst:.1%} from float32's, goal 2 %", worst <= 0.02),
        ]
        found["cases"].append({"name": name, "rows": rows + fed["rows"], "goals": known})
    report.write(options.output, "gpu", found, options.raw)
    print(report.gpu_page(found))
    return 0


if __name__ == "__main__":
    use_expandable_segments(os.environ)
    sys.exit(main())
