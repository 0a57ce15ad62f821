"""Secure Boot without an enrolled key: the kernel would refuse the module, and nouveau would be gone by then."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from conftest import FLEET, REPOSITORY, play


@pytest.fixture
def secure_boot_fleet() -> Iterator[None]:
    subprocess.run([*FLEET, "up", "--fleet", "secure-boot"], cwd=REPOSITORY, check=True)
    yield
    subprocess.run([*FLEET, "down", "--fleet", "secure-boot"], cwd=REPOSITORY, check=True)


@pytest.mark.usefixtures("secure_boot_fleet")
def test_stops_before_anything_is_removed() -> None:
    done = play("site.yml", fleet="secure-boot")
    assert done.rc != 0 and "a5-31" in done.text
    assert "Secure Boot is on" in done.text and "mokutil --import" in done.text
    assert "Nothing was removed" in done.text and "changed=0" in done.text
