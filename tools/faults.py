# SPDX-License-Identifier: Apache-2.0
"""Write docs/faults.md from the recorded results in tests/faults (`make docs`); see tests/faults/write_page.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]

if __name__ == "__main__":
    subprocess.run([sys.executable, "tests/faults/write_page.py", *sys.argv[1:]], cwd=REPOSITORY, check=True)
