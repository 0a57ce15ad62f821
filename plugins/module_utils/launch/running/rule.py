# SPDX-License-Identifier: Apache-2.0
"""What is wrong with how running ranks are placed: shared CPUs, more threads than cores, far memory, a shared GPU."""

from typing import Dict, List, NamedTuple, Optional, Set

from ...host.topology import format_cpu_list

# Below this share, and below this size, far memory is libraries, page tables and memory from before the binding.
FAR_SHARE = 0.25
FAR_MIB = 256


class RunningRank(NamedTuple):
    """A process that works with a GPU, or that a launcher has given a rank; None for what could not be read.

    cpus     the CPUs that it may use            cores      the first CPU of each of their physical cores
    threads  OpenMP threads: its OMP_NUM_THREADS, or as many as cores if it is not set
    cards    PCI addresses of the GPUs on which it computes
    near     CPUs on the sockets of these GPUs, empty if the firmware names no node
    memory_mib and far_mib: its own memory, and the part that is on a different socket from its GPU, or from its CPUs
    """

    pid: int
    name: str
    cpus: Set[int]
    cores: Set[int]
    threads: Optional[int]
    cards: Optional[List[str]]
    near: Set[int]
    memory_mib: Optional[int]
    far_mib: Optional[int]


def findings(ranks: List[RunningRank]) -> List[str]:
    """One sentence for each thing that is wrong, [] if the ranks do not disturb each other."""
    found = []
    for group in _sharing_cpus(ranks):
        cpus = set().union(*(rank.cpus for rank in group))  # type: Set[int]
        cores = set().union(*(rank.cores for rank in group))  # type: Set[int]
        names = ", ".join(_name(rank) for rank in group)
        threads = sum(rank.threads or 0 for rank in group)
        if len(group) > 1:
            found.append(f"{names} run on the same CPUs, of {format_cpu_list(cpus)}; start each with gpu-run")
        if threads > len(cores):
            way = "start each with gpu-run, or set OMP_NUM_THREADS"
            found.append(f"{names}: {threads} OpenMP threads for {len(cores)} core(s); {way}")
    for rank in ranks:
        if rank.near and not rank.near & rank.cpus:
            found.append(
                f"{_name(rank)} runs on CPUs {format_cpu_list(rank.cpus)}, none of which is near its GPU "
                f"{', '.join(rank.cards or [])}; near ones: {format_cpu_list(rank.near)}"
            )
        if rank.memory_mib and rank.far_mib and rank.far_mib >= FAR_MIB and rank.far_mib > FAR_SHARE * rank.memory_mib:
            found.append(
                f"{_name(rank)}: {rank.far_mib} of {rank.memory_mib} MiB lie on a far NUMA node; "
                "the near one was full, or the process was moved"
            )
    for card, users in sorted(_by_card(ranks).items()):
        if len(users) > 1:
            found.append(
                f"{', '.join(map(_name, users))} compute on one GPU, {card}; "
                "torch.cuda.set_device(LOCAL_RANK) before the first use of CUDA"
            )
    return found


def _name(rank: RunningRank) -> str:
    return f"{rank.name} (pid {rank.pid})"


def _sharing_cpus(ranks: List[RunningRank]) -> List[List[RunningRank]]:
    """The ranks in groups whose CPU sets overlap, each rank in one group."""
    groups = []  # type: List[List[RunningRank]]
    for rank in ranks:
        joined = [group for group in groups if any(rank.cpus & other.cpus for other in group)]
        groups = [group for group in groups if group not in joined]
        groups.append([member for group in joined for member in group] + [rank])
    return groups


def _by_card(ranks: List[RunningRank]) -> Dict[str, List[RunningRank]]:
    cards = {}  # type: Dict[str, List[RunningRank]]
    for rank in ranks:
        for card in rank.cards or []:
            cards.setdefault(card, []).append(rank)
    return cards
