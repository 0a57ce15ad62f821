"""What the readings say of cuDNN where every check passes."""

from __future__ import annotations

from typing import Any

READINGS: dict[str, Any] = {
    "cudnn": {"header": "9.10.2", "library": "9.10.2"},
}
