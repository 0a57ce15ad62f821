# SPDX-License-Identifier: Apache-2.0
"""Write docs/faults.md from the recorded results of tests/faults/interrupt (`make docs`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]

if __name__ == "__main__":
    subprocess.run([sys.executable, "tests/faults/interrupt", "--page"], cwd=REPOSITORY, check=True)
