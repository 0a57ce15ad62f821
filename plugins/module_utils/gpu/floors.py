# SPDX-License-Identifier: Apache-2.0
"""Speeds that a healthy GPU of a model reaches: floors from others' published measurements, and its maker's peaks.

A floor is 0.75 of a known-good measurement on the same model (the rule of DCGM's diag-skus.yaml.in), or the limit that
an established health check enforces. Without a published measurement there is no floor, and nothing is judged.
The figures and their sources are rows of roles/preflight/files/matrix/devices.yml and architectures.yml.
"""

from typing import NamedTuple, Optional

from .cards import architecture_named, card_of
from .device_rows import KnownGood
from .device_table import KNOWN_GOOD

SHARE = 0.75
# Azure's health checks warn this close to the floor.
WARN_BAND = 1.05
# GB/s in each direction of a link with sixteen lanes, by generation: the standard's rate less its encoding.
SIXTEEN_LANES = {2: 8.0, 3: 15.75, 4: 31.5, 5: 63.0}


class Floor(NamedTuple):
    """Limits of one measure on one model; floor, warn and peak are None if nobody has published one."""

    floor: Optional[float]
    warn: Optional[float]
    peak: Optional[float]
    unit: str
    source: str


def unit_of(measure: str) -> str:
    endings = (("_gb_s", "GB/s"), ("_tflops", "TFLOP/s"), ("_gt_s", "GT/s"), ("all_reduce", "GB/s"))
    return next(unit for ending, unit in endings if measure.endswith(ending))


def floor_of(model: str, measure: str) -> Floor:
    """The `Floor` of a measure on the card that nvidia-smi calls `model`."""
    return _floor(_known_good(model, measure, None), measure, peak_of(model, measure))


def reduce_floor(model: str, gpus: Optional[int]) -> Floor:
    """The `Floor` of all-reduce's bus bandwidth over `gpus` cards of a model.

    The published measurements are of eight cards with NVLink; there are none for fewer cards, or for PCIe.
    """
    return _floor(_known_good(model, "all_reduce", gpus), "all_reduce", None)


def _known_good(model: str, measure: str, gpus: Optional[int]) -> Optional[KnownGood]:
    rows = [KNOWN_GOOD[name] for name in card_of(model).known_good]
    return next((row for row in rows if measure in row.measures and row.gpus == gpus), None)


def _floor(known: Optional[KnownGood], measure: str, peak: Optional[float]) -> Floor:
    if known is None:
        return Floor(None, None, peak, unit_of(measure), "")
    good = known.measures[measure]
    text = known.text if known.share == 1 else f"{known.share:g} x {good:g}: {known.text}"
    floor = good * known.share
    return Floor(round(floor, 3), round(floor * WARN_BAND, 3), peak, unit_of(measure), text)


def peak_of(model: str, measure: str) -> Optional[float]:
    """The maker's figure; None if the table has none."""
    card = card_of(model)
    if measure.startswith(("h2d", "d2h")):
        if card.pcie_generation not in SIXTEEN_LANES or card.pcie_lanes is None:
            return None
        return SIXTEEN_LANES[card.pcie_generation] * card.pcie_lanes / 16
    return card.peaks.get(measure)


def amp_floor(architecture: str) -> Floor:
    """The `Floor` of mixed divided by single precision speed, for an architecture as gpu_node names it."""
    row = architecture_named(architecture)
    if row.amp_ratio is None:
        return Floor(None, None, None, "x", "")
    floor = row.amp_ratio * SHARE
    text = f"{SHARE:g} x {row.amp_ratio:g}: {row.amp_text}"
    return Floor(round(floor, 3), round(floor * WARN_BAND, 3), None, "x", text)
