"""What the readings say of the launcher and its allocators where every check passes."""

from __future__ import annotations

from typing import Any

READINGS: dict[str, Any] = {
    "allocators": {
        "jemalloc": {"path": "/usr/lib64/libjemalloc.so.2", "problem": "none"},
        "tcmalloc": {"path": "/usr/lib64/libtcmalloc_minimal.so.4", "problem": "none"},
    },
    "launcher": {
        "file": {"is_file": True, "executable": True, "mode": "0755", "unsafe": ""},
        "policy": "ok",
        "allocator": {"name": "malloc", "why": "not calibrated on this machine: gpu-run --calibrate -- command"},
    },
}
