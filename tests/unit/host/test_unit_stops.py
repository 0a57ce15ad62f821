"""Units that read GPUs end in a bounded time, also with a child that hangs in the driver."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
UNITS = {path.name: path.read_text() for path in sorted((REPOSITORY / "roles").rglob("*.service.j2"))}
# Its unit is a text in Python.
UNITS["gpuwright-tuning"] = (REPOSITORY / "plugins/module_utils/tuning/file_texts.py").read_text()
# Work that is ended by its user's own program gets the time of a checkpoint.
LONGEST = {"gpu-job@.service.j2": 120}


def test_the_table_has_every_unit_of_the_roles() -> None:
    assert {
        "gpuwright-check.service.j2",
        "gpuwright-cdi.service.j2",
        "gpuwright-devices.service.j2",
        "gpuwright-tuning",
    } <= set(UNITS)


@pytest.mark.parametrize("name", [name for name, text in UNITS.items() if "DeviceAllow=char-nvidia" in text])
def test_a_unit_that_reads_gpus_has_a_bounded_stop(name: str) -> None:
    limits = re.findall(r"(?m)^TimeoutStopSec=(.*)$", UNITS[name])
    assert len(limits) == 1
    assert 0 < int(limits[0]) <= LONGEST.get(name, 10)
    # Neither would end all processes of the unit.
    assert not re.search(r"(?m)^(KillMode=(process|none|mixed)|SendSIGKILL=no)", UNITS[name])
