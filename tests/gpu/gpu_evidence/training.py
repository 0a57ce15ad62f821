"""Parts about the trainer: the bench beside other loops, the reported tables, memory, what bounds a step."""

from __future__ import annotations

import json
from typing import Any

from . import places
from .context import Context, Unable, fault_of
from .host import failed

# In the order of their value; the promises are about the first two.
SIZES = ("256", "64", "128")
ROUNDS = 15


def bench(context: Context) -> None:
    """make gpu-bench's program, in the order of the sizes' value, for as many rounds as the time allows."""
    folder = context.work / "bench"
    seconds = context.left(12.0)
    command = [context.python, str(places.BENCH / "gpu_bench.py"), "--device", context.device]
    command += ["--rounds", str(ROUNDS if not context.trial else 2), "--seconds", f"{seconds:g}", "--sizes", *SIZES]
    done = context.run([*command, "--output", str(folder), "--raw", str(folder / "raw")], context.left(3.0))
    file = folder / "raw/trainer-gpu.json"
    if not file.exists():
        raise Unable(fault_of(done))
    found = json.loads(file.read_text())
    context.keep(bench=found)
    if done.rc != 0:
        context.lack(f"the bench did not end by itself: {fault_of(done)}")
    if found["ceilings"]:
        rows = [[name, value] for name, value in found["ceilings"].items()]
        context.table("Ceilings measured", ["what", "value"], rows)
    for case in found["cases"]:
        show_case(context, case)


def show_case(context: Context, case: dict[str, Any]) -> None:
    rows = []
    for row in case["rows"]:
        if row.get("note"):
            rows.append([row["name"], row["note"], "-", "-", "-", "-"])
            continue
        rates, ratio = row["rates"], row["ratio"]
        shown = f"{ratio:.2f}" if ratio is not None else "too noisy"
        where = f"{min(rates):.0f} to {max(rates):.0f}"
        rows.append([row["name"], row["images_per_s"], where, shown, row["peak_memory_mib"] or None, row["gemm"]])
    head = ["loop", "images/s", "lowest to highest", "ratio to the first", "peak MiB", "of the bf16 rate"]
    rounds = max((len(row["rates"]) for row in case["rows"] if row.get("rates")), default=0)
    context.table(f"{case['name']}, {rounds} rounds", head, rows)
    bars = [
        {"name": row["name"], "value": row["images_per_s"], "low": min(row["rates"]), "high": max(row["rates"])}
        for row in case["rows"]
        if row.get("rates")
    ]
    context.bars(case["name"], "images/s", bars)
    if case.get("failed"):
        context.lack(f"{case['name']}: {case['failed']}")
    if case.get("wait") is not None:
        context.say(f"{case['name']}: waiting for data takes {case['wait']:.1%} of a step.")
    if case.get("loss_in_half") is not None:
        context.say(f"{case['name']}: losses in half precision differ by {case['loss_in_half']:.2%} from float32's.")


def tables(context: Context) -> None:
    """The A5 servers' reported tables, measured on this card."""
    found, problem = context.torch("evidence_tables.py", context.device, f"{context.left() * 0.6:g}")
    if not found:
        raise Unable(problem)
    context.keep(tables_found=found)
    if problem:
        context.lack(problem)
    rows: list[list[Any]] = []
    for name in ("fp32", "fp16"):
        value = found.get(name)
        if not isinstance(value, list):
            why = failed(value) or problem or "needs a GPU"
            rows.append([name, "-", why, "-", "-", "-", "-", "-"])
            continue
        first = value[0]["reported"] if value else None
        for row in value:
            told = row["reported"] or {}
            gain = first["epoch_min"] / told["epoch_min"] if told and first else None
            spread = None if row["spread"] is None else f"{row['spread']:.0%}"
            speed = row["images_per_s"] or row["note"]
            rows.append([name, row["batch_size"], speed, row["ratio"], spread, *memory_of(row), gain])
    head = ["format", "batch", "images/s", "ratio to batch 32", "spread", "reserved", "allocated", "A5: ratio"]
    context.table(f"Batch sizes at {found.get('image_size')} px", head, rows)
    rows = []
    precisions = found.get("precision")
    for row in precisions if isinstance(precisions, list) else []:
        result = row["images_per_s"] or row["not_run"] or row["note"]
        rows.append([row["name"], row["gpus"], result, row["ratio"], *memory_of(row), row["stable"]])
    head = ["format", "GPUs", "images/s", "ratio to fp32", "reserved", "allocated", "sound"]
    context.table("Precisions", head, rows)


def memory_of(row: dict[str, Any]) -> list[str | None]:
    """Shares of the card's memory: what the allocator reserved, what tensors took."""
    keys = ("memory_fraction", "allocated_fraction")
    return [None if row[key] is None else f"{row[key]:.0%}" for key in keys]


def phases(context: Context) -> None:
    """Memory at the end of each phase of a step."""
    found, problem = context.torch("evidence_phases.py", context.device)
    if not found:
        raise Unable(problem)
    context.keep(phases=found)
    if problem:
        context.lack(problem)
    rows = []
    for name, value in found.items():
        if failed(value):
            rows.append([name, "-", failed(value), "-", "-", "-"])
            continue
        for phase, line in value["phases"].items():
            keys = ("allocated_mib", "reserved_mib", "peak_mib")
            rows.append([name, value["precision"], phase, *(line[key] for key in keys)])
    context.table("Memory of each phase, MiB", ["network", "format", "phase", "allocated", "reserved", "peak"], rows)


def bounds(context: Context) -> None:
    """How long the card works in a step, and at what."""
    found, problem = context.torch("evidence_profile.py", context.device)
    if not found:
        raise Unable(problem)
    context.keep(profile=found)
    if problem:
        context.lack(problem)
    rows, costs = [], []
    for name, value in found.items():
        if failed(value):
            rows.append([name, failed(value), "-", "-", "-"])
            continue
        busy = value["busy_ms"] / value["step_ms"] if value["step_ms"] else 0.0
        rows.append([name, value["step_ms"], value["busy_ms"], f"{busy:.0%}", value["kernels"]])
        costs += [[name, row["name"], f"{row['share']:.0%}"] for row in value["costliest"][:8]]
    context.table("A step of the trainer", ["network", "ms", "of them at work, ms", "busy", "kernels"], rows)
    context.table("Where its time goes", ["network", "kernel", "share"], costs)
