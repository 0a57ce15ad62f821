# SPDX-License-Identifier: Apache-2.0
"""What each card reports, as metric families for Prometheus: base units, with the units' full names.

A quantity that cannot be read has no sample: -1 degrees or -1 bytes would be drawn, averaged and compared like a
measurement. `gpuwright_gpu_unread_values` counts these missing values, so that the gap itself is visible. States
(0 no, 1 yes) use -1 for unknown, because a state is only ever compared. What a card does not have is never counted.
"""

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple, Union

from ..verdict.report import Record

MIB = 1024 * 1024
GAUGE = "gauge"
COUNTER = "counter"
UNREAD = "unknown"

# (metric, type, help, path in nvidia_smi_info's record, factor to the base unit)
QUANTITIES: Tuple[Tuple[str, str, str, Tuple[str, ...], float], ...] = (
    ("temperature_celsius", GAUGE, "Temperature of the GPU.", ("temperature_c",), 1),
    (
        "temperature_slowdown_celsius",
        GAUGE,
        "Temperature at which the GPU slows itself down.",
        ("health", "temperature_slowdown_c"),
        1,
    ),
    ("power_watts", GAUGE, "Power that the GPU draws.", ("power_draw_w",), 1),
    ("power_limit_watts", GAUGE, "Power that the GPU may draw.", ("power_limit_w",), 1),
    (
        "utilization_ratio",
        GAUGE,
        "Share of time in which a kernel ran on the GPU, 0 to 1.",
        ("health", "utilization_percent"),
        0.01,
    ),
    ("memory_used_bytes", GAUGE, "Memory of the GPU in use.", ("memory_used_mib",), MIB),
    ("memory_size_bytes", GAUGE, "Memory of the GPU.", ("memory_total_mib",), MIB),
    (
        "ecc_corrected_errors_total",
        COUNTER,
        "Memory errors that ECC corrected since the driver was loaded.",
        ("health", "ecc_corrected_volatile"),
        1,
    ),
    (
        "ecc_uncorrected_errors_total",
        COUNTER,
        "Memory errors that ECC could not correct since the driver was loaded.",
        ("ecc_uncorrected_volatile",),
        1,
    ),
    (
        "retired_pages_single_bit",
        GAUGE,
        "Memory pages retired for repeated single-bit errors.",
        ("health", "retired_pages_single_bit"),
        1,
    ),
    (
        "retired_pages_double_bit",
        GAUGE,
        "Memory pages retired for a double-bit error.",
        ("health", "retired_pages_double_bit"),
        1,
    ),
    (
        "remapped_rows_uncorrected",
        GAUGE,
        "Memory rows replaced after an uncorrectable error.",
        ("health", "remapped_rows_uncorrected"),
        1,
    ),
    ("pcie_replays_total", COUNTER, "PCIe packets that were retransmitted.", ("health", "pcie_replays"), 1),
    ("pcie_link_lanes", GAUGE, "Lanes of the PCIe link in use.", ("health", "link_width_now"), 1),
    ("pcie_link_lanes_max", GAUGE, "Lanes that card and slot can use.", ("health", "link_width_max"), 1),
)
# (metric, help, path)
STATES: Tuple[Tuple[str, str, Tuple[str, ...]], ...] = (
    ("retired_pages_pending", "Memory pages wait for a reset to be retired.", ("retired_pages_pending",)),
    ("remapped_rows_pending", "Memory rows wait for a reset to be replaced.", ("remapped_rows_pending",)),
    ("remapped_rows_failure", "A memory row could not be replaced.", ("remapped_rows_failure",)),
)
UNREAD_HELP = "Values that this GPU has and that could not be read."
INFO_HELP = "Always 1; which card is behind pci_id."
THROTTLE_HELP = "1 for each reason that holds the clocks down now."

Labels = Mapping[str, Any]
Cards = Sequence[Tuple[Labels, Record]]
# A value with its labels.
Sample = Tuple[Labels, Union[int, float]]


class Family(NamedTuple):
    """A metric: its name, GAUGE or COUNTER, its help and its samples."""

    name: str
    kind: str
    words: str
    samples: Sequence[Sample]


def gpu_families(gpus: Iterable[Record]) -> List[Family]:
    """A `Family` for each metric of nvidia_smi_info's records; families without a sample are left out."""
    cards = _cards(gpus)
    families = [_quantity(cards, *row) for row in QUANTITIES] + [_state(cards, *row) for row in STATES]
    families += [
        Family("throttle_reason", GAUGE, THROTTLE_HELP, [sample for card in cards for sample in _throttling(*card)]),
        Family("unread_values", GAUGE, UNREAD_HELP, [(labels, _unread(gpu)) for labels, gpu in cards]),
        Family("info", GAUGE, INFO_HELP, [(_info(labels, gpu), 1) for labels, gpu in cards]),
    ]
    return [family._replace(name="gpuwright_gpu_" + family.name) for family in families if family.samples]


def _cards(gpus: Iterable[Record]) -> Cards:
    """`[(labels, gpu)]`. A duplicate sample makes node_exporter refuse the whole file, so no labels occur twice."""
    seen = set()
    cards = []
    for index, gpu in enumerate(gpus):
        name = str(gpu.get("pci_id"))
        name = f"{name} (GPU {index})" if name in seen or name == UNREAD else name
        seen.add(name)
        cards.append(({"pci_id": name}, gpu))
    return cards


def _quantity(cards: Cards, name: str, kind: str, words: str, path: Sequence[str], factor: float) -> Family:
    found = [(labels, _at(gpu, path)) for labels, gpu in cards]
    return Family(name, kind, words, [(labels, value * factor) for labels, value in found if _is_number(value)])


def _state(cards: Cards, name: str, words: str, path: Sequence[str]) -> Family:
    found = [(labels, _at(gpu, path)) for labels, gpu in cards]
    samples = [(labels, int(value) if value in (True, False) else -1) for labels, value in found if value is not None]
    return Family(name, GAUGE, words + " 0 no, 1 yes, -1 unknown.", samples)


def _unread(gpu: Record) -> int:
    paths = [row[3] for row in QUANTITIES] + [row[2] for row in STATES] + [("throttle_reasons",)]
    return sum(_at(gpu, path) == UNREAD for path in paths)


def _info(labels: Labels, gpu: Record) -> Dict[str, Any]:
    return dict({name: gpu.get(name) for name in ("name", "uuid", "architecture")}, **labels)


def _throttling(labels: Labels, gpu: Record) -> List[Sample]:
    reasons = gpu.get("throttle_reasons")
    return [(dict(labels, reason=reason), 1) for reason in sorted(set(reasons))] if isinstance(reasons, list) else []


def _at(gpu: Any, path: Iterable[str]) -> Any:
    """The value at `path`; what was not read at all is UNREAD."""
    for key in path:
        if not isinstance(gpu, dict) or key not in gpu:
            return UNREAD
        gpu = gpu[key]
    return gpu


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
