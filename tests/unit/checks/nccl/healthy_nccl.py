"""What the readings say of NCCL where every check passes."""

from __future__ import annotations

from typing import Any

READINGS: dict[str, Any] = {
    "nccl": {"library": "2.27.5"},
}
