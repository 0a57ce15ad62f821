"""Where things are."""

from __future__ import annotations

from pathlib import Path

VM_DIR = Path(__file__).resolve().parent.parent
REPOSITORY = VM_DIR.parent.parent
STATE = REPOSITORY / ".fleet" / "vm"
HOST = "vm-01"
