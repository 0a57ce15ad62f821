"""What others have changed since our last run is known by the ledger, and drop-ins that no run of ours wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpuwright.first_record.ledger import LEDGER, Damaged
from gpuwright.first_record.not_ours import changed_since
from provisioned_node import EDITOR, OURS, Node

SYSTEMD = "/etc/systemd/system"
OWN = f"{SYSTEMD}/train-gan@.service.d/50-gpuwright-limits.conf"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """One run, which wrote a file and a drop-in of its own."""
    made = Node(tmp_path)
    made.begin("run-1")
    made.write(OURS, "nvidia_uvm\n")
    made.write(OWN, "[Service]\nLimitNOFILE=1\n")
    made.end("run-1")
    return made


def since(node: Node) -> dict[str, Any]:
    return changed_since(str(node.root), node.look)


def test_a_node_that_was_left_alone(node: Node) -> None:
    assert since(node) == {"not_ours": [], "closed": {}, "open": {}}


def test_what_somebody_changed_since(node: Node) -> None:
    node.write(OURS, "# by hand\n")
    node.write(EDITOR, "deb http://site\n")
    node.install(jq="1.6")
    node.write("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
    assert set(since(node)["not_ours"]) >= {OURS, EDITOR, "jq", "root"}
    # Once a run has seen it, and left it as it is, it still is not ours; what it writes again is.
    node.begin("run-2")
    node.write(OURS, "nvidia_uvm\n")
    node.end("run-2")
    found = since(node)["not_ours"]
    assert EDITOR in found and OURS not in found


def test_drop_ins_that_no_run_of_ours_wrote(node: Node) -> None:
    closed = {
        f"{SYSTEMD}/gpuwright-check.service.d/zz.conf": "gpuwright-check.service",
        f"{SYSTEMD}.control/gpuwright-check.timer.d/50-x.conf": "gpuwright-check.timer",
        "/run/systemd/system/nvidia-persistenced.service.d/x.conf": "nvidia-persistenced.service",
    }
    own = {f"{SYSTEMD}/train-gan@a.service.d/own.conf": "train-gan@a.service",
           f"{SYSTEMD}/gpu-job@.service.d/own.conf": "gpu-job@.service"}  # fmt: skip
    others = ("/run/systemd/generator/gpuwright-check.service.d/x.conf", f"{SYSTEMD}/sshd.service.d/own.conf",
              f"{SYSTEMD}/gpuwright-check.service.d/README")  # fmt: skip
    for path in (*closed, *own, *others):
        node.write(path, "[Service]\n")
    found = since(node)
    assert (found["closed"], found["open"]) == (closed, own)


def test_a_node_without_a_ledger_and_one_with_a_damaged_one(tmp_path: Path, node: Node) -> None:
    (tmp_path / "bare").mkdir()
    bare = Node(tmp_path / "bare")
    assert since(bare) == {"not_ours": [], "closed": {}, "open": {}}
    node.write(LEDGER, json.dumps({"schema": 0}))
    with pytest.raises(Damaged):
        since(node)


def test_a_drop_in_that_came_during_a_run_is_no_less_foreign(node: Node) -> None:
    """The ledger takes for ours what changes while a run works."""
    path = f"{SYSTEMD}/gpuwright-check.service.d/override.conf"
    node.begin("run-2")
    node.write(path, "[Service]\n")
    node.end("run-2")
    assert since(node)["closed"] == {path: "gpuwright-check.service"}


def test_what_an_open_run_has_changed_is_not_called_somebody_elses(node: Node) -> None:
    node.begin("run-2")
    node.write(OURS, "nvidia_uvm\n# more\n")
    assert since(node)["not_ours"] == []
