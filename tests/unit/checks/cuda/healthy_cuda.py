"""What the readings say of the CUDA toolkit where every check passes."""

from __future__ import annotations

from typing import Any

READINGS: dict[str, Any] = {
    "cuda": {
        "version_file": "12.9.1",
        "nvcc": "12.9",
        "link": "/usr/local/cuda-12.9",
        "prefix": "/usr/local/cuda-12.9",
    },
}
