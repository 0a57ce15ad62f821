"""The page of a measurement, from its JSON."""

from __future__ import annotations

HEAD = """# Benchmark: starting a training

Written by `make bench-runtime`; do not edit. It is made from the medians in `runtime.json`.

Every arm runs once in every round, in another order each time, and is compared with the bare arm of its own round.
A ratio is the median of these paired ratios; above 1 is better than bare, and the range behind it is the lowest and
the highest round. `bare again` is the same as bare: what it differs by is noise. Spread is the distance of the
quartiles over the median; where bare's own exceeds 15 %, the machine was too busy and no ratio is printed. Below
each table stands what the rounds tell of gpu-run beside the arm that it looks worst against: the median of their
paired ratios, and the interval in which that median lies with 95 % confidence (order statistics).
"""


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
    return "\n".join([*lines, f"\n`gpu-run`: {row['verdict']}.\n"])


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
