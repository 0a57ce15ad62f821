"""Two clusters: two containers of Debian for the gate alone, and four servers of the fleet for playbooks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import cluster
import pytest
from gpu_cluster import GpuCluster
from nodes import Nodes, Running


@pytest.fixture(scope="session")
def one_cluster() -> Iterator[cluster.Cluster]:
    with tempfile.TemporaryDirectory(prefix="gpuwright-slurm-") as folder:
        # slurm.conf is mounted from here, and munged reads its key as its own user.
        Path(folder).chmod(0o755)
        with cluster.running(Path(folder), cluster.trainer()) as made:
            yield made


@pytest.fixture
def slurm(one_cluster: cluster.Cluster) -> Iterator[cluster.Cluster]:
    """The cluster without jobs, drains and memory; every node says PASS."""
    one_cluster.clear()
    yield one_cluster


@pytest.fixture(scope="session")
def all_nodes() -> Iterator[Nodes]:
    """The fleet `nodes`, away after the last test."""
    with tempfile.TemporaryDirectory(prefix="gpuwright-nodes-") as folder:
        made = Nodes(Path(folder))
        try:
            made.up()
            yield made
        finally:
            made.down()


@pytest.fixture
def nodes(all_nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    """Four servers as they were finished, with the older driver; reports, logs and records are the test's own."""
    monkeypatch.setenv("GPUWRIGHT_LOG_FOLDER", str(tmp_path / "logs"))
    all_nodes.folder = tmp_path
    all_nodes.restore()
    return all_nodes


@pytest.fixture
def gpu_slurm(nodes: Nodes, tmp_path: Path) -> Iterator[GpuCluster]:
    """Slurm over the four servers; each has told PASS."""
    made = GpuCluster(tmp_path, nodes)
    try:
        made.up()
        yield made
    finally:
        made.down()


@pytest.fixture
def begin(nodes: Nodes, tmp_path: Path) -> Iterator[Callable[[Sequence[str]], Running]]:
    """Start a command of Ansible on the nodes; whatever happens in the test, none is left running."""
    begun: list[Running] = []

    def start(words: Sequence[str]) -> Running:
        begun.append(Running(tmp_path / f"{len(begun)}.log", words))
        return begun[-1]

    yield start
    for one in begun:
        one.process.kill()
        one.process.wait()
