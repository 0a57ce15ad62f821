"""A virtual machine with a boot loader, a kernel of its own and an NVIDIA GPU on its PCI bus.

It shares the fleet's tools: the package sources of the controller, the cache, the steps with their durations.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fleet"))
