"""A driver is changed on four nodes of a real Slurm, in batches: playbooks/rollout.yml with the role drain."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cluster import commands_here
from gpu_cluster import CONTROLLER, GpuCluster, Sight
from nodes import NAMES, Nodes, do, play

FIRST, SECOND, THIRD, OTHERS = NAMES
PLANNED = "gpuwright: planned work: driver 580 (alice)"
DRAIN = {"drain_by": "slurm", "drain_owner": "alice", "drain_reason": "driver 580", "drain_wait_seconds": 600}
# These nodes are in service, so that their reboot has to be allowed.
NEWER = {"system_driver_branch": "580", "system_driver_allow_stream_switch": True, "system_reboot_policy": "allowed"}
DRIVER = "cat /sys/module/nvidia/version; cat /proc/sys/kernel/random/boot_id"
JOB_OUTPUT = "/var/tmp/queued.out"
# The first job goes on until this file is there.
END = "/var/tmp/first-job-may-end"


def driver_and_boot(host: str) -> tuple[str, str]:
    version, boot = do(host, DRIVER).split()
    return version, boot


def end_once_drained(slurm: GpuCluster, job: str) -> None:
    """The job that runs ends after its node was drained, however long the rollout takes to come to that."""
    slurm.until(lambda: "drain" in slurm.state(FIRST), "the first node is drained", 300)
    assert slurm.job_state(job) == "RUNNING"
    do(FIRST, f"touch {END}")


def test_a_driver_changes_in_batches_and_jobs_wait_for_their_node(
    gpu_slurm: GpuCluster, nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = gpu_slurm
    monkeypatch.setenv("PATH", f"{commands_here(tmp_path, slurm.name(CONTROLLER))}:{os.environ['PATH']}")
    nodes.settings(**DRAIN, **NEWER)
    before = {name: driver_and_boot(name) for name in NAMES}
    assert {version for version, _boot in before.values()} == {"570.172.08"}
    slurm.sh(CONTROLLER, f"scontrol update NodeName={OTHERS} State=DRAIN Reason='bob: fan'")
    # It runs when the rollout begins; the second one is queued behind it, on the same GPU.
    running = slurm.script(f"-w {FIRST} --gres=gpu:1", f"until [ -e {END} ]; do sleep 1; done", "/dev/null")
    slurm.until(lambda: slurm.job_state(running) == "RUNNING", "the job runs")
    waiting = slurm.script(f"-w {FIRST} --gres=gpu:1", DRIVER, JOB_OUTPUT)
    with ThreadPoolExecutor(1) as pool, slurm.watched() as seen:
        ended = pool.submit(end_once_drained, slurm, running)
        done = play("playbooks/rollout.yml", gpuwright_batches=[1, "100%"], gpuwright_down_at_once=2)
    assert done.rc == 0, done.output
    ended.result()
    after = {name: driver_and_boot(name) for name in NAMES}
    assert {version.split(".")[0] for version, _boot in after.values()} == {"580"}, after
    assert not {boot for _version, boot in after.values()} & {boot for _version, boot in before.values()}
    # Nothing ended the job, and the one behind it ran on the changed node.
    slurm.until(lambda: slurm.job_state(waiting) == "COMPLETED", "the job that was queued has run", 120)
    assert slurm.job_state(running) == "COMPLETED"
    assert tuple(do(FIRST, f"cat {JOB_OUTPUT}").split()) == after[FIRST]
    at_no_moment_too_many(seen)
    # Drained by an administrator: changed, since it was empty, and not returned.
    assert (slurm.state(OTHERS), slurm.reason(OTHERS)) == ("idle+drain", "bob: fan")
    assert {slurm.reason(name) for name in NAMES[:3]} == {"none"}
    for name in NAMES[:3]:
        slurm.until_idle(name)
        slurm.until_says(name, "PASS")
    reports = {name: json.loads((tmp_path / f"reports/{name}.json").read_text()) for name in NAMES}
    assert {row["verdict"] for row in reports.values()} == {"PASS"}


def at_no_moment_too_many(seen: Sequence[Sight]) -> None:
    """Two at most are drained by the rollout; a batch begins when the one before has been returned."""
    assert len(seen) > 100, "the cluster was watched"
    for sight in seen:
        assert len(sight.for_reason(PLANNED)) <= 2 and len(sight.closed() - {OTHERS}) <= 2, sight
        assert sight.rows[OTHERS][1] == "bob: fan" and "drain" in sight.rows[OTHERS][0], sight
    drained = {name: [one.at for one in seen if name in one.for_reason(PLANNED)] for name in NAMES[:3]}
    assert all(drained.values()), drained
    assert max(drained[FIRST]) < min(drained[SECOND] + drained[THIRD]), drained
    assert set(drained[SECOND]) & set(drained[THIRD]), "both of a batch are changed at once"
