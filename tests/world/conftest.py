"""Hosts of the fleet under conditions, and the table of what was seen."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "fleet")]

from gpuwright_fleet.containers import container_name  # noqa: E402
from gpuwright_world import job, packages  # noqa: E402
from gpuwright_world.condition import Condition, apply  # noqa: E402
from gpuwright_world.network import MIRROR_HOST, PASSWORD, QUOTED, USER, start_servers  # noqa: E402

HOST = "a5-51"
ROWS: list[tuple[str, str, str, float]] = []


@dataclass
class World:
    """One host of a fleet with its servers. `words`: what @NAME@ means in conditions."""

    fleet: str
    tree: Path
    folder: Path
    ipv6: bool = False
    words: dict[str, str] = field(default_factory=dict)

    @property
    def container(self) -> str:
        return container_name(self.fleet, HOST)

    @property
    def inventory(self) -> Path:
        return job.REPOSITORY / ".fleet" / self.fleet / "inventory.yml"

    def fleet_tool(self, *words: str) -> None:
        subprocess.run(
            [sys.executable, "tests/fleet/fleet", *words, "--fleet", self.fleet], cwd=job.REPOSITORY, check=True
        )

    def start(self) -> None:
        self.fleet_tool("up", "--hosts", HOST, *(["--ipv6"] if self.ipv6 else []))
        self.words = start_servers(self.fleet, HOST)
        self.words["MIRROR"] = f"http://{USER}:{QUOTED}@{MIRROR_HOST}/site/gpu"
        for name, text in (("PASSWORD_FILE", PASSWORD), ("WRONG_FILE", "another")):
            file = self.folder / name.lower()
            file.write_text(text + "\n")
            file.chmod(0o600)
            self.words[name] = str(file)

    def bare(self, *conditions: Condition) -> None:
        """The host as it came out of the box, under these conditions."""
        self.fleet_tool("reset", "--hosts", HOST)
        # The new host has the address of the one before: a connection to that one must not be taken for its. Short,
        # as a socket's path may have 108 characters.
        self.words["SOCKETS"] = tempfile.mkdtemp(prefix="ssh-")
        if any(packages.ON_HOST in condition.host for condition in conditions):
            packages.bring(self.container)
        apply(self.container, conditions, self.words)


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return job.copy_tree(tmp_path_factory.mktemp("controller"))


@pytest.fixture(scope="session")
def make_world(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, bool], World]]:
    """Start a world; one is up at a time, and all are away afterwards."""
    made: list[World] = []

    def make(fleet: str, ipv6: bool = False) -> World:
        for world in made:
            world.fleet_tool("down")
        made.clear()
        made.append(World(fleet, tree, tmp_path_factory.mktemp("else where"), ipv6))
        made[-1].start()
        return made[-1]

    yield make
    for world in made:
        world.fleet_tool("down")


@pytest.fixture(scope="session")
def row() -> Callable[[str, str, str, float], None]:
    """Add a line to the table: condition, what is expected, what was seen, seconds."""
    return lambda condition, expected, seen, seconds: ROWS.append((condition, expected, seen, seconds))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not ROWS:
        return
    widths = [max(len(str(line[column])) for line in ROWS) for column in (0, 1)]
    terminalreporter.section("conditions")
    terminalreporter.write_line(f"{'condition':<{widths[0]}}  {'expected':<{widths[1]}}  seconds  seen")
    for condition, expected, seen, seconds in ROWS:
        terminalreporter.write_line(f"{condition:<{widths[0]}}  {expected:<{widths[1]}}  {seconds:7.0f}  {seen}")
