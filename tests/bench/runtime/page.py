"""The page of a measurement, from its JSON."""

from __future__ import annotations

HEAD = """# Benchmark: starting a training

Written by `make bench-runtime`; do not edit. It is made from the medians in `runtime.json`.

Every arm runs once in every round, in another order each time, and is compared with the bare arm of its own round.
A ratio is the median of these paired ratios; above 1 is better than bare, and the range behind it is the lowest and
the highest round. `bare again` is the same as bare: what it differs by is noise. Spread is the distance of the
quartiles over the median; where bare's own exceeds 15 %, the machine was too busy and no ratio is printed. Below
each table stands what the rounds tell of gpu-run beside the arm that it looks worst against: the median of their
paired ratios, and the interval in which that median lies with 95 % confidence (order statistics). Faster and slower
are said where the whole interval lies on one side of 1, equal where both ends lie within 5 % of it; else it is
inconclusive.
"""
# Both ends of an interval.
EQUAL_WITHIN = 0.05


def write_page(result: dict) -> str:
    """Markdown."""
    parts = [HEAD, "## Machine\n", *_machine(result), "## Start cost\n"]
    parts += [START, *(_comparison(row) for row in result["start"])]
    parts += [f"`{name}`: {note}.\n" for name, note in result["notes"].items()]
    parts += ["## DataLoader and training\n", SPEED]
    parts += [f"No {name} on this machine: its arms are missing.\n" for name in result["missing"]]
    parts += [_comparison(row) for row in result["speed"]]
    parts += ["### CPUs that a process may use after `import torch`\n", _affinity(result)]
    parts += ["## Memory growth\n", _churn(result["churn"]), "## Local and remote memory\n", _bandwidth(result)]
    return "\n".join(parts)


START = """CPU time is user and system time of the whole start; other work on the machine changes it less than wall
time. gpu-run's library is compiled as the role leaves it on a node. `added` is the median of what an arm takes beyond
the bare one of its own round.
"""

SPEED = """A plain DataLoader (no worker initialisation) decodes JPEG files of 256 x 256 pixels and scales them to 64;
then a small convolutional network trains on the CPU. `jemalloc`, `jemalloc tuned` and `tcmalloc` are
`gpu-run --allocator ...`, the tuned one with the role's MALLOC_CONF; `gpu-run` itself preloads nothing before a
calibration.
"""


def _machine(result: dict) -> list[str]:
    about = result["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in sorted(about["packages"].items()))
    kind = "a virtual machine" if about["virtual machine"] else "no virtual machine"
    return [
        f"* {result['time']}, {about['CPU']}, {about['CPUs']} CPUs, {about['NUMA nodes']} NUMA node(s), "
        f"{about['memory GiB']} GiB, {kind}, {'CUDA' if about['CUDA'] else 'no GPU'}",
        f"* Linux {about['kernel']}, {about['C library']}, Python {about['Python']}, PyTorch {about['PyTorch']}",
        f"* {packages}",
        f"* load {about['load when it began']} when it began and {about['load when it ended']} when it ended, "
        f"{result['rounds']} rounds\n",
    ]


def _comparison(row: dict) -> str:
    added = any("added" in values for values in row["arms"].values())
    unit = "" if row["metric"] == row["label"] else f" ({row['metric']})"
    better = "higher" if row["higher_is_better"] else "lower"
    head = ["arm", "median", *(["added"] if added else []), "spread", "ratio to bare", "range"]
    lines = [f"### {row['label']}{unit}, {better} is better\n", _line(head), _line(["---"] * len(head))]
    for name, values in row["arms"].items():
        ratio = ["-", "-"]
        if "ratio" in values:
            ratio = [f"{values['ratio']:.2f}", f"{values['lowest']:.2f} to {values['highest']:.2f}"]
        cells = [name, f"{values['median']:.4g}", *([f"{values['added']:+.1f}"] if added else [])]
        lines.append(_line([*cells, f"{values['spread']:.0%}", *ratio]))
    return "\n".join([*lines, f"\n`gpu-run`: {_said(row)}.\n"])


def _said(row: dict) -> str:
    found = row["verdict"]
    if isinstance(found, str):
        return found
    if found is None:
        return f"not compared, bare alone varied by {row['spread']:.0%}"
    low, high = found["interval"]
    return f"{word_of(low, high)} {found['other']} ({found['ratio']:.2f}x, 95 % interval {low:.2f} to {high:.2f})"


def word_of(low: float, high: float) -> str:
    """What an interval of ratios tells."""
    if low > 1:
        return "faster than"
    if high < 1:
        return "slower than"
    if low >= 1 - EQUAL_WITHIN and high <= 1 + EQUAL_WITHIN:
        return f"equal within {EQUAL_WITHIN:.0%} to"
    return "inconclusive beside"


MEASURED = "<!-- From docs/benchmarks/runtime.json, by make bench-runtime; do not edit. -->"


def measured(result: dict) -> str:
    """What docs/runtime.md says of the last run: what the load changes little."""
    where, cpu = result["affinity"], result["start"][0]["arms"]
    script, churn = result["start"][2]["arms"], result["churn"]
    at_end, freed = "resident MiB at the end", "resident MiB 12 s after all was freed"
    made = [arm["million allocations"] for arm in churn["arms"].values()]
    pinned, others = where["GOMP_CPU_AFFINITY"], where["bare"]
    held = ", ".join(f"{name} {arm[freed]:.0f} MiB" for name, arm in _by(churn["arms"], freed))
    grown = ", ".join(f"{name} {arm[at_end]:.0f}" for name, arm in _by(churn["arms"], at_end))
    compared = [row for row in result["speed"] if row["verdict"] is not None]
    words = [word_of(*row["verdict"]["interval"]).split(" ")[0] for row in compared]
    told = ", ".join(f"{word} in {words.count(word)}" for word in ("faster", "slower", "equal", "inconclusive"))
    every = len(result["speed"])
    lines = [
        f"* **Speed**: of {every} comparisons with the best other arm {every - len(compared)} "
        f"were withheld, as bare alone varied too much; of the rest gpu-run is {told}.",
        f"* **GOMP_CPU_AFFINITY**: after `import torch` the main thread may use CPU {pinned['main thread']} alone, and "
        f"so may every DataLoader worker (CPU {pinned['DataLoader worker']}); with bare both may use CPUs "
        f"{others['main thread']}. However many workers there are, they take turns on one core.",
        *(f"* **{name}** is measured {note}." for name, note in sorted(result["notes"].items())),
        f"* **Start**: torchrun takes {script['torchrun']['median'] / 1000:.1f} s and run_cpu "
        f"{script['run_cpu']['median'] / 1000:.1f} s, as both import PyTorch before the command does. gpu-run adds "
        f"{cpu['gpu-run']['added']:.0f} ms of CPU time, with Python 3.6 {cpu['gpu-run, Python 3.6']['added']:.0f} ms.",
        f"* **Memory**: 12 s after a process had dropped all of its 200 MiB there remained: {held}; PyTorch itself is "
        f"part of each. While the churn went on, at the end: {grown}. Each had {churn['seconds']:g} s, so the figures "
        f"are not of equal work ({min(made):.1f} to {max(made):.1f} million allocations).",
    ]
    return "\n".join([MEASURED, "", *lines, ""])


def _by(arms: dict, metric: str) -> list[tuple[str, dict]]:
    return sorted(arms.items(), key=lambda item: item[1][metric])


def with_measured(page: str, result: dict) -> str:
    """docs/runtime.md, whose last part is `measured`."""
    return page.partition(MEASURED)[0] + measured(result)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _affinity(result: dict) -> str:
    lines = [_line(["arm", "main thread", "DataLoader worker"]), _line(["---"] * 3)]
    for arm, cpus in result["affinity"].items():
        lines.append(_line([arm, cpus["main thread"], cpus["DataLoader worker"]]))
    return "\n".join(lines) + "\n"


def _churn(churn: dict) -> str:
    metrics = list(next(iter(churn["arms"].values())))
    lines = [
        "Tensors of mixed size and life, about 200 MiB alive at any time, "
        f"{churn['seconds']:g} s for each allocator.\n",
        _line(["allocator", *metrics]),
        _line(["---"] * (len(metrics) + 1)),
    ]
    for name, values in churn["arms"].items():
        lines.append(_line([name, *(f"{values[metric]:.4g}" for metric in metrics)]))
    return "\n".join(lines) + "\n"


def _bandwidth(result: dict) -> str:
    if result["bandwidth"] is None:
        return "Needs two sockets; this machine has one memory node.\n"
    return _comparison({**result["bandwidth"], "label": "GB/s", "verdict": "see `bare` (local) and `remote`"})
