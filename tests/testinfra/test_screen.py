"""How long the runs of this scenario were, as their own logs count it: a first run and one that changes nothing."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

MOST_LINES = {"first run": 250, "no-op": 60}


@pytest.fixture
def runs() -> dict[str, str]:
    """The logs of converge and idempotence; check mode and other playbooks say in their first line that they are."""
    logs = sorted((Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "logs").glob("*.log"))
    # A run of the scenario that was cut off leaves its logs there; this one began where its hosts were made.
    began = max(number for number, path in enumerate(logs) if "-create-" in path.name)
    found = [path.read_text() for path in logs[began:] if "-site-" in path.name]
    found = [text for text in found if text.startswith("playbook: site.yml\n")]
    assert len(found) >= 2, logs
    return dict(zip(MOST_LINES, found, strict=False))


@pytest.mark.parametrize("kind", MOST_LINES)
def test_a_run_fits_on_its_screens(runs: dict[str, str], kind: str) -> None:
    text = runs[kind]
    (lines,) = re.findall(r"^screen: (\d+) lines$", text, re.MULTILINE)
    assert 10 < int(lines) <= MOST_LINES[kind], f"{kind}: {lines} lines"
    # It is the run that is meant, whole, and far more than was shown.
    assert "TASK [gpuwright.node.preflight : Check the variables, reach the host" in text and "PLAY RECAP" in text
    changed = sum(map(int, re.findall(r"^\S+ +: ok=\d+ +changed=(\d+)", text, re.MULTILINE)))
    assert (changed > 0) == (kind == "first run")
    assert len(text.splitlines()) > 3 * int(lines) or kind == "first run"
