# SPDX-License-Identifier: Apache-2.0
"""The seed report: documented numbers of the reference server beside those that `train-gan bench` measured here."""

from .markup import el, join, listed, soft, table
from .values import as_list, in_words, is_number, look

NO_BENCH = "Not measured: nobody has run train-gan bench on this node."
PRECISIONS = {"fp32": "full precision", "amp": "mixed precision", "amp_2_gpus": "mixed precision, 2 GPUs"}
REDUCED = (
    "This was a reduced run: fewer images or steps than an epoch has. Its times are scaled from what it did; "
    "compare ratios and not minutes."
)
HEAD = ("Training", "Epoch documented", "Epoch here", "Memory documented", "Memory here", "FID documented", "FID here")


def seed_report(report):
    """Documented and measured epochs side by side, steps of the ladder, and where the two contradict each other."""
    bench = look(report, "readings", "bench")
    if bench is None:
        return soft(NO_BENCH)
    if not isinstance(bench, dict):
        return soft(in_words(bench)[:1].upper() + in_words(bench)[1:])
    words = "{}, PyTorch {}, images of {} pixels, {} in an epoch; measured {}.".format(
        *[in_words(look(bench, key)) for key in ("device", "torch", "image_size", "images_per_epoch", "time")]
    )
    parts = [soft(words)]
    if look(bench, "reduced") is not False:
        parts.append(el("p", REDUCED))
    rows = [_epoch(row, precision_name(row)) for row in records(bench, "precision")]
    rows += [_epoch(row, "batch of {}".format(in_words(look(row, "batch_size")))) for row in records(bench, "batch")]
    parts.append(table(HEAD, rows, "Documented for the A5 server, and measured here") if rows else soft("No epoch."))
    steps = [
        (in_words(look(row, "name")), rate(row), times(look(row, "ratio")), mib(look(row, "peak_memory_mib")))
        for row in records(bench, "ladder")
    ]
    if steps:
        head = ("Step", "Images per second", "Against the first", "Peak memory")
        parts.append(table(head, steps, "What each step of tuning brings"))
    against = [in_words(sentence) for sentence in as_list(look(bench, "contradictions"))]
    parts += [el("h4", "Documented and measured contradict each other" if against else "No contradictions")]
    parts.append(listed(against, "What was measured fits what is documented."))
    return join(parts)


def records(bench, name):
    return [row for row in as_list(look(bench, name)) if isinstance(row, dict)]


def precision_name(row):
    name = in_words(look(row, "name"))
    words = PRECISIONS.get(name, name)
    return words + ("" if look(row, "stable") is not False else " (not stable)")


def _epoch(row, name):
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


def number(value, form, factor=1):
    """The value in words; "–" where it was not documented or not measured."""
    return form.format(value * factor) if is_number(value) else "–"


def rate(row):
    return number(look(row, "images_per_s"), "{:.4g}")


def times(value):
    return number(value, "{:.2f} ×")


def mib(value):
    return number(value, "{:.0f} MiB")
