"""What the tests of finished nodes share: they know the inventory and the host, nothing of the toolkit."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from testinfra.host import Host
from xdist.scheduler import LoadScopeScheduling

# One marker for each Molecule scenario; a test without a marker holds for every finished node.
SCENARIOS = (
    "el8",
    "el8_alternative",
    "el9",
    "el10",
    "debian12",
    "debian12_alternative",
    "debian13",
    "debian13_nvidia",
    "ubuntu",
)


class NodeByNode(LoadScopeScheduling):
    """Two nodes at once, and of each one test after the other, as tests start and stop the node's services."""

    def _split_scope(self, nodeid: str) -> str:
        node = re.search(r"ansible://([a-z0-9]+-[0-9]+)", nodeid)
        return node[1] if node else "controller"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> NodeByNode:
    return NodeByNode(config, log)


def pytest_configure(config: pytest.Config) -> None:
    for name in ("every_scenario", *SCENARIOS):
        config.addinivalue_line("markers", f"{name}: nodes made by this Molecule scenario")
    config.addinivalue_line("markers", "one_node: once, on the first node of several")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    first = next(filter(None, map(node_of, items)), None)
    others = [item for item in items if item.get_closest_marker("one_node") and node_of(item) not in (None, first)]
    items[:] = [item for item in items if item not in others]
    config.hook.pytest_deselected(items=others)
    for item in items:
        if not any(item.get_closest_marker(name) for name in SCENARIOS):
            item.add_marker(pytest.mark.every_scenario)


def node_of(item: pytest.Item) -> Host | None:
    """The node on which a test runs; None for one that looks at none."""
    return item.callspec.params.get("_testinfra_host") if hasattr(item, "callspec") else None


@pytest.fixture
def wish(host: Host) -> dict:
    """The host's variables in the inventory."""
    return host.ansible.get_variables()


@pytest.fixture
def trainer(wish: dict) -> str:
    """Name of the training user."""
    return wish.get("system_training_user", "trainer")


@pytest.fixture
def as_trainer(host: Host, trainer: str):
    """Run a command as the training user, who has no shell of his own."""

    def run(command: str):
        with host.sudo():
            return host.run("runuser -u %s -- /bin/sh -c %s", trainer, command)

    return run


@pytest.fixture
def report(host: Host) -> dict:
    """The report that the node keeps of its last verification."""
    with host.sudo():
        return json.loads(host.file("/var/lib/gpuwright/report.json").content_string)
