# SPDX-License-Identifier: Apache-2.0
"""Names for the parts of a question in sentences."""

from __future__ import annotations

from .candidates import PINS


def pin_label(name: str, value: str) -> str:
    """A pin as written in the inventory: system_driver_branch "590"."""
    return f'{PINS[name]} "{value}"'
