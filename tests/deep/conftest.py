"""What takes minutes: mutation of the checks, and a fuzz of the readers with 100,000 inputs."""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "tests/node_library"), str(REPOSITORY / "collections")]
sys.path[:0] = [*map(str, (REPOSITORY / "tests/unit").glob("**"))]
