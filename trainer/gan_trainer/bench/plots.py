# SPDX-License-Identifier: Apache-2.0
"""bench.json as pictures, with matplotlib: precision.png, batch.png, ladder.png."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# Imported here, so that a missing library is reported before anything is measured.
import matplotlib

from ..safe_files import replacing

# Draws into files, whether or not there is a display.
matplotlib.use("Agg")
MEASURED, REPORTED = "#1f77b4", "#c7c7c7"


def draw(report: dict[str, Any], folder: Path) -> list[Path]:
    """Write the pictures for which the report has numbers; returns their files."""
    from matplotlib import pyplot

    files = []
    for name, paint in (("precision", paint_precision), ("batch", paint_batch), ("ladder", paint_ladder)):
        figure, axes = pyplot.subplots(figsize=(7.5, 4.2), layout="constrained")
        paint(axes, report)
        size = "reduced size on a CPU" if report["reduced"] else f"{report['image_size']} px"
        note = f"{report['device']}, {size}, torch {report['torch']}"
        figure.supxlabel(note, fontsize=8, color="#555555")
        axes.spines[["top", "right"]].set_visible(False)
        file = folder / f"{name}.png"
        with replacing(file) as out:
            figure.savefig(out, dpi=110, format="png")
        pyplot.close(figure)
        files.append(file)
    return files


def paint_precision(axes: Any, report: dict[str, Any]) -> None:
    rows = report["precision"]
    speedups(axes, rows, [row["name"] for row in rows], "strict float32")


def paint_batch(axes: Any, report: dict[str, Any]) -> None:
    rows = report["batch"]
    speedups(axes, rows, [f"batch {row['batch_size']}" for row in rows], f"batch {rows[0]['batch_size']}")


def speedups(axes: Any, rows: list[dict[str, Any]], names: list[str], base: str) -> None:
    """Ratios to the first row: times of another machine and data set do not belong on one axis with these."""
    for place, row in enumerate(rows):
        told = row["reported"]
        both = [(-0.2, rows[0]["reported"]["epoch_min"] / told["epoch_min"], REPORTED)] if told else []
        if row["ratio"]:
            both.append((0.2, row["ratio"], MEASURED))
        else:
            missing = f"not run: {row['not_run']}" if row["not_run"] else "failed" if row["note"] else "noise"
            axes.text(place + 0.2, 0.03, missing, rotation=90, ha="center", va="bottom", fontsize=9, color="#555555")
        for offset, height, colour in both:
            axes.bar(place + offset, height, 0.38, color=colour)
            axes.text(place + offset, height, f"{height:.2f}", ha="center", va="bottom", fontsize=9)
    axes.bar(0, 0, color=REPORTED, label="as reported (V100 16 GB)")
    axes.bar(0, 0, color=MEASURED, label="measured here")
    axes.set_xticks(range(len(rows)), names)
    axes.set_ylabel(f"speed, {base} = 1")
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.legend(loc="upper left", frameon=False, fontsize=9)
    axes.margins(y=0.25)


def paint_ladder(axes: Any, report: dict[str, Any]) -> None:
    rows = report["ladder"]
    for place, row in enumerate(rows):
        if row["images_per_s"] is None:
            missing = "needs a GPU" if report["reduced"] else "not on this GPU"
            axes.text(0, place, f" {missing}", va="center", fontsize=9, color="#555555")
            continue
        axes.barh(place, row["images_per_s"], 0.7, color=MEASURED)
        ratio = "" if row["ratio"] is None else f"  {row['ratio']:.2f}x"
        axes.text(row["images_per_s"], place, f" {row['images_per_s']:.0f}{ratio}", va="center", fontsize=9)
    axes.set_yticks(range(len(rows)), [row["name"] for row in rows], fontsize=9)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("images per second, and the ratio to the first")
    axes.margins(x=0.15)
