"""Every named card of the table, by its PCI id, on every system with every profile."""

from __future__ import annotations

import pytest
from gpuwright.gpu.devices import NAMES
from test_plan_everywhere import MATRIX, SYSTEMS, must_be_refused, shortcomings


@pytest.mark.parametrize("profile", sorted(MATRIX["profiles"]))
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_card(system: str, profile: str) -> None:
    for device_id in NAMES:
        assert shortcomings(device_id, system, profile) == ([], must_be_refused(device_id, system, profile)), device_id
