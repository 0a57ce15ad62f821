"""Write module_utils/gpuwright/device_table.py from the matrix (`make docs`). test_devices.py finds drift."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = REPOSITORY / "roles/preflight/files/matrix/devices.yml"
TABLE = REPOSITORY / "module_utils/gpuwright/device_table.py"
HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""PCI device ids of NVIDIA GPUs: written by `make docs` from roles/preflight/files/matrix/devices.yml. Change it there.

Chips with architecture and compute capability; blocks of ids, each with the chip that has them; named cards with chip.
"""

'''


def read_devices() -> dict[str, Any]:
    return yaml.load(SOURCE.read_text(), yaml.CSafeLoader)["devices"]


def table(devices: dict[str, Any]) -> str:
    """The module's text, laid out as `ruff format` would."""
    blocks = [(*block.split("-"), chip) for chip, row in devices.items() for block in row["ids"]]
    cards = [(card, name, chip) for chip, row in devices.items() for card, name in row["cards"].items()]
    lines = ["CHIPS = {"]
    lines += [
        f'    "{chip}": ("{row["architecture"]}", "{row["compute_capability"]}"),' for chip, row in devices.items()
    ]
    lines += ["}", "", "BLOCKS = ("]
    lines += [f'    (0x{first.upper()}, 0x{last.upper()}, "{chip}"),' for first, last, chip in sorted(blocks)]
    lines += [")", "", "CARDS = {"]
    lines += [f'    "{card}": ("{name}", "{chip}"),' for card, name, chip in sorted(cards)]
    return HEAD + "\n".join([*lines, "}"]) + "\n"


if __name__ == "__main__":
    TABLE.write_text(table(read_devices()))
