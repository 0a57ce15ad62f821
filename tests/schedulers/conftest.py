"""One cluster for all tests of this folder, made before the first and taken away after the last."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import cluster
import pytest


@pytest.fixture(scope="session")
def one_cluster() -> Iterator[cluster.Cluster]:
    with tempfile.TemporaryDirectory(prefix="gpuwright-slurm-") as folder:
        # slurm.conf is mounted from here, and munged reads its key as its own user.
        Path(folder).chmod(0o755)
        with cluster.running(Path(folder)) as made:
            yield made


@pytest.fixture
def slurm(one_cluster: cluster.Cluster) -> Iterator[cluster.Cluster]:
    """The cluster without jobs, drains and memory; every node says PASS."""
    one_cluster.clear()
    yield one_cluster
