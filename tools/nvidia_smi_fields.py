"""Write docs/nvidia-smi-fields.md from the tables of tests/deep/nvidia_smi_fields.py."""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "tests" / "deep"))

if __name__ == "__main__":
    # The one in tests/deep; the checker takes it for this file.
    from nvidia_smi_fields import page  # type: ignore[attr-defined]

    (REPOSITORY / "docs/nvidia-smi-fields.md").write_text(page())
