# SPDX-License-Identifier: Apache-2.0
"""Which CPUs a process gets: from the requested nodes, from those that a launcher has bound, or near its GPUs."""

from ..host.topology import UNKNOWN_NODE, all_node_cpus, cores_of, find_all_gpus, format_cpu_list, parse_cpu_list
from .cpu_share import NODE, NONE, SOCKET, divide, nearest
from .layout import Layout, read_layout
from .ranks import bound_by, ranks_on
from .runtime_policy import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Sequence, Set, Tuple

    from ..host.topology import Gpu
    from .cpu_share import Share
    from .decision import Decision
    from .options import Options
    from .ranks import Launcher, Rank

BOUND_AWAY = (
    "rank {} is bound by {} to no CPU of NUMA node {}, where its GPU is; leave the choice to gpu-run: "
    "mpirun --bind-to none, srun --cpu-bind=none"
)
NO_COUNT = (
    "{}={} says which rank this is, but not how many there are on this host: neither CPUs nor threads are divided; "
    "set {}"
)
IDLE = "{} of {} CPUs get no process: NUMA node {} has no GPU of theirs; {}"


def choose_cpus(
    decision: "Decision",
    option: "Optional[str]",
    mode: str,
    units: "List[List[Gpu]]",
    mine: "List[int]",
    allowed: "Set[int]",
    rank: "Optional[Rank]",
    launcher: "Optional[Launcher]",
    root: str,
) -> "Tuple[Share, List[int]]":
    """Choose the CPUs of this process; return its `Share` and the NUMA nodes that its memory should come from.

    `option` is --node, `mode` one of cpu_share's; the nodes are [] if nothing is bound to a node.
    """
    binder = bound_by(rank, decision.environment, allowed, launcher) if rank is not None else ""
    if option is not None:
        nodes, pool = _demanded_nodes(option, allowed, root)
        # One pool for all ranks, so that they divide it.
        one_place = Layout({0: pool}, {}, {0: None})
        share = divide([0] * len(units), mine, pool, one_place, lambda cpus: cores_of(cpus, root))
        decision.cpus = share.cpus
        decision.note("CPU set", format_cpu_list(share.cpus), "option --node")
        return share, nodes
    layout = read_layout(root)
    if len(units) == 1 or binder:
        nodes = sorted({gpu.numa_node for gpu in decision.gpus} - {UNKNOWN_NODE})
        unknown = any(gpu.numa_node == UNKNOWN_NODE for gpu in decision.gpus)
        share = nearest([] if unknown else nodes, allowed, layout, mode)
        why = _why_near(decision, nodes, unknown, layout, share, mode)
        if binder and rank is not None:
            why = f"bound by {binder}; {why}"
            if rank.count is not None:
                share = share.changed(sharing=ranks_on(allowed, rank, launcher))
            if nodes and not unknown and not share.at_home and mode != NONE:
                decision.warnings.append(BOUND_AWAY.format(rank.index, binder, format_cpu_list(set(nodes))))
    else:
        wanted = [unit[0].numa_node if unit and unit[0].numa_node != UNKNOWN_NODE else None for unit in units]
        share = divide(wanted, mine, allowed, layout, lambda cpus: cores_of(cpus, root), mode)
        nodes = sorted({node for node in (wanted[index] for index in mine) if node is not None})
        why = _why_divided(nodes, share, layout, len(units), mode)
    decision.cpus = share.cpus
    decision.note("CPU set", format_cpu_list(share.cpus), why)
    if share.idle and not binder:
        _tell_of_idle(decision, share, layout, allowed, mode, rank, root)
    return share, nodes if share.at_home else []


def keep_cores(
    decision: "Decision", share: "Share", allowed: "Set[int]", rank: "Optional[Rank]", options: "Options", root: str
) -> None:
    """--exclusive refuses CPUs that another rank may also have; --no-smt leaves one CPU of each core."""
    if not options.exclusive and not options.no_smt:
        return
    cores = cores_of(allowed, root)
    mine = [core for core in cores if set(core) & decision.cpus]
    if options.exclusive and rank is not None:
        if rank.count is None:
            raise LaunchError(f"--exclusive: {rank.variable} does not say how many ranks there are")
        if share.sharing > 1 or not all(set(core) <= decision.cpus for core in mine):
            message = "--exclusive: {} ranks for {} cores that the caller may use: this one would share CPUs {}"
            raise LaunchError(message.format(rank.count, len(cores), format_cpu_list(decision.cpus)))
    if options.no_smt:
        decision.cpus = {min(set(core) & decision.cpus) for core in mine}
        decision.note("CPUs of a core", "one", f"option --no-smt: {format_cpu_list(decision.cpus)}")


def nodes_for_bind(nodes: "Sequence[int]", share: "Share", mode: str, root: str) -> "List[int]":
    """The nodes from which strictly bound memory may come: with whole sockets, also the others of the CPU set."""
    if mode != SOCKET or not nodes:
        return list(nodes)
    return sorted(set(nodes) | {node for node, cpus in all_node_cpus(root).items() if cpus & share.cpus})


def _demanded_nodes(option: str, allowed: "Set[int]", root: str) -> "Tuple[List[int], Set[int]]":
    """(nodes, their allowed CPUs) of --node; LaunchError for nodes that do not exist or are not allowed."""
    try:
        # No kernel has more than 1024 nodes; a range of billions would fill the memory.
        short = all(len(word) <= 4 for word in option.replace("-", ",").split(","))
        nodes = sorted(parse_cpu_list(option)) if short else []
    except ValueError:
        nodes = []
    if not nodes:
        raise LaunchError(f"--node {option!r}: expected NUMA nodes such as 0 or 0,1")
    there: "Dict[int, Set[int]]" = {node: cpus for node, cpus in all_node_cpus(root).items() if cpus}
    for node in nodes:
        if node not in there:
            known = format_cpu_list(set(there)) or "none"
            raise LaunchError(f"--node {option}: there is no node {node} with CPUs; this host shows {known}")
        if not there[node] & allowed:
            message = "--node {}: the caller may use none of the CPUs of node {}, {}"
            raise LaunchError(message.format(option, node, format_cpu_list(there[node])))
    return nodes, allowed & set().union(*(there[node] for node in nodes))


def _why_near(
    decision: "Decision", nodes: "List[int]", unknown: bool, layout: Layout, share: "Share", mode: str
) -> str:
    if not decision.gpus:
        return "no GPU to be near to: all CPUs that the caller may use"
    if mode == NONE:
        return "bound to no NUMA node: all CPUs that the caller may use"
    if unknown or not all(node in layout.cpus for node in nodes):
        why = "the NUMA node of a GPU is unknown (usual in a virtual machine): all CPUs that the caller may use"
        return why + "; system_runtime_gpu_nodes names it"
    names = format_cpu_list(set(nodes))
    if not share.at_home:
        which = "those of the nearest node" if share.idle else "all that it may use"
        return f"the caller may use no CPU of NUMA node {names}: {which}"
    return f"NUMA node {names} of the GPUs" + (" and the rest of its socket" if mode == SOCKET else "")


def _why_divided(nodes: "List[int]", share: "Share", layout: Layout, count: int, mode: str) -> str:
    if mode == NONE:
        return f"bound to no NUMA node: part of all CPUs for this one of {count} ranks"
    if share.sharing > 1:
        return f"fewer CPUs than ranks: {share.sharing} of {count} ranks share them"
    if share.at_home:
        home: "Set[int]" = set().union(*(layout.cpus[node] for node in nodes))
        more = "" if share.cpus <= home else ", and of the rest of its socket"
        return f"part of NUMA node {format_cpu_list(set(nodes))} for this one of {count} ranks" + more
    if nodes:
        names = format_cpu_list(set(nodes))
        return f"the caller may use no CPU of NUMA node {names}: part of the others for this one of {count} ranks"
    return f"part of all CPUs for this one of {count} ranks: no NUMA node to be near to"


def _tell_of_idle(
    decision: "Decision",
    share: "Share",
    layout: Layout,
    allowed: "Set[int]",
    mode: str,
    rank: "Optional[Rank]",
    root: str,
) -> None:
    """A row for CPUs that no process gets; also a warning in the first rank, or if it has all the host's GPUs."""
    cpus = {cpu for node in share.idle for cpu in layout.cpus[node]} & allowed
    used = {layout.sockets.get(node) for node in layout.cpus if layout.cpus[node] & share.cpus} - {None}
    beside = any(layout.sockets.get(node) in used for node in share.idle)
    way = "--numa socket takes the rest of the socket" if beside and mode == NODE else "--numa none takes them"
    decision.note("idle CPUs", f"{len(cpus)} of {len(allowed)}", f"NUMA node {format_cpu_list(share.idle)}; {way}")
    if rank is not None:
        first = rank.index == 0
    else:
        first = beside and {gpu.pci_id for gpu in decision.gpus} == {gpu.pci_id for gpu in find_all_gpus(root)}
    if first:
        decision.warnings.append(IDLE.format(len(cpus), len(allowed), format_cpu_list(share.idle), way))
