"""A host of the fleet to break, and the toolkit run against it as an administrator runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "module_utils"), str(REPOSITORY / "tests" / "unit")]
FLEET = [sys.executable, "tests/fleet/fleet"]
STATE = REPOSITORY / ".fleet" / "faults"
HOST = "a5-21"


@dataclass
class Run:
    """One run of ansible-playbook."""

    rc: int
    output: str

    @property
    def text(self) -> str:
        """The output as one line, so that a message may be looked for wherever it was wrapped."""
        return re.sub(r"\s+", " ", self.output)

    @property
    def changed(self) -> int:
        """Changed tasks of the host in the recap."""
        match = re.search(rf"^{HOST}\s+: ok=\d+\s+changed=(\d+)", self.output, re.MULTILINE)
        assert match, self.output
        return int(match.group(1))


def play(playbook: str, *arguments: str, fleet: str = "faults", **variables: object) -> Run:
    """Run a playbook on the hosts of a fleet; `variables` become extra variables."""
    command = ["ansible-playbook", playbook, "-l", "gpu_nodes", *arguments]
    if variables:
        command += ["-e", json.dumps(variables)]
    inventory = REPOSITORY / ".fleet" / fleet / "inventory.yml"
    environment = {**os.environ, "ANSIBLE_INVENTORY": str(inventory), "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=900)
    return Run(done.returncode, done.stdout + done.stderr)


def on_host(script: str, check: bool = True, program: str = "sh -s") -> str:
    """Run a script as root on the host and return what it prints."""
    command = ["ssh", "-F", str(STATE / "ssh_config"), HOST, f"sudo {program}"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=120)
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
