"""What the readings say of the signature of the kernel module where every check passes."""

from __future__ import annotations

from typing import Any

from node_names import MOK

READINGS: dict[str, Any] = {
    "module_signature": {
        "enforced": False,
        "file": {"signer": "DKMS module signing key", "key": MOK},
        "enrolled": [{"name": "DKMS module signing key", "numbers": [MOK, "d939395a3c4c0e2a"]}],
        "kernel": [{"name": "Rocky kernel signing key", "numbers": ["3b1c25e26fdc90bb7a3bd4d83a9f34d2d3c30d0f"]}],
    },
}
