"""A server whose disk is empty at first: installed from a preseed now or in an earlier run, and switched on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.extend(str(Path(__file__).resolve().parents[1] / name) for name in ("", "vm", "fleet"))
from lane import Node, switch_on


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    """After its installation, before site.yml. What it showed and what Ansible said stays in .fleet/blank-disk."""
    node = switch_on()
    yield node
    node.machine.stop()
