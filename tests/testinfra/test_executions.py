"""What runs cost a node: modules executed on it by the first run, the second, and the third, which enters no role."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from testinfra.host import Host

pytestmark = pytest.mark.el8
# Exact, so that a task more is a decision. A node with two GPUs on two NUMA nodes takes the same steps.
# One of the first is the question whether the driver's module is built for every kernel.
FIRST, SECOND = 52, 31
# What a run asks of a node on which nothing is to do: is it there, what is it, and, in one question, may this run have
# it, does a training run, and is it what it should be.
NO_OP = {"raw": 1, "gpu_probe": 1, "gpu_verify": 1}


def executed(playbook: str, host: Host) -> list[Counter[str]]:
    """For each run of the playbook, in their order: how often each module of a role was executed on the host."""
    name = host.backend.get_hostname()
    found = []
    for file in sorted(Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], "executions").glob(f"*-{playbook}.jsonl")):
        if "-check-" not in file.name:
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            found.append(Counter(action for at, action, role, _changed in rows if at == name and role))
    return found


def test_a_node_executes_no_more_than_is_known(host: Host) -> None:
    first, second = executed("site", host)
    assert (first.total(), second.total()) == (FIRST, SECOND), (first, second)


def test_a_run_that_finds_nothing_to_do_asks_three_times(host: Host) -> None:
    (third,) = executed("reboot", host)
    assert third == NO_OP
