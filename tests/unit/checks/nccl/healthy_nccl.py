"""What the readings say of NCCL where every check passes."""

from __future__ import annotations

READINGS = {
    "nccl": {"library": "2.27.5"},
}
