# SPDX-License-Identifier: Apache-2.0
"""The rows of `forms` about memory errors and repairs."""

from typing import NamedTuple, Tuple


class Field(NamedTuple):
    """One place of a value."""

    name: str
    xml: str
    text: str = ""
    csv: str = ""


VOLATILE = "ecc_errors/volatile/"
AGGREGATE = "ecc_errors/aggregate/"
SOURCES = "ecc_errors/aggregate_uncorrectable_sram_sources/"
HISTOGRAM = "remapped_rows/row_remapper_histogram"
BANKS = "remapped rows/bank remap availability histogram"

MEMORY_FIELDS: Tuple[Field, ...] = (
    *(
        Field(
            "ecc_uncorrected_volatile",
            VOLATILE + tag,
            "ecc errors/volatile/" + label,
            column,
        )
        for tag, label, column in (
            ("sram_uncorrectable", "sram uncorrectable", "ecc.errors.uncorrected.volatile.sram"),
            ("sram_uncorrectable_parity", "sram uncorrectable parity", "ecc.errors.uncorrected.volatile.sram.parity"),
            ("sram_uncorrectable_secded", "sram uncorrectable sec-ded", "ecc.errors.uncorrected.volatile.sram.secded"),
            ("dram_uncorrectable", "dram uncorrectable", "ecc.errors.uncorrected.volatile.dram"),
            ("double_bit/total", "double bit/total", "ecc.errors.uncorrected.volatile.total"),
        )
    ),
    *(
        Field("ecc_corrected_volatile", VOLATILE + tag, "ecc errors/volatile/" + label, column)
        for tag, label, column in (
            ("sram_correctable", "sram correctable", "ecc.errors.corrected.volatile.sram"),
            ("dram_correctable", "dram correctable", "ecc.errors.corrected.volatile.dram"),
            ("single_bit/total", "single bit/total", "ecc.errors.corrected.volatile.total"),
        )
    ),
    *(
        Field("sram_uncorrected_aggregate", AGGREGATE + tag, "ecc errors/aggregate/" + label, column)
        for tag, label, column in (
            ("sram_uncorrectable", "sram uncorrectable", "ecc.errors.uncorrected.aggregate.sram"),
            ("sram_uncorrectable_parity", "sram uncorrectable parity", "ecc.errors.uncorrected.aggregate.sram.parity"),
            ("sram_uncorrectable_secded", "sram uncorrectable sec-ded", "ecc.errors.uncorrected.aggregate.sram.secded"),
        )
    ),
    Field(
        "dram_uncorrected_aggregate",
        AGGREGATE + "dram_uncorrectable",
        "ecc errors/aggregate/dram uncorrectable",
        "ecc.errors.uncorrected.aggregate.dram",
    ),
    Field("dram_uncorrected_aggregate", AGGREGATE + "double_bit/total", "ecc errors/aggregate/double bit/total"),
    Field(
        "sram_threshold_exceeded",
        AGGREGATE + "sram_threshold_exceeded",
        "ecc errors/aggregate/sram threshold exceeded",
        "ecc.errors.uncorrected.aggregate.sram.thresholdexceeded",
    ),
    *(
        Field(
            "sram_uncorrected_sources",
            SOURCES + "sram_" + tag,
            "ecc errors/aggregate uncorrectable sram sources/sram " + label,
            "ecc.errors.uncorrected.aggregate.sram." + column,
        )
        for tag, label, column in (
            ("l2", "l2", "l2"),
            ("sm", "sm", "sm"),
            ("microcontroller", "microcontroller", "mcu"),
            ("pcie", "pcie", "pcie"),
            ("other", "other", "other"),
        )
    ),
    Field(
        "channel_repair_pending",
        "ecc_errors/channel_repair_pending",
        "ecc errors/channel repair pending",
        "ecc.channel_repair_pending",
    ),
    Field(
        "tpc_repair_pending", "ecc_errors/tpc_repair_pending", "ecc errors/tpc repair pending", "ecc.tpc_repair_pending"
    ),
    Field(
        "unrepairable_memory",
        "ecc_errors/unrepairable_memory",
        "ecc errors/unrepairable memory",
        "ecc.unrepairable_memory",
    ),
    Field(
        "retired_pages_single_bit",
        "retired_pages/multiple_single_bit_retirement/retired_count",
        "retired pages/single bit ecc",
        "retired_pages.single_bit_ecc.count|retired_pages.sbe",
    ),
    Field(
        "retired_pages_double_bit",
        "retired_pages/double_bit_retirement/retired_count",
        "retired pages/double bit ecc",
        "retired_pages.double_bit.count|retired_pages.dbe",
    ),
    Field(
        "retired_pages_pending",
        "retired_pages/pending_retirement",
        "retired pages/pending page blacklist|retired pages/pending|retired pages/pending page retirement",
        "retired_pages.pending",
    ),
    Field(
        "remapped_rows_corrected",
        "remapped_rows/remapped_row_corr",
        "remapped rows/correctable error",
        "remapped_rows.correctable",
    ),
    Field(
        "remapped_rows_uncorrected",
        "remapped_rows/remapped_row_unc",
        "remapped rows/uncorrectable error",
        "remapped_rows.uncorrectable",
    ),
    Field(
        "remapped_rows_pending", "remapped_rows/remapped_row_pending", "remapped rows/pending", "remapped_rows.pending"
    ),
    Field(
        "remapped_rows_failure",
        "remapped_rows/remapped_row_failure",
        "remapped rows/remapping failure occurred",
        "remapped_rows.failure",
    ),
    # The card has no such thing: the text has N/A in place of the whole block.
    Field("remapped_rows_pending", "remapped_rows", "remapped rows"),
    Field("spare_rows_low", HISTOGRAM, BANKS),
    Field("spare_rows_low", HISTOGRAM + "/row_remapper_histogram_low", BANKS + "/low", "remapped_rows.histogram.low"),
    Field(
        "spare_rows_none", HISTOGRAM + "/row_remapper_histogram_none", BANKS + "/none", "remapped_rows.histogram.none"
    ),
)
