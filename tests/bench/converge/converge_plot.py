"""The picture of docs/benchmarks/converge.json, drawn by an interpreter that has matplotlib."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

COLOURS = {
    "bare script": "#7f7f7f",
    "stock role": "#d98c3f",
    "stock role, mitogen": "#b8a22e",
    "gpuwright": "#1f77b4",
}
STEPS = {"first": "first run", "no-op": "no-op", "changed variable": "one changed variable"}
PANELS = (
    ("wall", "wall time, s"),
    ("controller CPU", "controller, CPU s"),
    ("modules", "modules executed on the host"),
)


def panel(axes: Any, arms: dict[str, Any], kind: str, title: str) -> None:
    """One group of bars for each step; of ours the smoke test is drawn lighter."""
    names = [name for name in COLOURS if name in arms and not (kind == "modules" and name == "bare script")]
    height = 0.8 / max(len(names), 1)
    for place, step in enumerate(STEPS):
        for row, name in enumerate(names):
            if step not in arms[name]:
                continue
            figure = arms[name][step][kind]
            at = place + (row - (len(names) - 1) / 2) * height
            axes.barh(at, figure["median"], height * 0.9, color=COLOURS[name], label=name if place == 0 else None)
            if kind == "wall" and arms[name][step]["smoke"]["median"]:
                share = arms[name][step]["smoke"]["median"]
                axes.barh(at, share, height * 0.9, left=figure["median"] - share, color="#9ecae1")
            low, high = figure["interval"]
            axes.plot([low, high], [at, at], color="#222222", linewidth=1)
            axes.text(max(high, figure["median"]), at, f" {figure['median']:g}", va="center", fontsize=7)
    axes.set_yticks(range(len(STEPS)), list(STEPS.values()), fontsize=8)
    axes.set_ylim(len(STEPS) - 0.5, -0.5)
    axes.set_title(title, fontsize=9, loc="left")
    axes.margins(x=0.15)
    axes.tick_params(axis="x", labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def main() -> int:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    source, target = map(Path, sys.argv[1:3])
    found = json.loads(source.read_text()).get("hosts 1")
    if not found:
        return 0
    figure, axes = pyplot.subplots(len(PANELS), 1, figsize=(7.5, 7.8), layout="constrained")
    for one, (kind, title) in zip(axes, PANELS, strict=True):
        panel(one, found["arms"], kind, title)
    handles, labels = axes[0].get_legend_handles_labels()
    handles.append(matplotlib.patches.Patch(color="#9ecae1"))
    labels.append("of that its smoke test")
    figure.legend(handles, labels, loc="outside upper center", ncols=5, fontsize=8, frameon=False)
    was = found["measured"]
    figure.supxlabel(
        f"one host; {was['cores']} cores, load {was['load before']} to {was['load after']}, {was['date']}; "
        "bar: median of the runs, line: its interval",
        fontsize=7,
    )
    figure.savefig(target, dpi=100)
    return 0


if __name__ == "__main__":
    sys.exit(main())
