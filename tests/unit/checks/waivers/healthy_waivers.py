"""What the readings say of what was acknowledged where every check passes."""

from __future__ import annotations

READINGS = {
    "acknowledgements": [],
}
