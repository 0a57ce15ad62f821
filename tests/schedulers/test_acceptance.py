"""playbooks/accept.yml on four nodes that really compute, on their CPUs: one is slow, or one is lost in the middle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster import podman
from nodes import FLEET, INVENTORY, NAMES, Nodes, Running, containers, do, play

# Short, and with a wide tolerance: four nodes share the cores of one machine, and some are 30 % slower by chance.
SHORT = {"accept_minutes": 1, "accept_step_seconds": 5, "accept_step_timeout": 180, "accept_share_percent": 60}
# A fifth of a core for the slow node, in portions shorter than what is timed.
PERIOD_US, QUOTA_US = 10_000, 2_000
PROGRAMS = "/var/lib/gpuwright/burn_in"


def certificate(folder: Path, host: str) -> dict[str, Any]:
    return json.loads((folder / f"reports/acceptance/{host}.json").read_text())


def reasons(folder: Path, host: str) -> set[str]:
    """Ids of what speaks against a node."""
    return {row["id"] for row in certificate(folder, host)["findings"] if row["status"] == "FAIL"}


def test_the_node_that_a_control_group_slows_down_is_named_and_no_other(nodes: Nodes, tmp_path: Path) -> None:
    slow = NAMES[2]
    name = containers.container_name(FLEET, slow)
    podman("update", "--cpu-period", str(PERIOD_US), "--cpu-quota", str(QUOTA_US), name)
    done = play("playbooks/accept.yml", **SHORT)
    assert done.rc == 2, done.output
    verdicts = {name: certificate(tmp_path, name)["verdict"] for name in NAMES}
    assert verdicts == {**dict.fromkeys(NAMES, "ACCEPTED"), slow: "NOT ACCEPTED"}, done.output
    assert reasons(tmp_path, slow) >= {"accept.outlier", "accept.between"}, done.output
    assert f"{slow} is not accepted" in done.text and done.text.count("[accept.refused]") == 2, done.output
    assert "those it was paired with are fast in other pairs (accept.between)" in done.text
    assert {do(name, f"test -e {PROGRAMS} || echo clean") for name in NAMES} == {"clean"}


def test_a_node_that_is_lost_in_the_middle_is_not_accepted_and_the_others_are(
    nodes: Nodes, begin: Callable[..., Running], tmp_path: Path
) -> None:
    """It has been measured alone, and has worked well in a pair; then its power goes."""
    *others, lost = NAMES[:3]
    words = ["ansible-playbook", "-i", str(INVENTORY), "playbooks/accept.yml", "-l", ",".join(NAMES[:3])]
    run = begin([*words, "-e", json.dumps(SHORT)])
    run.until(lambda: do(lost, "pgrep -f 'group .*--round [3]' || true", check=False), "its second pair begins")
    podman("stop", "--time", "0", containers.container_name(FLEET, lost))
    assert run.ended() == 4, run.said
    said = " ".join(run.said.split())
    assert f"{lost} LOST" in said and "Failed: 1 of 3 hosts" in said, run.said
    assert "accept.lost" in reasons(tmp_path, lost) and certificate(tmp_path, lost)["verdict"] == "NOT ACCEPTED"
    assert {certificate(tmp_path, name)["verdict"] for name in others} == {"ACCEPTED"}, run.said
    # What was lost had been measured, and was good in its first pair.
    rounds = [each for row in certificate(tmp_path, lost)["between"] for each in row["results"]]
    first = next(each for each in rounds if len(each["group"]) == 2 and lost in each["group"])
    assert first["figures"] and not first["problem"], rounds
