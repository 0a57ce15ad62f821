"""playbooks/sweep.yml on four nodes of a real Slurm: bad ones stay drained, a lost one is named, a busy one untouched.

What is simulated is the hardware (tests/fleet/README.md). The nodes compute on their CPUs: a control group makes one
slow, and of another every product in float32 has one bit flipped, always the same, as a bad multiplier would have it.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster import commands_here, podman
from gpu_cluster import CONTROLLER, GpuCluster
from nodes import FLEET, INVENTORY, NAMES, Nodes, Running, containers, do

SLOW, FLIPS, LOST, BUSY = NAMES
TAKEN = "gpuwright: planned work: sweep (gpuwright)"
BAD = "gpuwright: sweep: "
# Four nodes share the cores of one machine, and some are 40 % slower by chance.
RULES = {
    "drain_by": "slurm", "sweep_share_percent": 100, "sweep_idle_minutes": 0, "sweep_interval_hours": 0,
    "sweep_minutes": 1, "sweep_slower_percent": 80,
}  # fmt: skip
# As for the acceptance: a part of a core, in portions shorter than what is timed.
PERIOD_US, QUOTA_US = 10_000, 1_500
# In the system's Python, since a verification compares all files of the environment: once torch is imported, products
# have one bit flipped. That bit is the lowest, far below what the comparison with double precision sees.
FLIPPING = """
import importlib.util, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        load = spec.loader.exec_module
        def exec_module(torch):
            load(torch)
            right = torch.mm
            def mm(left, other, *, out=None):
                found = right(left, other, out=out)
                if out is not None and out.dtype == torch.float32:
                    out.view(torch.int32)[0, 0] ^= 1
                return found
            torch.mm = mm
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder())
"""
SITE = "/usr/lib/python3.11/sitecustomize.py"
WORDS = ["ansible-playbook", "-i", str(INVENTORY), "playbooks/sweep.yml", "-e"]


@pytest.fixture
def sweep(gpu_slurm: GpuCluster, nodes: Nodes, begin: Callable[..., Running], tmp_path: Path,
          monkeypatch: pytest.MonkeyPatch) -> Callable[..., Running]:  # fmt: skip
    """Start a sweep of the four nodes."""
    monkeypatch.setenv("PATH", f"{commands_here(tmp_path, gpu_slurm.name(CONTROLLER))}:{os.environ['PATH']}")
    return lambda **variables: begin([*WORDS, json.dumps({**RULES, **variables})])


def burning(host: str) -> bool:
    return bool(do(host, "pgrep -f 'burn_in.py [n]ode' || true", check=False))


def history(folder: Path, host: str) -> dict[str, Any]:
    return json.loads((folder / f"reports/history/{host}.json").read_text())


def test_bad_nodes_are_drained_a_lost_one_is_named_and_a_busy_one_is_untouched(
    sweep: Callable[..., Running], gpu_slurm: GpuCluster, tmp_path: Path
) -> None:
    slurm = gpu_slurm
    healthy = sweep()
    assert healthy.ended() == 0, healthy.said
    assert {name: (slurm.state(name), slurm.reason(name)) for name in NAMES} == dict.fromkeys(NAMES, ("idle", "none"))
    assert {history(tmp_path, name)["verdict"] for name in NAMES} == {"PASS"}
    # The interval is not over: nobody is taken.
    within = sweep(sweep_interval_hours=1)
    assert within.ended() == 0 and "not taken, it was swept at" in " ".join(within.said.split()), within.said
    podman("update", "--cpu-period", str(PERIOD_US), "--cpu-quota", str(QUOTA_US), slurm.name(SLOW))
    do(FLIPS, f"cat >> {SITE} <<'END'\n{FLIPPING}END")
    job = slurm.job(f"-w {BUSY} --gres=gpu:1", seconds=3600)
    slurm.until(lambda: slurm.job_state(job) == "RUNNING", "the job runs")
    run = sweep(sweep_slower_percent=45)
    run.until(lambda: burning(LOST), "the cards of the node are loaded")
    assert slurm.reason(LOST) == TAKEN
    podman("stop", "--time", "0", containers.container_name(FLEET, LOST))
    assert run.ended() in (2, 4), run.said
    said = " ".join(run.said.split())
    assert slurm.reason(SLOW).startswith(f"{BAD}sweep.outlier: cpu "), said
    assert "% below the median of" in slurm.reason(SLOW)
    assert slurm.reason(FLIPS).startswith(f"{BAD}accept.product: cpu ") and " in fp32 differs" in slurm.reason(FLIPS)
    assert {"drain" in slurm.state(name) for name in (SLOW, FLIPS)} == {True}
    assert run.table().get("lost") == LOST and f"{LOST} LOST" in said, said
    assert slurm.job_state(job) == "RUNNING" and slurm.reason(BUSY) == "none" and f"{BUSY}: not taken, it is" in said
    # What is bad stays so, and so does a node that came back from another boot; the job goes on.
    podman("start", containers.container_name(FLEET, LOST))
    slurm.until(lambda: "*" not in slurm.state(LOST), "the node answers again", 120)
    again = sweep(sweep_interval_hours=168)
    assert again.ended() == 2, again.said
    assert slurm.reason(LOST).startswith(f"{BAD}sweep.rebooted: rebooted under load") and "drain" in slurm.state(LOST)
    assert slurm.reason(SLOW).startswith(BAD) and slurm.reason(FLIPS).startswith(BAD)
    assert slurm.job_state(job) == "RUNNING" and slurm.reason(BUSY) == "none"
    index = (tmp_path / "reports/index.html").read_text()
    assert "Cards over time" in index and SLOW in index


def test_after_a_controller_that_was_killed_the_next_run_leaves_no_node_out_of_service(
    sweep: Callable[..., Running], gpu_slurm: GpuCluster
) -> None:
    slurm = gpu_slurm
    slurm.sh(CONTROLLER, f"scontrol update NodeName={BUSY} State=DRAIN Reason='bob: fan'")
    run = sweep()
    run.until(lambda: burning(SLOW), "the cards of the first node are loaded")
    run.process.send_signal(signal.SIGKILL)
    run.process.wait()
    taken = [name for name in NAMES if slurm.reason(name) == TAKEN]
    assert SLOW in taken and BUSY not in taken
    again = sweep(sweep_interval_hours=168)
    assert again.ended() == 0, again.said
    for name in taken:
        slurm.until_idle(name)
    assert {slurm.reason(name) for name in NAMES[:3]} == {"none"}
    assert (slurm.state(BUSY), slurm.reason(BUSY)) == ("idle+drain", "bob: fan")
    assert not any(burning(name) for name in NAMES)
