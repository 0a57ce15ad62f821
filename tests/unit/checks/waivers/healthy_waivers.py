"""What the readings say of what was acknowledged where every check passes."""

from __future__ import annotations

from typing import Any

READINGS: dict[str, Any] = {
    "acknowledgements": [],
}
