"""Somebody's own repository: the installed artefact, an inventory, and nothing of this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = Path(sys.executable).parent
FLEET = [sys.executable, "tests/fleet/fleet"]
HOST = "a5-61"
Call = Callable[..., subprocess.CompletedProcess]


def version() -> str:
    return yaml.safe_load((REPOSITORY / "galaxy.yml").read_text())["version"]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of collections with this one in it, as ansible-galaxy puts it there from the file that it built."""
    folder = tmp_path_factory.mktemp("installed")
    made = folder / f"gpuwright-node-{version()}.tar.gz"
    galaxy = [str(PROGRAMS / "ansible-galaxy"), "collection"]
    # In a checkout, and in a home where ansible-lint was before, ansible-galaxy would find the collection already.
    environment = {name: text for name, text in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment |= {"ANSIBLE_HOME": str(folder / "home"), "ANSIBLE_COLLECTIONS_PATH": str(folder / "collections")}
    for command, where in (
        ([sys.executable, "tools/trainer_wheel.py"], REPOSITORY),
        ([*galaxy, "build", "--output-path", str(folder)], REPOSITORY),
        ([*galaxy, "install", "--offline", "-p", str(folder / "collections"), str(made)], folder),
    ):
        done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "collections"


@pytest.fixture(scope="session")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of one's own, without an ansible.cfg."""
    return tmp_path_factory.mktemp("own repository")


@pytest.fixture(scope="session")
def call(installed: Path, elsewhere: Path) -> Call:
    """Run one of Ansible's programs there; it knows the installed collection and no other."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("ANSIBLE_", "GPUWRIGHT_"))}
    environment |= {"ANSIBLE_COLLECTIONS_PATH": str(installed), "ANSIBLE_NOCOLOR": "1"}

    def run(program: str, *arguments: object, **more: str) -> subprocess.CompletedProcess:
        command = [str(PROGRAMS / program), *map(str, arguments)]
        return subprocess.run(
            command, cwd=elsewhere, env=environment | more, capture_output=True, text=True, timeout=1200
        )

    return run


@pytest.fixture(scope="session")
def host() -> Iterator[Path]:
    """A bare host of the fleet; the value is its inventory."""
    subprocess.run([*FLEET, "reset", "--fleet", "collection"], cwd=REPOSITORY, check=True)
    yield REPOSITORY / ".fleet/collection/inventory.yml"
    subprocess.run([*FLEET, "down", "--fleet", "collection"], cwd=REPOSITORY, check=True)
