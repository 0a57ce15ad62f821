"""Tests of the burn-in's program, under the interpreter of the trainer's tests: `python tests/run.py trainer`."""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = REPOSITORY / "roles/accept/files/burn_in"
sys.path[:0] = [str(PROGRAM), str(REPOSITORY / "trainer")]
