# SPDX-License-Identifier: Apache-2.0
"""How the parts of a question are called in sentences."""

from __future__ import annotations

from .candidates import PINS


def pin_label(name: str, value: str) -> str:
    """How a pin stands in the inventory: system_driver_branch "590"."""
    return f'{PINS[name]} "{value}"'
