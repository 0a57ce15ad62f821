# SPDX-License-Identifier: Apache-2.0
"""Measurements of a report as bars with their floors: the smoke test, and the speed of a GPU's links and cores."""

from __future__ import annotations

from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.module_utils.gpu.floors import amp_floor, unit_of
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.check import FAIL, PASS, WARN

from .values import as_list, in_words, is_number, look, shorten

MEASURES = (
    ("h2d_gb_s", "host to GPU"),
    ("d2h_gb_s", "GPU to host"),
    ("h2d_remote_gb_s", "host to GPU from the far CPU"),
    ("copy_gb_s", "copy in GPU memory"),
    ("matmul_fp16_tflops", "matrix product in fp16"),
    ("matmul_bf16_tflops", "matrix product in bf16"),
    ("matmul_tf32_tflops", "matrix product in tf32"),
    ("matmul_fp32_tflops", "matrix product in fp32"),
)
# With what only a burn-in or a sweep measures.
WORDS = {**dict(MEASURES), "p2p_gb_s": "GPU to GPU", "d2h_remote_gb_s": "GPU to host on the far CPU"}
WORDS |= {"link_gt_s": "PCIe link under load", "all_reduce": "all-reduce in the node"}
NOT_ASKED = "Not measured: this verification did not ask for it. It is measured at level deep, on idle GPUs."


def measure_words(measure: str) -> tuple[str, str]:
    """(name, unit) of a measure of a card's history."""
    if measure.startswith("smoke_"):
        return f"smoke test in {measure.removeprefix('smoke_')}", "steps/s"
    count, _x, name = measure.partition("x_")
    if count.isdecimal() and name == "all_reduce":
        return f"all-reduce over {count} devices", unit_of(name)
    return WORDS.get(measure, measure), unit_of(measure) if measure in WORDS else ""


class Measured(NamedTuple):
    """One measurement: `floor`, below which it is a FAIL, `warn`, below which it is a WARN, `peak` of the data sheet.

    Each is None if not known. `source` says where the floor comes from.
    """

    name: str
    value: float
    unit: str
    floor: float | None
    warn: float | None
    peak: float | None
    source: str


def status_of(bar: Measured) -> str:
    """PASS, WARN or FAIL; "" without a floor."""
    if bar.floor is None:
        return ""
    if bar.value < bar.floor:
        return FAIL
    return WARN if bar.warn is not None and bar.value < bar.warn else PASS


def smoke_bars(report: dict[str, Any]) -> list[Measured]:
    """A `Measured` for each measurement of the smoke test."""
    architectures = [look(gpu, "architecture") for gpu in as_list(look(report, "readings", "probe", "gpus"))]
    limits = amp_floor(str(architectures[0]) if architectures else "")
    found = []
    for device in as_list(look(report, "smoke", "devices")):
        name = in_words(look(device, "device"))
        ratio = look(device, "speed_ratio")
        if is_number(ratio):
            known = limits if name.startswith("cuda") else amp_floor("")
            title = f"{name}: mixed over single precision"
            found.append(Measured(title, ratio, "×", known.floor, known.warn, None, known.source))
        for precision in ("fp32", "amp"):
            seconds, memory = look(device, precision, "seconds"), look(device, precision, "peak_memory_mib")
            steps = look(report, "smoke", "steps")
            if is_number(seconds) and is_number(steps):
                title = f"{name}: {steps} steps in {precision}"
                found.append(Measured(title, seconds, "s", None, None, None, ""))
            if is_number(memory):
                title = f"{name}: peak memory in {precision}"
                found.append(Measured(title, memory, "MiB", None, None, None, ""))
    return found


def performance_bars(report: dict[str, Any]) -> list[Measured]:
    """A `Measured` for each value of the report's `performance`."""
    found = []
    for device in as_list(look(report, "performance", "devices")):
        name = in_words(look(device, "device"))
        for key, words in MEASURES:
            found += _bar(f"{name}: {words}", look(device, "measures", key))
    together = look(report, "performance", "all_reduce")
    return found + _bar(f"all-reduce over {look(together, 'gpus')} GPUs", together)


def _bar(name: str, measure: Any) -> list[Measured]:
    value = look(measure, "value")
    if not isinstance(measure, dict) or not is_number(value):
        return []
    floor, warn, peak = (limit if is_number(limit) else None for limit in map(measure.get, ("floor", "warn", "peak")))
    unit, source = shorten(in_words(measure.get("unit") or ""), 10), in_words(measure.get("source") or "")
    return [Measured(name, value, unit, floor, warn, peak, source)]


def missing_measures(report: dict[str, Any]) -> list[str]:
    """What the report's `performance` does not cover: `["cuda:0: matrix product in bf16"]`."""
    found = []
    for device in as_list(look(report, "performance", "devices")):
        name = in_words(look(device, "device"))
        for key, words in MEASURES:
            if not is_number(look(device, "measures", key, "value")):
                found.append(f"{name}: {words}")
    return found


def why_no_performance(report: dict[str, Any]) -> str:
    """A sentence if there is nothing to draw, "" otherwise."""
    part = look(report, "performance")
    if part is None:
        return NOT_ASKED
    if isinstance(part, str):
        return part[:1].upper() + part[1:]
    if performance_bars(report):
        return ""
    problems = [in_words(problem) for problem in as_list(look(part, "problems"))]
    return f"Not measured: {'; '.join([in_words(look(part, 'because') or 'no reason is given'), *problems])}."
