"""What the benches leave in docs/benchmarks: a small JSON of medians, one page for both benches, and a picture.

Every single value goes into a folder of its own, outside of the tree.
"""

from __future__ import annotations

import json
import os
import platform
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from gan_trainer.bench.tables import describe
from gan_trainer.bench.timing import MAX_SPREAD, Result, spread
from gan_trainer.safe_files import replace_text

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "benchmarks"
LIBRARIES = ("torch", "numpy", "pillow", "lightning", "accelerate", "torchvision", "webdataset")
NEEDS_GPU = "needs a GPU"


def machine(device: torch.device) -> dict[str, Any]:
    """Without names of hosts or paths."""
    versions: dict[str, str | None] = {}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "device": describe(device),
        "python": platform.python_version(),
        "versions": versions,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "load_at_start": load(),
    }


def load() -> float:
    """Processes that wanted a CPU in the last minute: above the number of CPUs, others were at work."""
    return round(os.getloadavg()[0], 1)


def rows(results: list[Result]) -> list[dict[str, Any]]:
    return [
        {
            "name": result.name,
            "images_per_s": round(result.rate, 1),
            "ratio": None if result.ratio is None else round(result.ratio, 3),
            "spread": round(spread(result.rates), 3),
            "rates": [round(rate, 2) for rate in result.rates],
        }
        for result in results
    ]


def summary(found: Any) -> Any:
    """The same without single values: rates become their lowest, highest and spread."""
    if isinstance(found, list):
        return [summary(inner) for inner in found]
    if not isinstance(found, dict):
        return found
    kept = {name: summary(value) for name, value in found.items() if name != "rates"}
    if "rates" in found:
        rates = found["rates"]
        kept |= {"lowest": min(rates), "highest": max(rates), "spread": round(spread(rates), 3)}
    return kept


def write(folder: Path, kind: str, found: dict[str, Any], raw: Path | None) -> None:
    """Put one bench's results (kind cpu or gpu) beside the other's, and write the page and the picture anew.

    `raw` is the folder for every single value, None keeps none.
    """
    if raw:
        raw.mkdir(parents=True, exist_ok=True)
        replace_text(raw / f"trainer-{kind}.json", json.dumps(found, indent=1) + "\n")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "trainer.json"
    both = json.loads(file.read_text()) if file.exists() else {}
    both[kind] = summary(found)
    # Whole or not at all: a bench that is stopped while it writes leaves what it had.
    text = json.dumps(both, indent=1, sort_keys=True) + "\n"
    replace_text(file, text)
    # The page is made from the file, in whose order it can be made again.
    both = json.loads(text)
    replace_text(folder / "trainer.md", page(both))
    if "cpu" in both:
        picture(both["cpu"], folder / "trainer.png")


def with_the_others(folder: Path, found: dict[str, Any]) -> dict[str, Any]:
    """The parts of `found` in place of those in the folder's JSON, whose other parts stay; each of these has its own
    `measured`."""
    parts = {name: part for name, part in found.items() if isinstance(part, dict) and "measured" in part}
    file = folder / "trainer.json"
    kept = json.loads(file.read_text()).get("cpu") if file.exists() else None
    if kept is None:
        raise SystemExit(f"{file} has no results of a CPU to put these beside: measure all parts once, without --parts")
    return {**kept, **parts}


def page(both: dict[str, Any]) -> str:
    parts = [HEAD]
    if "cpu" in both:
        parts += ["## On a CPU: `make bench-trainer`\n", cpu_page(both["cpu"]), "\n![Rates](trainer.png)\n"]
    parts += ["## On a GPU: `make gpu-bench`\n", gpu_page(both["gpu"]) if "gpu" in both else GPU_MISSING]
    return "\n".join(parts)


def table(head: tuple[str, ...], lines: list[tuple[Any, ...]]) -> str:
    """Markdown, numbers to the right."""
    rule = "|".join(["---", *["---:"] * (len(head) - 1)])
    return "\n".join([f"| {' | '.join(head)} |", f"|{rule}|", *(f"| {' | '.join(map(str, line))} |" for line in lines)])


def ratio(row: dict[str, Any]) -> str:
    return "too noisy" if row["ratio"] is None else f"{row['ratio']:.2f}"


def apart_from_the_rest(part: dict[str, Any]) -> str:
    """Of a part that was measured alone: when, and on what; a paragraph, or nothing."""
    if "measured" not in part:
        return ""
    was = part["measured"]
    return f"\nMeasured by itself: {about(was)}{loads_of(was['machine'])}.\n"


def about(found: dict[str, Any]) -> str:
    was = found["machine"]
    names = ", ".join(f"{name} {version}" for name, version in was["versions"].items() if version)
    return f"{was['device']}; Python {was['python']}, {names}; {was['date']}; {found['rounds']} rounds; "


def loads_of(was: dict[str, Any]) -> str:
    return f"load average {was['load_at_start']} before and {was['load_at_end']} after"


def cpu_page(found: dict[str, Any]) -> str:
    was, over, paths = found["machine"], found["overhead"], found["data"]
    verdict = {True: "met", False: "not met", None: "too noisy to tell"}
    peers = [(r["name"], r["images_per_s"], ratio(r), f"{r['spread']:.0%}") for r in found["peers"]["rows"]]
    data = [(r["name"], f"{r['images_per_s']:.0f}", ratio(r), f"{r['spread']:.0%}") for r in paths["paths"]]
    stages = [(r["name"], f"{r['images_per_s']:.0f}") for r in paths["stages"]]
    overheads = [
        (
            name,
            2,
            o["steps"],
            f"{o['bare_step_us']:.0f}",
            f"{o['extra_us']:.0f}",
            # A run from before had the middle half of all steps.
            "{:.0f} to {:.0f}".format(*o.get("interval", o.get("quartiles"))),
        )
        for name, o in (("tiny", over["tiny"]), ("default configuration", over["default"]))
    ]
    told = "".join(f"\n{verdict_line(row)}" for row in found["peers"].get("verdicts", ()))
    told += "\n" if told else ""
    between = "95 % interval of its median" if "interval" in over["tiny"] else "half of all between"
    apart = max(found["peers"]["disagreement"].values())
    parts = [over, found["peers"], paths, found.get("loaders") or {}]
    # Once each part has been measured anew, nothing is left of that run.
    together = "" if all("measured" in part for part in parts) else f"{about(found)}{loads_of(was)}.\n\n"
    return f"""{together}Times are CPU time of one process with one thread: seconds in which another program had
the CPU do not count. Where the load average is above the number of CPUs others were at work, and what they do to caches
and clocks is in the spread.
{apart_from_the_rest(over)}
**Overhead** of the trainer's step over a hand-written loop that watches nothing. The trainer looks at every loss and
gradient for numbers that are none; the loop does not. The two take turns step by step.

{table(("networks", "batch", "steps", "step of the loop, us", "more, us", between), overheads)}

With the default configuration's networks that is {share_of(over)} of a step
of its batch of 64, which takes {over["default_step_us"] / 1e6:.1f} s here (DCGAN, 64 px).
Goal: {over["goal"]}: {verdict[over["met"]]}.
{apart_from_the_rest(found["peers"])}
**Against others**, DCGAN 32 px, batch 32, float32; losses of the first steps agree within {apart:.1g}.

{table(("loop", "images/s", "ratio", "spread"), peers)}
{told}{apart_from_the_rest(paths)}
**Data path**: {paths["data"]}, to {paths["image_size"]} px, batches of {paths["batch_size"]}. Goal: whole batches from
the memory map {paths["goal"]}: {verdict[paths["met"]]} (in every round {paths["lowest_gain"]} times or more).

{table(("from the page cache to a batch", "images/s", "ratio", "spread"), data)}

{table(("stage alone", "images/s"), stages)}
{apart_from_the_rest(found.get("loaders") or {})}
{loaders_part(found.get("loaders"))}
"""


def share_of(over: dict[str, Any]) -> str:
    """Such as "0.13% (95 % interval -0.20% to 0.31%)"; a run from before had no interval."""
    ends = [end / over["default_step_us"] for end in over["default"].get("interval", ())]
    return f"{over['share']:.2%}" + (f" (95 % interval {ends[0]:.2%} to {ends[1]:.2%})" if ends else "")


def loaders_part(found: dict[str, Any] | None) -> str:
    """What is told of the loaders; a run from before they were compared has none."""
    if found is None:
        return "**Loaders beside torchvision and webdataset**: not part of this run."
    table_rows = [(r["name"], f"{r['images_per_s']:.0f}", f"{r['spread']:.0%}") for r in found["rows"]]
    lines = [f"* {name}: left out, {why}" for name, why in found["missing"].items()]
    lines += map(verdict_line, found["verdicts"])
    lines += [goal_line(row, found) for row in found["goals"]]
    told = "\n".join(lines)
    work = f"decoded anew to {found['image_size']} px, batches of {found['batch_size']}, no workers"
    return f"""**Loaders beside others**, {found["data"]}, {work}.
Figures are of the day they were measured.

{table(("loader", "images/s", "spread"), table_rows)}

{told}{"".join(map(steps_table, found.get("steps", ())))}"""


def steps_table(found: dict[str, Any]) -> str:
    """Where the time of one loader goes; a run from before has none."""
    lines = [(step["name"], f"{step['us']:.0f}", f"{step['share']:.0%}") for step in found["steps"]]
    return f"""

{table((f"{found['loader']}: step", "us for an image", f"of {found['us']:.0f}"), lines)}"""


def ends_of(row: dict[str, Any]) -> str:
    """An interval in words; its upper end is None where there were too few rounds to know it."""
    low, high = row["interval"]
    return f"95 % interval {low:.2f} to {'?' if high is None else format(high, '.2f')}"


def verdict_line(row: dict[str, Any]) -> str:
    return f"* {row['ours']}: {row['word']} {row['other']} ({row['ratio']:.2f}x, {ends_of(row)})"


def goal_line(row: dict[str, Any], found: dict[str, Any]) -> str:
    """What the plain loader takes is the measure, and what the decoder takes is the limit."""
    verdict = {True: "met", False: "not met", None: "inconclusive"}[row["met"]]
    told = f"{row['ratio']:.2f} times the plain loader ({ends_of(row)}); goal {found['goal']:g} times: {verdict}"
    shares = f"{row['of_decoder']:.0%} of the rate of the decoder alone, and the goal takes {row['needs']:.0%}"
    return f"* {row['ours']}: {told}. It has {shares}."


def gpu_page(found: dict[str, Any]) -> str:
    parts = [about(found).rstrip("; ") + ".\n"]
    ceilings = [(name, f"{value:.1f}") for name, value in found["ceilings"].items()]
    parts.append(table(("ceiling measured", "value"), ceilings))
    for case in found["cases"]:
        lines = [
            (
                r["name"],
                r.get("note") or r["images_per_s"],
                ratio(r),
                f"{r['spread']:.0%}",
                r["peak_memory_mib"],
                r["gemm"],
            )
            for r in case["rows"]
        ]
        head = ("loop", "images/s", "ratio", "spread", "peak MiB", "of bf16 GEMM")
        parts.append(f"\n**{case['name']}**\n\n{table(head, lines)}")
        parts += [
            f"\n* {goal}: {'met' if met else 'not met' if met is False else 'too noisy to tell'}"
            for goal, met in case["goals"]
        ]
    return "\n".join(parts) + "\n"


def picture(found: dict[str, Any], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 1, figsize=(7.5, 4.8), layout="constrained")
    for panel, title, rows in (
        (axes[0], "training, images/s", found["peers"]["rows"]),
        (axes[1], "data path, images/s", found["data"]["paths"]),
    ):
        for place, row in enumerate(rows):
            panel.barh(place, row["images_per_s"], 0.65, color="#1f77b4")
            panel.plot([row["lowest"], row["highest"]], [place, place], color="#222222", linewidth=1)
            panel.text(row["highest"], place, f" {row['images_per_s']:.0f}", va="center", fontsize=8)
        panel.set_yticks(range(len(rows)), [row["name"] for row in rows], fontsize=8)
        panel.set_ylim(len(rows) - 0.5, -0.5)
        panel.set_title(title, fontsize=9, loc="left")
        panel.margins(x=0.15)
        panel.spines[["top", "right"]].set_visible(False)
    device = found["peers"].get("measured", found)["machine"]["device"]
    figure.supxlabel(f"{device}; bar: median of the rounds, line: from lowest to highest", fontsize=7)
    figure.savefig(file, dpi=100)
    pyplot.close(figure)


HEAD = f"""# How fast the trainer is

Written by `make bench-trainer` and `make gpu-bench`, which measure the arms side by side in one run: same networks,
losses, optimizer, batches and noise. The arms take turns; a ratio is the median of the ratios within each round. Where
an arm, or the one that it is compared with, differs from itself by more than {MAX_SPREAD:.0%} from round to round there
is no ratio (spread: highest minus lowest over median, from 8 rounds on of the middle half of them). Faster and slower
are said where the whole interval of the paired rounds lies on one side of 1, equal where both ends lie within 5 % of
it; else it is inconclusive. The medians are in [trainer.json](trainer.json).

What was reported of the A5 servers and what is measured on a machine stand side by side in `train-gan bench`. One
reported number contradicts published ones: batch 32 to 128 as 1.8 times the speed. Networks that keep a GPU busy gain
1.07 to 1.29 times (NVIDIA/DeepLearningExamples, V100 and A100); more means that small batches left the GPU waiting.
"""
GPU_GOALS = (
    ("256 px: over the newcomer's strict float32 loop", "2.5 times, aim 4"),
    ("256 px: over the loop with PyTorch's default TF32", "1.5 times"),
    ("64 and 128 px: over the eager mixed-precision loop, by CUDA graphs or compile", "3 times"),
    ("over Lightning, Accelerate and the best loop by hand, in every arm", "1.0 times"),
    ("over a loop that reads three losses in every step", "1.5 times"),
    ("256 px: share of the measured bf16 GEMM rate", "20 %, aim 35 %"),
    ("waiting for data", "at most 2 % of a step"),
    ("prefetcher on over off", "1.0 times"),
    ("loss of float16 and bfloat16 against float32", "within 2 %"),
)
GPU_MISSING = table(("what", "goal", "measured"), [(*goal, NEEDS_GPU) for goal in GPU_GOALS]) + "\n"
