"""Names that several parts of the healthy node share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"
KERNEL = "4.18.0-477.10.1.el8_8.x86_64"
PCI_ID = "0000:3b:00.0"
BRIDGE = "0000:3a:00.0"
# The serial number of the certificate that DKMS made on this node.
MOK = "27ed54a1d5af8748948d9f8932ee9c7c34a0b1c2"

# {path in the readings: value that stands there instead}
Changes = dict[tuple, Any]
