"""The launcher on a kernel that has two NUMA nodes: what its memory policy does to jobs, and what it says of them."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from two_nodes import JOBS, Host

JOB = f"python3 {JOBS}/job.py"
KINDS = ("own", "shared", "workers")
# A job needs this many times what one node has; both together have more.
TIMES = 1.2
KILLED = 128 + 9
SMALL_MIB = 96
# Of a small job's memory: what lies elsewhere is Python's, mapped before, or the page tables' neighbours.
MOST_SHARE = 0.9
MEMORY_OF_ONE_NODE = "constraint=CONSTRAINT_MEMORY_POLICY"


@pytest.fixture(scope="module")
def large_mib(host: Host) -> int:
    """What no single node has, and both have."""
    size = int(TIMES * max(host.node_mib(0), host.node_mib(1))) // 4 * 4
    assert size < 0.9 * host.free_mib()
    return size


def killed_by_policy(host: Host) -> int:
    """How often the kernel has killed for want of memory on the nodes that a policy named."""
    return host.machine.run("dmesg").count(MEMORY_OF_ONE_NODE)


def test_the_gpu_is_at_the_second_node_and_its_job_goes_there(host: Host) -> None:
    """As the kernel says it: nothing here is told to the launcher."""
    found = host.said("gpu-run --json -- true")
    assert [gpu["numa_node"] for gpu in found["gpus"]] == [1]
    assert (found["cpus"], found["memory_policy"], found["memory_nodes"]) == ("2-3", "preferred", [1])
    assert host.run("cat /sys/devices/system/node/node*/distance").stdout.split() == ["10", "21", "21", "10"]


# -- no job that runs bare dies under the default ------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", ["", "gpu-run --"], ids=["bare", "default"])
def test_a_job_that_needs_more_than_one_node_lives(start: str, kind: str, host: Host, large_mib: int) -> None:
    before = killed_by_policy(host)
    done = host.run(f"{start} {JOB} {kind} {large_mib}")
    assert done.returncode == 0, done.stderr
    assert killed_by_policy(host) == before
    if kind == "own":
        # It fills what its own node has before it takes from the other.
        mib = json.loads(done.stdout)["mib"]
        assert sum(mib.values()) >= large_mib and min(mib.values()) > 100, mib


@pytest.mark.parametrize("kind", KINDS)
def test_bound_to_its_node_the_same_job_is_killed(kind: str, host: Host, large_mib: int) -> None:
    """What a strict numactl --membind does, and gpu-run only when it is asked to."""
    before = killed_by_policy(host)
    done = host.run(f"gpu-run --memory bind -- {JOB} {kind} {large_mib}")
    assert done.returncode != 0 and done.stdout == ""
    if kind != "workers":
        assert done.returncode == KILLED, done
    assert killed_by_policy(host) > before


@pytest.mark.parametrize("options", ["--node 0", "--numa socket", "--numa none", "--exclusive --no-smt"])
def test_no_other_placement_kills_it_either(options: str, host: Host, large_mib: int) -> None:
    done = host.run(f"gpu-run {options} -- {JOB} own {large_mib}")
    assert done.returncode == 0, done.stderr


def test_two_ranks_of_one_gpu_node_share_it_and_live(host: Host, large_mib: int) -> None:
    """Both prefer the node of the GPU, which has no room for both."""
    part = large_mib // 2
    ranks = "".join(
        f"LOCAL_RANK={rank} LOCAL_WORLD_SIZE=2 gpu-run -- {JOB} own {part} & first=${{first:-$!}}; " for rank in (0, 1)
    )
    done = host.run(f"{ranks} wait $first && wait $!")
    assert done.returncode == 0, done.stderr


# -- the policy is what the kernel says ----------------------------------------------------------------------------

POLICIES = {
    "": ("prefer:1", "1"),
    "--memory preferred": ("prefer:1", "1"),
    "--memory bind": ("bind:1", "1"),
    "--node 0": ("prefer:0", "0"),
    "--node 0 --memory bind": ("bind:0", "0"),
    "--node 0,1 --memory bind": ("bind:0-1", None),
    "--node 0,1": ("default", None),
    "--memory none": ("default", None),
    "--numa none": ("default", None),
}


@pytest.mark.parametrize("options", POLICIES)
def test_the_kernel_has_the_policy_that_gpu_run_tells(options: str, host: Host) -> None:
    policy, node = POLICIES[options]
    found = host.said(f"gpu-run {options} -- {JOB} own {SMALL_MIB}")
    assert found["policies"] == [policy]
    if node is not None:
        assert found["mib"].get(node, 0) >= MOST_SHARE * SMALL_MIB, found
    told = host.said(f"gpu-run {options} --json -- true")
    mode, _, nodes = policy.partition(":")
    assert told["memory_policy"] == {"prefer": "preferred", "bind": "bind", "default": "none"}[mode]
    assert told["memory_nodes"] == [number for number in (0, 1) if nodes and str(number) in re.split("[,-]", nodes)]


def test_a_policy_of_the_callers_own_stays(host: Host) -> None:
    """numactl before gpu-run; Debian's numactl is not there, so gpu-run itself stands for it."""
    found = host.said(f"gpu-run --node 0 --memory bind -- gpu-run --node 0 -- {JOB} own {SMALL_MIB}")
    assert found["policies"] == ["bind:0"]


# -- what gpu-run --check says of running jobs ---------------------------------------------------------------------


@contextlib.contextmanager
def running(host: Host, words: str) -> Iterator[int]:
    """The process id of a job that has filled its memory."""
    asked = f"nohup {words} > /tmp/job.out 2>&1 & echo $!; i=0; "
    asked += "while [ ! -s /tmp/job.out ] && [ $((i += 1)) -lt 600 ]; do sleep 0.5; done"
    host.run("rm -f /tmp/job.out")
    pid = int(host.run(asked).stdout.split()[0])
    try:
        yield pid
    finally:
        host.run(f"kill {pid}")


def checked(host: Host, pid: int) -> tuple[int, dict[str, Any]]:
    done = host.run(f"gpu-run --check --json {pid}")
    return done.returncode, json.loads(done.stdout)


def test_memory_that_was_left_on_the_other_node_is_reported_with_its_share(host: Host) -> None:
    """A job that began on the second node and was moved to the first, as taskset does; its memory stays where it is."""
    with running(host, f"gpu-run -- {JOB} own 400 away") as pid:
        code, found = checked(host, pid)
    (rank,) = found["ranks"]
    assert rank["cpus"] == "0-1" and rank["far_mib"] >= 0.9 * 400 and rank["far_mib"] <= rank["memory_mib"] < 450
    assert code == 1
    (told,) = [text for text in found["findings"] if "far NUMA node" in text]
    assert f"{rank['far_mib']} of {rank['memory_mib']} MiB lie on a far NUMA node" in told


@pytest.mark.parametrize(("start", "most_mib"), [("gpu-run --", 20), ("", 400)], ids=["default", "bare"])
def test_memory_of_the_own_node_is_not_far(start: str, most_mib: int, host: Host) -> None:
    """The same without the move; a bare process may run on both sockets, so that none of its memory is far."""
    with running(host, f"{start} {JOB} own 400 stay") as pid:
        _, found = checked(host, pid)
    (rank,) = found["ranks"]
    assert rank["memory_mib"] >= 400 and rank["far_mib"] <= (most_mib if start else 0)
    assert not [text for text in found["findings"] if "far NUMA node" in text]


# -- calibration ---------------------------------------------------------------------------------------------------

CALIBRATED = "/etc/gpuwright/runtime-calibrated.json"


def calibrate(host: Host, measure: str) -> dict[str, Any]:
    """What `sudo gpu-run --calibrate` has kept of the placements, run by an ordinary user."""
    metric = "--metric 'step: ([0-9.]+)' --lower-is-better"
    done = host.run(f"sudo gpu-run --calibrate {metric} --rounds 7 -- python3 {JOBS}/step.py {measure}")
    assert done.returncode == 0, done.stderr
    kept = json.loads(host.run(f"cat {CALIBRATED}").stdout)["placements"]
    (placement,) = kept.values()
    host.machine.run(f"rm {CALIBRATED}")
    return placement


def test_calibration_stays_with_bare_where_far_memory_is_no_slower(host: Host) -> None:
    """An emulator gives every access to memory the same time."""
    placement = calibrate(host, "clock")
    assert placement["arm"] == "bare", placement["why"]
    assert {"threads", "node", "node bind"} <= set(placement["ratios"])
    assert len(placement["rounds"]) >= 7


def test_calibration_takes_a_memory_policy_that_a_command_gains_by(host: Host) -> None:
    """That the kernel knows two nodes, and each arm has the policy of its name, decides here."""
    assert calibrate(host, "policy")["arm"] == "node bind"
