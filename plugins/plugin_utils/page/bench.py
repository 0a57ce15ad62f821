# SPDX-License-Identifier: Apache-2.0
"""The seed report: documented numbers of the reference server beside those that `train-gan bench` measured here."""

from __future__ import annotations

from typing import Any, NamedTuple

from .cells import Table
from .values import as_list, in_words, is_number, look

NO_BENCH = "Not measured: nobody has run train-gan bench on this node."
PRECISIONS = {"fp32": "full precision", "amp": "mixed precision", "amp_2_gpus": "mixed precision, 2 GPUs"}
HEAD = ("Training", "Epoch documented", "Epoch here", "Memory documented", "Memory here", "FID documented", "FID here")
STEPS_HEAD = ("Step", "Images per second", "Against the first", "Peak memory")


class SeedReport(NamedTuple):
    """Documented and measured epochs side by side, steps of the ladder, and where the two contradict each other."""

    words: str
    reduced: bool
    epochs: Table | None
    steps: Table | None
    contradictions: list[str]


def seed_report(report: dict[str, Any]) -> SeedReport | str:
    """What was measured, or a sentence if nothing was."""
    bench = look(report, "readings", "bench")
    if bench is None:
        return NO_BENCH
    if not isinstance(bench, dict):
        return in_words(bench)[:1].upper() + in_words(bench)[1:]
    words = "{}, PyTorch {}, images of {} pixels, {} in an epoch; measured {}.".format(
        *[in_words(look(bench, key)) for key in ("device", "torch", "image_size", "images_per_epoch", "time")]
    )
    rows = [epoch(row, precision_name(row)) for row in records(bench, "precision")]
    rows += [epoch(row, f"batch of {in_words(look(row, 'batch_size'))}") for row in records(bench, "batch")]
    steps = [
        (
            in_words(look(row, "name")),
            # Of an optimisation that did not run, the reason.
            number(look(row, "images_per_s"), "{:.4g}") if not look(row, "not_run") else in_words(look(row, "not_run")),
            number(look(row, "ratio"), "{:.2f} ×"),
            number(look(row, "peak_memory_mib"), "{:.0f} MiB"),
        )
        for row in records(bench, "ladder")
    ]
    return SeedReport(
        words,
        look(bench, "reduced") is not False,
        Table("Documented for the A5 server, and measured here", HEAD, rows) if rows else None,
        Table("What each step of tuning brings", STEPS_HEAD, steps) if steps else None,
        [in_words(sentence) for sentence in as_list(look(bench, "contradictions"))],
    )


def records(bench: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [row for row in as_list(look(bench, name)) if isinstance(row, dict)]


def precision_name(row: dict[str, Any]) -> str:
    name = in_words(look(row, "name"))
    return PRECISIONS.get(name, name) + ("" if look(row, "stable") is not False else " (not stable)")


def epoch(row: dict[str, Any], name: str) -> tuple[str, ...]:
    told = look(row, "reported")
    return (
        name,
        number(look(told, "epoch_min"), "{:.4g} min"),
        number(look(row, "epoch_s"), "{:.1f} min", 1 / 60.0),
        number(look(told, "memory_percent"), "{:.3g} %"),
        number(look(row, "memory_fraction"), "{:.0f} %", 100),
        number(look(told, "fid"), "{:.4g}"),
        number(look(row, "fid"), "{:.4g}"),
    )


def number(value: Any, form: str, factor: float = 1) -> str:
    """The value in words; "–" if it was not documented or not measured."""
    return form.format(value * factor) if is_number(value) else "–"
