# SPDX-License-Identifier: Apache-2.0
"""The cards of a burn-in's answer: by which key each is known, and what this sweep has measured of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.plugin_utils.accept.figures import Answer, Figure, devices_of, figure
from ansible_collections.gpuwright.node.plugins.plugin_utils.accept.products import Product, product_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.history.kept import Row
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.speed import WORDS
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.values import as_list, is_number, look

# Of nvidia-smi's record of a card: what counts up when it errs.
COUNTERS = (
    ("ecc_uncorrected_volatile",),
    ("health", "ecc_corrected_volatile"),
    ("health", "dram_uncorrected_aggregate"),
    ("health", "sram_uncorrected_aggregate"),
    ("health", "remapped_rows_corrected"),
    ("health", "remapped_rows_uncorrected"),
    ("health", "retired_pages_single_bit"),
    ("health", "retired_pages_double_bit"),
    ("health", "pcie_replays"),
)
# It is one figure of the whole node, which the burn-in notes with its first card, and depends on the number of cards.
OF_THE_NODE = "all_reduce"


class CardNow(NamedTuple):
    """A card that took part: its key in the history, its row, its product."""

    key: str
    row: Row
    product: Product | None


def cards_now(host: str, answer: Answer, report: Mapping[str, Any] | None, now: str) -> list[CardNow]:
    """The cards of this answer, in its order. `report` has the smoke test and the counters of the same sweep."""
    told = answer.get("cards")
    told = told if isinstance(told, dict) else {}
    identities = {row.get("pci_id"): row for row in as_list(told.get("gpus")) if isinstance(row, dict)}
    record, devices = answer["record"], devices_of(answer)
    keys = keys_of(host, [identities.get(device.get("pci_id"), {}) for device in devices], devices)
    words = (f"torch {record.get('torch')}", f"CUDA {record.get('cuda')}", f"driver {told.get('driver')}")
    found = []
    for place, (key, device) in enumerate(zip(keys, devices, strict=True)):
        figures = {each.measure: each.value for each in figures_of_device(device)}
        if OF_THE_NODE in figures:
            figures[f"{len(devices)}x_{OF_THE_NODE}"] = figures.pop(OF_THE_NODE)
        figures |= smoke_speeds(report, str(device.get("device")), place)
        row = Row(
            str(device.get("name")),
            str(device.get("pci_id") or device.get("device")),
            ", ".join(words),
            figures,
            counters(report, device.get("pci_id")),
        )
        found.append(CardNow(key, row, product_of(record, device, now)))
    return found


def keys_of(host: str, identities: list[Any], devices: list[dict[str, Any]]) -> list[str]:
    """Serial number, or UUID where there is none or two chips of one board share it, or else the place in its node."""
    serials = [str(one.get("serial") or "") for one in identities]
    counted = Counter(serials)
    return [
        serial if serial.strip("0") and counted[serial] == 1 else str(one.get("uuid") or f"{host} {name} {place}")
        for place, (serial, one, name) in enumerate(
            zip(serials, identities, [device.get("device") for device in devices], strict=True)
        )
    ]


def figures_of_device(device: Mapping[str, Any]) -> list[Figure]:
    series = sorted((device.get("series") or {}).items())
    return [
        figure(str(device.get("device")), measure, [float(value) for _at, value in points])
        for measure, points in series
        if measure in WORDS and points
    ]


def smoke_speeds(report: Mapping[str, Any] | None, name: str, place: int) -> dict[str, float]:
    """Training steps per second of the smoke test on this device, in each precision. On CPUs it is one device."""
    found = {}
    steps = look(report, "smoke", "steps")
    for device in as_list(look(report, "smoke", "devices")):
        if look(device, "device") != name or (name == "cpu" and place):
            continue
        for precision in ("fp32", "amp"):
            seconds = look(device, precision, "seconds")
            if is_number(seconds) and is_number(steps) and seconds > 0:
                found[f"smoke_{precision}"] = float(f"{steps / seconds:.4g}")
    return found


def counters(report: Mapping[str, Any] | None, pci_id: Any) -> dict[str, float]:
    gpus = as_list(look(report, "readings", "nvidia_smi", "gpus"))
    gpu = next((one for one in gpus if pci_id and look(one, "pci_id") == pci_id), None)
    values = {path[-1]: look(gpu, *path) for path in COUNTERS}
    return {name: value for name, value in values.items() if is_number(value)}
