"""One archive for each release of Debian that is planned, fetched once; and what could not be asked, at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.extend(str(Path(__file__).resolve().parents[2] / name) for name in ("tests", "tests/fleet", "collections"))
from archive import SUITES, Archive, sources_of
from gpuwright_fleet.base import apt_options, controller_sources

ARCHIVES: dict[str, Archive] = {}


@pytest.fixture(scope="session")
def archive_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Archive]]:
    def made(version: str) -> Archive:
        if version not in ARCHIVES:
            suite = SUITES[version]
            sources = sources_of(controller_sources(suite), suite)
            ARCHIVES[version] = Archive(suite, tmp_path_factory.mktemp(suite), sources, apt_options())
            ARCHIVES[version].fetch()
        return ARCHIVES[version]

    yield made


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for version, archive in sorted(ARCHIVES.items()):
        terminalreporter.write_line(f"Debian {version}: asked {', '.join(archive.reached) or 'nothing'}")
        for name in archive.silent:
            terminalreporter.write_line(f"Debian {version}: NOT ASKED: {name}")
