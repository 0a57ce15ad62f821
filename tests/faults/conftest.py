"""A host of the fleet to break, and the toolkit run against it as an administrator runs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.extend(str(Path(__file__).resolve().parents[2] / name) for name in ("tests/node_library", "tests"))
sys.path.extend(map(str, (Path(__file__).resolve().parents[1] / "unit").glob("**")))
from playbook_run import REPOSITORY, Run, run_playbook

FLEET = [sys.executable, "tests/fleet/fleet"]
STATE = REPOSITORY / ".fleet" / "faults"
HOST = "a5-21"
PLAY_SECONDS = 900


def play(playbook: str, *arguments: str, fleet: str = "faults", **variables: object) -> Run:
    """Run a playbook on the hosts of a fleet; `variables` become extra variables."""
    inventory = REPOSITORY / ".fleet" / fleet / "inventory.yml"
    return run_playbook(inventory, PLAY_SECONDS, playbook, "-l", "gpu_nodes", *arguments, **variables)


def on_host(script: str, check: bool = True, program: str = "sh -s", fleet: str = "faults", host: str = HOST) -> str:
    """Run a script as root on the host and return what it prints."""
    command = ["ssh", "-F", str(REPOSITORY / ".fleet" / fleet / "ssh_config"), host, f"sudo {program}"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=900)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="session")
def fleet() -> Iterator[None]:
    """The fleet `faults`, up for all tests, away afterwards."""
    subprocess.run([*FLEET, "up", "--fleet", "faults"], cwd=REPOSITORY, check=True)
    yield
    subprocess.run([*FLEET, "down", "--fleet", "faults"], cwd=REPOSITORY, check=True)


@pytest.fixture(scope="module")
def bare_host(fleet: None) -> None:
    """A host as it came out of the box."""
    subprocess.run([*FLEET, "reset", "--fleet", "faults"], cwd=REPOSITORY, check=True)


@pytest.fixture(scope="session")
def finished_host(fleet: None) -> None:
    """A host that site.yml has brought to PASS; tests of several files share it, and mend what they break."""
    subprocess.run([*FLEET, "reset", "--fleet", "faults"], cwd=REPOSITORY, check=True)
    done = play("site.yml")
    assert done.rc == 0, done.output


@pytest.fixture
def host_file() -> Iterator[Callable[[str, str], None]]:
    """Write a file on the host; it is removed after the test."""
    written: list[str] = []

    def write(path: str, content: str) -> None:
        written.append(path)
        on_host(f"mkdir -p $(dirname {path}); cat > {path} <<'END'\n{content}\nEND")

    yield write
    for path in written:
        on_host(f"rm -f {path}")
