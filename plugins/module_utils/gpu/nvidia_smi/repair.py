# SPDX-License-Identifier: Apache-2.0
"""What nvidia-smi's XML says about a card's memory errors, and about repairs that were made or are pending."""

import re
from typing import Any, Dict, Optional
from xml.etree.ElementTree import Element

from .tags import flag_at, members, number_at
from .values import (
    UNKNOWN,
    Count,
    read_number,
    total,
)

HISTOGRAM = "remapped_rows/row_remapper_histogram"
SOURCES = "ecc_errors/aggregate_uncorrectable_sram_sources"


def read_repair(gpu: Element) -> Dict[str, Any]:
    """Counts and flags; `spare_rows_*` are numbers of memory banks, by how many spare rows each has left."""
    found = {
        "ecc_corrected_volatile": _corrected(gpu.find("ecc_errors/volatile")),
        "sram_uncorrected_aggregate": _sram(gpu.find("ecc_errors/aggregate")),
        "sram_uncorrected_sources": _sram_sources(gpu.find(SOURCES)),
        "sram_threshold_exceeded": flag_at(gpu, "ecc_errors/aggregate/sram_threshold_exceeded"),
        "dram_uncorrected_aggregate": _dram(gpu.find("ecc_errors/aggregate")),
        "mig_uncorrected_volatile": _slices(gpu.find("mig_devices")),
        "channel_repair_pending": flag_at(gpu, "ecc_errors/channel_repair_pending"),
        "tpc_repair_pending": flag_at(gpu, "ecc_errors/tpc_repair_pending"),
        "unrepairable_memory": flag_at(gpu, "ecc_errors/unrepairable_memory"),
        "retired_pages_single_bit": number_at(gpu, "retired_pages/multiple_single_bit_retirement/retired_count"),
        "retired_pages_double_bit": number_at(gpu, "retired_pages/double_bit_retirement/retired_count"),
        "remapped_rows_corrected": number_at(gpu, "remapped_rows/remapped_row_corr"),
        "remapped_rows_uncorrected": number_at(gpu, "remapped_rows/remapped_row_unc"),
    }
    return dict(found, **members(gpu, HISTOGRAM, _spare_rows))


def _spare_rows(gpu: Element) -> Dict[str, Any]:
    kinds = ("low", "none")
    return {
        "spare_rows_" + kind: number_at(gpu, f"{HISTOGRAM}/row_remapper_histogram_{kind}", "bank(s)") for kind in kinds
    }


def uncorrected(errors: Optional[Element]) -> Count:
    """Uncorrected errors in the block `volatile`: double bits up to Volta, by kind of memory from Turing on."""
    return _sum(errors, "double_bit", "uncorrectable")


def _corrected(errors: Optional[Element]) -> Count:
    """Corrected errors in the block `volatile`: single bits up to Volta, by kind of memory from Turing on."""
    return _sum(errors, "single_bit", "correctable")


def _sum(errors: Optional[Element], older: str, kind: str) -> Count:
    if errors is None:
        return UNKNOWN
    if errors.find(older) is not None:
        return read_number(errors.findtext(older + "/total"), "")
    counts = {error.tag: read_number(error.text, "") for error in errors if re.match(r"[sd]ram_", error.tag)}
    # If there is no counter at all for the chip's own memory, only those of the card's memory are counted; if just one
    # of the counters reads N/A, that reading has failed.
    if {value for tag, value in counts.items() if tag.startswith("sram_")} == {None}:
        counts = {tag: value for tag, value in counts.items() if not tag.startswith("sram_")}
    return total(value for tag, value in counts.items() if re.match("[sd]ram_" + kind, tag))


def _sram(errors: Optional[Element]) -> Count:
    """Lifetime errors of the memory inside the chip; None if the driver counts them in another way."""
    kinds = [] if errors is None else [error for error in errors if error.tag.startswith("sram_uncorrectable")]
    return total(read_number(error.text, "") for error in kinds) if kinds else None


def _sram_sources(sources: Optional[Element]) -> Count:
    """The same errors by the unit that had them; reported by drivers from 535 on."""
    return total(read_number(unit.text, "") for unit in sources) if sources is not None and len(sources) else None


def _dram(errors: Optional[Element]) -> Count:
    """Lifetime uncorrected errors of the card's memory: all double bits up to Volta."""
    if errors is None:
        return None
    if errors.find("double_bit") is not None:
        return read_number(errors.findtext("double_bit/total"), "")
    return number_at(errors, "dram_uncorrectable")


def _slices(devices: Optional[Element]) -> Count:
    """Uncorrected errors that MIG slices have counted since the driver was loaded; None if there is no slice."""
    path = "mig_device/ecc_error_count/volatile_count"
    counts = [] if devices is None else [count for block in devices.findall(path) for count in block]
    kinds = [read_number(count.text, "") for count in counts if "uncorrectable" in count.tag]
    return total(kinds) if kinds else None
