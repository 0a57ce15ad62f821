"""tools/gpu-plan with what it imports already imported; test_plan_question.py also starts the program itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conftest import REPOSITORY
from warm_python import warm_python

PROGRAM = REPOSITORY / "tools/gpu-plan"


def ask(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    words = [str(PROGRAM), *map(str, arguments)]
    python = warm_python((sys.executable,), str(REPOSITORY / "collections"))
    return python.run(PROGRAM.read_text(), words, os.environ, cwd=Path.cwd(), input=stdin)
