"""Programs that the runner starts do not share their standard input.

ssh makes its input non-blocking, for everybody who has inherited the same one, and Ansible does not start on such an
input: a kind of test that used ssh ended another that ran beside it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FLEET = Path(__file__).resolve().parents[2] / "fleet"
CHANGES_ITS_INPUT = "import os; os.set_blocking(0, False)"
STARTS = {
    "call": "programs.call(*words)",
    "call_quietly": "programs.call_quietly(words)",
    "run_scenario": "kinds.run_scenario('none')",
    "shell.run": "shell.run(words)",
}


@pytest.mark.parametrize("start", STARTS)
def test_a_program_cannot_change_the_input_of_the_next(start: str, tmp_path: Path) -> None:
    molecule = tmp_path / "molecule"
    molecule.write_text(f"#!{sys.executable}\n{CHANGES_ITS_INPUT}\n")
    molecule.chmod(0o755)
    code = f"""
import pathlib, sys
sys.path[:0] = {[str(FLEET), str(FLEET.parent)]!r}
import kinds, programs
from gpuwright_fleet import shell
programs.REPOSITORY = kinds.REPOSITORY = kinds.RESULTS = pathlib.Path({str(tmp_path)!r})
words = [sys.executable, "-c", {CHANGES_ITS_INPUT!r}]
{STARTS[start]}
"""
    reader, writer = os.pipe()
    try:
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        subprocess.run([sys.executable, "-c", code], stdin=reader, check=True, env={**os.environ, "PATH": path})
        assert os.get_blocking(reader)
    finally:
        os.close(reader)
        os.close(writer)
