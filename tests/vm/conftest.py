"""The virtual machine: switched on once for all tests, which follow its life from bare to upgraded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.extend(str(folder) for folder in Path(__file__).resolve().parents[:2])
from gpuwright_vm.lane import Vm, switch_on


@pytest.fixture(scope="session")
def vm() -> Iterator[Vm]:
    """Bare at first. Its console, and what Ansible said, stay in .fleet/vm."""
    vm = switch_on()
    yield vm
    vm.machine.stop()
