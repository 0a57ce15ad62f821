"""What holds on every machine: random NUMA nodes, cores, GPUs, limits and ranks."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from gpu_run_machines import build, choose, write
from gpuwright.host.topology import cores_of, format_cpu_list, parse_cpu_list
from hypothesis import given, settings
from hypothesis import strategies as st

MACHINES = st.fixed_dictionaries(
    {
        "cores": st.lists(st.integers(0, 5), min_size=1, max_size=4),
        "threads": st.sampled_from([1, 2]),
        "gpu_nodes": st.lists(st.integers(-1, 4), max_size=5),
        "allowed": st.sets(st.integers(0, 39), min_size=1),
        "quota": st.none() | st.integers(1, 4000),
        "version": st.sampled_from([1, 2]),
        "mode": st.sampled_from(["preferred", "bind", "none"]),
    }
)


def make(root: Path, about: dict) -> dict[int, set[int]]:
    """Write the machine; {node: its CPUs}, second threads numbered after all first ones as Linux does."""
    nodes, first, total = {}, 0, sum(about["cores"])
    for number, count in enumerate(about["cores"]):
        own = set(range(first, first + count))
        nodes[number] = own | ({cpu + total for cpu in own} if about["threads"] == 2 else set())
        first += count
    gpus = {f"0000:{index:02x}:00.0": node for index, node in enumerate(about["gpu_nodes"])}
    with_memory = format_cpu_list({number for number in nodes if number % 2 == 0})
    texts = {number: format_cpu_list(cpus) for number, cpus in nodes.items()}
    apart = total if about["threads"] == 2 and total else 0
    build(root, texts, gpus, apart, with_memory)
    if about["quota"]:
        line = "0::/job" if about["version"] == 2 else "3:cpu,cpuacct:/job"
        write(root, "proc/self/cgroup", line)
        write(root, "sys/fs/cgroup/job/cpu.max", f"{1000 * about['quota']} 100000")
        write(root, "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", str(1000 * about["quota"]))
        write(root, "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000")
    return nodes


@contextlib.contextmanager
def machine(about: dict):
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder), make(Path(folder), about)


@settings(max_examples=60, deadline=None)
@given(about=MACHINES)
def test_one_process_stays_within_what_is_allowed_and_near_its_gpus(about: dict) -> None:
    with machine(about) as (root, nodes):
        allowed = about["allowed"]
        decision = choose(root, allowed=format_cpu_list(allowed), memory_policy=about["mode"])
        assert decision.cpus and decision.cpus <= allowed
        wanted = {gpu.numa_node for gpu in decision.gpus}
        known = wanted and all(nodes.get(node) is not None for node in wanted)
        near = set().union(*(nodes[node] for node in wanted)) if known else set()
        assert decision.cpus == (allowed & near or allowed)
        assert set(decision.memory_nodes) <= {node for node in wanted if node % 2 == 0}
        threads = int(decision.environment["OMP_NUM_THREADS"])
        assert 1 <= threads <= len(cores_of(decision.cpus, str(root)))
        assert threads <= max(1, (about["quota"] or 10**6) // 100)


@settings(max_examples=60, deadline=None)
@given(about=MACHINES, count=st.integers(1, 8))
def test_ranks_never_overlap_and_never_leave_a_node_that_they_may_use(about: dict, count: int) -> None:
    with machine(about) as (root, nodes):
        allowed = about["allowed"]
        taken: set[int] = set()
        shared = False
        for rank in range(count):
            environ = {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(count)}
            decision = choose(root, environ, allowed=format_cpu_list(allowed), memory_policy=about["mode"])
            assert decision.cpus and decision.cpus <= allowed
            crowd = any(row[0] == "CPU set" and row[2].startswith("fewer CPUs than ranks") for row in decision.rows)
            assert crowd or not decision.cpus & taken
            shared |= crowd
            taken |= decision.cpus
            if decision.gpus:
                node = decision.gpus[0].numa_node
                if nodes.get(node, set()) & allowed:
                    assert decision.cpus <= nodes[node]
                    assert set(decision.memory_nodes) <= {node}
                else:
                    assert decision.memory_nodes == []
            assert int(decision.environment["OMP_NUM_THREADS"]) >= 1
            assert int(decision.environment["OMP_NUM_THREADS"]) <= max(1, (about["quota"] or 10**6) // (100 * count))
        # Sharing is the last resort.
        assert not shared or count > min(len(cpus & allowed) for cpus in [*nodes.values(), allowed] if cpus & allowed)


@given(numbers=st.sets(st.integers(0, 300)))
def test_list_format_goes_there_and_back(numbers: set[int]) -> None:
    assert parse_cpu_list(format_cpu_list(numbers)) == numbers
