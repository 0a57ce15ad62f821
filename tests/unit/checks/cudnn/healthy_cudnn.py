"""What the readings say of cuDNN where every check passes."""

from __future__ import annotations

READINGS = {
    "cudnn": {"header": "9.10.2", "library": "9.10.2"},
}
