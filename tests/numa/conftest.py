"""The machine with two NUMA nodes, switched on once for all tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "vm"))
from two_nodes import Host, switch_on


@pytest.fixture(scope="session")
def host() -> Iterator[Host]:
    """Its console stays in .fleet/numa."""
    host = switch_on()
    yield host
    host.machine.stop()
