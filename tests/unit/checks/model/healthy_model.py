"""What the readings say of the trainer's files where every check passes."""

from __future__ import annotations

from typing import Any

READINGS: dict[str, Any] = {
    "permissions": {"missing": [], "looked_at": 31234, "unsafe_count": 0, "unsafe": []},
}
