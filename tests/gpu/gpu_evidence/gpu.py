"""Parts about the card: verify's measurements, the smoke test in all formats, accept's burn-in, the process group."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from . import places
from .context import Context, Unable, fault_of
from .host import failed

# A burn-in of a minute, and what starting PyTorch and the last round take beside it.
BURN_S, BURN_TRIAL_S, BESIDE_S = 60.0, 4.0, 16.0
SMOKE_STEPS, TRIAL_STEPS = 50, 12


def performance(context: Context) -> None:
    """gan_trainer.performance as the verification runs it, each figure beside its published floor."""
    from gpuwright.training.performance import record

    answer, problem = context.module("-m", "gan_trainer.performance", "--device", context.device, "--json")
    if not answer:
        raise Unable(problem)
    where = "of idle cards" if not context.trial else "of the CPU at small size"
    judged = record(answer["devices"], answer.get("all_reduce"), answer["problems"], where, [])
    context.keep(performance=judged)
    rows, bars = [], []
    for device in judged["devices"]:
        for name, figure in device["measures"].items():
            if figure is None:
                rows.append(
                    [device["device"], name, None, "", None, None, device["left_out"].get(name, "not measured")]
                )
                continue
            rows.append([device["device"], name, *limits(figure)])
            bars.append({"name": f"{device['device']} {name}", **{k: figure[k] for k in ("value", "floor", "unit")}})
    head = ["device", "measure", "value", "unit", "floor", "share of the peak", "judged"]
    if judged["all_reduce"]:
        rows.append(["all", "all_reduce", *limits(judged["all_reduce"])])
    context.table("Speeds beside their floors", head, rows)
    for unit in ("GB/s", "TFLOP/s"):
        context.bars(f"Speeds, {unit}", unit, [bar for bar in bars if bar["unit"] == unit])
    for words in judged["problems"]:
        context.lack(words)


def limits(figure: dict[str, Any]) -> list[Any]:
    """value, unit, floor, share of the peak, words."""
    value, floor, peak = figure["value"], figure["floor"], figure["peak"]
    words = "no floor is published" if floor is None else "at least its floor" if value >= floor else "below its floor"
    return [value, figure["unit"], floor, f"{value / peak:.0%}" if peak else None, words]


def smoke(context: Context) -> None:
    """The smoke test, then its training in every number format."""
    steps = TRIAL_STEPS if context.trial else SMOKE_STEPS
    words = ["-m", "gan_trainer.smoke", "--device", context.device, "--steps", str(steps), "--json"]
    answer, problem = context.module(*words, seconds=context.left() * 0.6)
    context.keep(smoke=answer)
    for fault in answer.get("problems") or [problem] * bool(problem):
        context.lack(f"the smoke test: {fault}")
    rows = []
    for device in answer.get("devices") or []:
        for mode in ("fp32", "amp"):
            record = device.get(mode) or {}
            name = device["device"] if mode == "fp32" else f"{device['device']}, {device['amp_dtype']}"
            keys = ("steps_applied", "steps_skipped", "loss_first", "loss_last", "peak_memory_mib")
            rows.append([name, mode, *(record.get(key) for key in keys)])
        if device.get("speed_ratio"):
            context.say(f"Mixed over single precision on {device['device']}: {device['speed_ratio']:g} times.")
    head = ["where", "format", "steps applied", "skipped", "first loss", "last loss", "peak MiB"]
    context.table("Smoke test", head, rows)
    found, problem = context.torch("evidence_precisions.py", context.device, steps)
    context.keep(formats=found)
    if problem:
        context.lack(f"its training in each format: {problem}")
    rows = []
    for name in ("fp32", "tf32", "fp16", "bf16"):
        value = found.get(name) or {}
        record = value.get("record")
        why = (
            failed(value)
            or value.get("left_out")
            or (problem if record is None else "; ".join(value["faults"]) or "sound")
        )
        keys = ("steps_applied", "steps_skipped", "loss_first", "loss_last", "peak_memory_mib")
        rows.append([name, *((record or {}).get(key) for key in keys), why])
    context.table("Its training in each format", [*head[1:], "judged"], rows)


def burn_in(context: Context) -> None:
    """accept's burn-in for a minute, every product, byte and sum checked, with looks at the card meanwhile."""
    from gpuwright.training.trainer_run import read_record

    seconds = BURN_TRIAL_S if context.trial else min(BURN_S, context.left(BESIDE_S))
    command = [context.python, str(places.BURN_IN / "burn_in.py"), "node", "--device", context.device]
    command += ["--seconds", f"{seconds:g}"]
    looks: list[Any] = []
    done = context.facts.get("smi", {}).get("reachable")
    watch = watching(looks) if done and not context.trial else None
    finished = context.run(command)
    if watch:
        watch.set()
    record = read_record(finished.stdout)
    if record is None:
        raise Unable(fault_of(finished))
    context.keep(burn_in=shortened(record), looks=looks)
    context.table("Burn-in", ["device", "products", "GB of memory", "faults"], [counted(d) for d in record["devices"]])
    figures = []
    for device in record["devices"]:
        for name, points in sorted(device["series"].items()):
            values = [value for _at, value in points]
            figures.append([device["device"], name, values[0], min(values), values[-1], len(values)])
    context.table("Over time", ["device", "measure", "first", "lowest", "last", "points"], figures)
    for words in [*record["problems"], *(fault for device in record["devices"] for fault in device["faults"])]:
        context.lack(words)
    rows = [[look["at_s"], *card] for look in looks for card in cards_of(look)]
    context.table("The card meanwhile", ["after s", "C", "W", "SM MHz", "held down by"], rows[:40])


def counted(device: dict[str, Any]) -> list[Any]:
    counts = device["counts"]
    return [device["device"], counts["products"], round(counts["memory_bytes"] / 1e9, 1), counts["faults"]]


def shortened(record: dict[str, Any]) -> dict[str, Any]:
    """Without the single points."""
    devices = [{key: value for key, value in device.items() if key != "series"} for device in record["devices"]]
    return {**record, "devices": devices}


def cards_of(look: dict[str, Any]) -> list[list[Any]]:
    rows = []
    for card in look.get("gpus") or []:
        held = card.get("throttle_reasons")
        words = ", ".join(held) if isinstance(held, list) else held
        rows.append([card.get("temperature_c"), card.get("power_draw_w"), card.get("clock_sm_mhz"), words or "nothing"])
    return rows or [[look.get("problem", "no answer"), None, None, None]]


def watching(looks: list[Any]) -> threading.Event:
    """Look at the cards, as accept does, until the event is set; a look that hangs holds up nobody."""
    sys.path.append(str(places.BURN_IN))
    # On a node it adds the installed library to the path; the one of this checkout is already imported.
    import on_node

    over, begin = threading.Event(), time.monotonic()

    def watch() -> None:
        while not over.is_set():
            try:
                looks.append(on_node.look(time.monotonic() - begin))
            except Exception as error:
                looks.append(
                    {"at_s": round(time.monotonic() - begin, 1), "problem": f"{type(error).__name__}: {error}"}
                )
            over.wait(on_node.LEAST_PAUSE_S)

    threading.Thread(target=watch, daemon=True).start()
    return over


def process_group(context: Context) -> None:
    """PyTorch's process group, its new class and its old one, with exchanges in CUDA graphs."""
    count = len(context.facts.get("torch", {}).get("gpus") or [])
    found, problem = context.torch("evidence_process_group.py", 2 if context.trial else count)
    context.keep(groups=found)
    rows = []
    for name, value in found.items():
        if failed(value):
            context.lack(f"{name}: {failed(value)}")
            rows.append([name, "-", "-", failed(value), "-"])
            continue
        wrong = [step["step"] for step in value["steps"] if step["wrong"]]
        if wrong:
            context.lack(f"{name}: {', '.join(wrong)} does not work")
        for step in value["steps"]:
            rows.append([name, value["class"], step["step"], step["wrong"] or "works", step["seconds"]])
    context.table("Process groups", ["variant, processes", "class", "step", "result", "s"], rows)
    if problem:
        context.lack(problem)
