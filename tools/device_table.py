"""Write plugins/module_utils/gpu/device_table.py from the matrix (`make docs`). test_devices.py finds drift."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
MATRIX = REPOSITORY / "roles/preflight/files/matrix"
SOURCES = (MATRIX / "architectures.yml", MATRIX / "devices.yml", MATRIX / "platforms.yml")
TABLE = REPOSITORY / "plugins/module_utils/gpu/device_table.py"
HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""What is known of NVIDIA's GPUs and of the boards that they are on: written by `make docs` from devices.yml,
architectures.yml and platforms.yml of roles/preflight/files/matrix. Change it there. Blocks of PCI ids have the chip
that they belong to.
"""

# One row a line: ruff leaves this file as it is written.
# fmt: off
# ruff: noqa: E501

from .device_rows import Architecture, Card, Chip, KnownGood, NamingRule, Platform

'''


def read_devices() -> dict[str, Any]:
    """The rows from which the table is made, by their top-level names."""
    return {name: rows for file in SOURCES for name, rows in yaml.load(file.read_text(), yaml.CSafeLoader).items()}


def literal(value: object) -> str:
    """A value as Python writes it, with double quotes."""
    if isinstance(value, list | tuple):
        inner = ", ".join(literal(item) for item in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def call(begin: str, fields: dict[str, object]) -> list[str]:
    """`begin(field=value, ...),` as one line; fields that are None are left to their defaults."""
    inner = ", ".join(f"{name}={literal(value)}" for name, value in fields.items() if value is not None)
    return [f"    {begin}({inner}),"]


def card(chip: str, name: str, row: dict[str, Any]) -> list[str]:
    pcie = row.get("pcie", {})
    return call(
        "Card",
        {
            "name": name,
            "chip": chip,
            "card_class": row["class"],
            "ids": row["ids"],
            "names": row.get("names"),
            "memory_kind": row["memory"]["kind"],
            "memory_gib": row["memory"].get("gib"),
            "mig": row["mig"],
            "ecc": row["ecc"]["kind"],
            "ecc_delivered": row["ecc"].get("delivered"),
            "pcie_generation": pcie.get("generation"),
            "pcie_lanes": pcie.get("lanes"),
            **{key: row.get(key) for key in ("nvlink", "direct_links", "tensor_cores", "fixed_memory_clock")},
            **{
                key: row.get(key)
                for key in ("first_driver", "later_branches", "machine", "example", "peaks", "known_good")
            },
        },
    )


def ranges(ids: list[str] | None) -> list[tuple[str, str]] | None:
    """First and last id of "22a0-22a7" or of "2901"."""
    return [(id_.split("-")[0], id_.split("-")[-1]) for id_ in ids] if ids else None


def platform(key: str, row: dict[str, Any]) -> list[str]:
    fields = {"key": key, "name": row["name"], "architectures": row["architectures"], "needs": row["needs"]}
    fields |= {"switches": ranges(row.get("switches")), "gpus": ranges(row.get("gpus"))}
    boards = [(name, board["count"], board["card"]) for name, board in row.get("boards", {}).items()]
    fields |= {"bridges": row.get("bridges"), "machine": row.get("machine"), "boards": boards or None}
    return call("Platform", fields)


def table(matrix: dict[str, Any]) -> str:
    """The module's text: a row of the matrix is one line."""
    devices = matrix["devices"]
    lines = ["ARCHITECTURES = {"]
    for name, row in matrix["architectures"].items():
        ratio = row.get("amp_ratio", {})
        fields = {key: row[key] for key in ("memory_repair", "application_clocks")}
        fields |= {"amp_ratio": ratio.get("value"), "amp_text": ratio.get("text")}
        fields |= {key: row.get(key) or None for key in ("needs_gsp", "mig_hides_ecc")}
        lines += call(f'"{name}": Architecture', fields)
    lines += ["}", "", "CHIPS = {"]
    for chip, row in devices.items():
        lines.append(f'    "{chip}": Chip("{row["architecture"]}", "{row["compute_capability"]}"),')
    blocks = [(*block.split("-"), chip) for chip, row in devices.items() for block in row["ids"]]
    lines += ["}", "", "BLOCKS = ("]
    lines += [f'    (0x{first.upper()}, 0x{last.upper()}, "{chip}"),' for first, last, chip in sorted(blocks)]
    lines += [")", "", "CARDS = ("]
    for chip, row in devices.items():
        for name, details in row["cards"].items():
            lines += card(chip, name, details)
    lines += [")", "", "NAMING = ("]
    for rule in matrix["card_naming"]:
        fields = {key: rule.get(key) for key in ("nvlink", "tensor_cores")}
        lines += call("NamingRule", {"pattern": rule["pattern"], "card_class": rule["class"], **fields})
    lines += [")", "", "KNOWN_GOOD = {"]
    for name, row in matrix["known_good"].items():
        lines += call(f'"{name}": KnownGood', {key: row.get(key) for key in ("measures", "text", "share", "gpus")})
    lines += ["}", "", "PLATFORMS = ("]
    for key, row in matrix["platforms"].items():
        lines += platform(key, row)
    lines += [")", "", "DRIVER_PARTS = {"]
    # The fourth kind, `toolkit`, is for the roles.
    lines += [f'    "{kind}": {literal(matrix["driver_parts"][kind])},' for kind in ("versioned", "apart", "foreign")]
    return HEAD + "\n".join([*lines, "}"]) + "\n"


if __name__ == "__main__":
    TABLE.write_text(table(read_devices()))
