# SPDX-License-Identifier: Apache-2.0
"""bench.json as tables for people."""

from __future__ import annotations

from typing import Any

from .training import DISTINCT_BATCHES

LABELS = {"fp32": "fp32 strict"}
HEAD = f"{'epoch s':>10}{'ratio':>8}{'spread':>8}{'reserved':>10}{'allocated':>11}"
THEN = f"{'reported min':>15}{'ratio':>7}{'memory':>9}"


def as_text(report: dict[str, Any]) -> str:
    """The report for people."""
    size = "reduced size, a trial: times say nothing about a GPU" if report["reduced"] else "as configured"
    lines = [
        f"{report['device']}, torch {report['torch']}, {report['image_size']} px",
        f"{report['images_per_epoch']} images an epoch, its time from the rate of {DISTINCT_BATCHES} batches in memory",
        f"Size: {size}. Reported: NVIDIA V100 16 GB, as reported; its data set and network are unknown.",
        "",
        f"Each row in {report['rounds']} rounds, in turns: median, ratio of pairs, spread; memory: reserved by the "
        "allocator, allocated by tensors. fp32 strict has no TF32.",
        "",
        f"{'precision':<14}{HEAD}{'stable':>8}{'FID':>8}{THEN}{'FID':>7}",
    ]
    first = report["precision"][0]
    for row in report["precision"]:
        stable = {True: "yes", False: "NO", None: "-"}[row["stable"]]
        told = row["reported"] or {"fid": "-"}
        name = LABELS.get(row["name"], row["name"])
        sound = f"{stable:>8}{_number(row['fid'], '8.1f')}"
        lines.append(f"{name:<14}{_times(row)}{sound}{_then(row, first)}{told['fid']:>7}{_note(row)}")
    lines += ["", f"{'batch size':<14}{HEAD}{'':>16}{THEN}"]
    first = report["batch"][0]
    for row in report["batch"]:
        lines.append(f"{row['batch_size']:<14}{_times(row)}{'':>16}{_then(row, first)}{_note(row)}")
    lines += ["", f"{'as reported':<50}{'reported':>18}{'measured':>24}"]
    lines += [_claim(row) for row in report["claims"]]
    lines += ["", f"{'ladder':<50}{'images/s':>10}{'ratio':>8}{'peak MiB':>10}"]
    lines += [_rung(row) for row in report["ladder"]]
    if any(row["images_per_s"] and row["ratio"] is None for row in report["ladder"]):
        lines.append("noise: that loop or the plain one differed from itself by more than 15 % between rounds")
    return "\n".join([*lines, "", *report["contradictions"]])


def _times(row: dict[str, Any]) -> str:
    """The measured columns, under HEAD."""
    if row["epoch_s"] is None:
        said = "failed" if row["note"] else f"not run: {row['not_run']}"
        return f"{said:>{len(HEAD)}}"
    ratio = f"{'noise':>8}" if row["ratio"] is None else f"{row['ratio']:>8.2f}"
    reserved, allocated = (
        "-" if row[name] is None else f"{row[name]:.0%}" for name in ("memory_fraction", "allocated_fraction")
    )
    return f"{row['epoch_s']:>10.1f}{ratio}{row['spread']:>8.0%}{reserved:>10}{allocated:>11}"


def _then(row: dict[str, Any], first: dict[str, Any]) -> str:
    """The reported columns, under THEN."""
    was = row["reported"]
    if was is None:
        return f"{'-':>15}{'-':>7}{'-':>9}"
    return f"{was['epoch_min']:>15}{first['reported']['epoch_min'] / was['epoch_min']:>7.2f}{was['memory_percent']:>8}%"


def _claim(row: dict[str, Any]) -> str:
    low, high = row["reported"]
    measured = row["measured"]
    if row["unit"] == "%":
        was = f"{low * 100:.0f} to {high * 100:.0f} %"
        now = None if measured is None else f"{measured * 100:.0f} %"
    else:
        was, now = f"{low:.1f} times", None if measured is None else f"{measured:.2f} times"
    return f"{row['name']:<50}{was:>18}{now or 'not run: ' + row['not_run']:>24}"


def _rung(row: dict[str, Any]) -> str:
    if row["images_per_s"] is None:
        return f"{row['name']:<50}  {row['not_run']:>26}"
    ratio = "noise" if row["ratio"] is None else f"{row['ratio']:.2f}"
    return f"{row['name']:<50}{row['images_per_s']:>10.1f}{ratio:>8}{_number(row['peak_memory_mib'], '10d')}"


def _number(value: float | None, form: str) -> str:
    return format("-", f">{int(form.rstrip('df').split('.')[0])}") if value is None else format(value, form)


def _note(row: dict[str, Any]) -> str:
    return f"   {row['note']}" if row["note"] else ""
