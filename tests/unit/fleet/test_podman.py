"""podman, as the fleet starts it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests/fleet"))
from gpuwright_fleet import podman as fleet_podman


def test_it_is_started_outside_the_checkout(
    on_path: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """conmon takes that folder for its own: where a container's memory ran out, it leaves an empty file there."""
    on_path("podman", "pwd")
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setattr(fleet_podman, "containers_conf", lambda: tmp_path / "containers.conf")
    assert fleet_podman.podman("info").stdout.strip() == str(tmp_path)
