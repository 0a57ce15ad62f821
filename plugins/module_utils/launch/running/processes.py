# SPDX-License-Identifier: Apache-2.0
"""Which ranks run on this host, and how they are placed, from /proc and from who computes on which GPU.

Sources: proc(5) (status, environ), Linux Documentation/filesystems/proc.rst (numa_maps), nvidia-smi(1).
"""

from typing import Any, Collection, Dict, List, Optional, Set, Tuple

from ...host.files import below, is_digits, read_colon_lines, read_text, to_int
from ...host.in_child import examine_each
from ...host.processes import command_name, parent_of, process_ids
from ...host.topology import (
    UNKNOWN_NODE,
    Gpu,
    cores_of,
    find_all_gpus,
    format_cpu_list,
    parse_cpu_list,
)
from ..layout import Layout, read_layout
from ..ranks import RANK_VARIABLES, SLURM_RANK
from .rule import RunningRank

RANKS = tuple(name for name, _ in RANK_VARIABLES) + (SLURM_RANK,)
MOST_BYTES = 64 * 1024 * 1024
ENVIRONMENT_BYTES = 1024 * 1024
KIB = 1024
NOBODYS = "none"
# Reading the map of a process with a terabyte takes long; one that has not answered by then hangs.
SECONDS = 20.0


def read_ranks(
    cards: Dict[int, List[str]], root: str = "/", only: Optional[int] = None, corrected: Optional[Dict[str, int]] = None
) -> List[Dict[str, Any]]:
    """A row for each running rank, with the fields of `RunningRank`, sets as lists of CPUs ("0-9", "none" for none).

    `cards` is {pid: PCI addresses of the GPUs on which it computes}; `only`, if given, is the one process to look at,
    with those that it started; `corrected` is {PCI address: NUMA node} from the host's policy. What this process may
    not read is `{"unreadable": why}`. OSError if `only` does not exist.
    """
    pids = process_ids(root)
    if only is not None:
        if only not in pids:
            raise OSError(f"there is no process {only}")
        pids = [pid for pid in pids if only in [pid, *_ancestors(root, pid)]]
    # Both are guarded by a lock that a process hanging in the driver holds forever.
    told = examine_each(lambda pid: _environment(root, pid), pids, SECONDS)
    environments = {pid: told[place] for place, pid in enumerate(pids)}
    found = {pid: _ranks_of(environments[pid]) for pid in pids}
    candidates = [pid for pid in pids if cards.get(pid) or found[pid]]
    candidates = [pid for pid in candidates if not _is_worker(pid, candidates, found, cards, root)]
    candidates = candidates or ([only] if only is not None else [])
    layout = read_layout(root)
    gpus = {gpu.pci_id: gpu for gpu in find_all_gpus(root)}
    for address, node in (corrected or {}).items():
        if address in gpus and node in layout.cpus:
            gpus[address] = gpus[address].changed(numa_node=node)
    memory = examine_each(lambda pid: _memory(root, pid), candidates, SECONDS)
    rows = [
        _row(root, pid, environments[pid], cards.get(pid, []), memory[place], layout, gpus)
        for place, pid in enumerate(candidates)
    ]
    return [row for row in rows if row is not None]


def as_rank(row: Dict[str, Any]) -> RunningRank:
    """The `RunningRank` of a row; what could not be read is None."""
    values = {name: None if isinstance(value, dict) else value for name, value in row.items()}
    sets = {name: set_of(values[name] or NOBODYS) for name in ("cpus", "cores", "near")}
    return RunningRank(**dict(values, **sets))


def set_of(text: str) -> Set[int]:
    """The CPUs of a row's list; ValueError if it is not one."""
    return set() if text == NOBODYS else parse_cpu_list(text)


def _ancestors(root: str, pid: int) -> List[int]:
    found = []  # type: List[int]
    parent = parent_of(root, pid)
    while parent and parent not in found:
        found.append(parent)
        parent = parent_of(root, parent)
    return found


def _environment(root: str, pid: int) -> Optional[Dict[str, str]]:
    """The environment that the process was started with; None where this process may not see it."""
    try:
        with open(below(root, f"/proc/{pid}/environ"), "rb") as file:
            words = file.read(ENVIRONMENT_BYTES).split(b"\0")
    except OSError:
        return None
    pairs = [word.decode("utf-8", "replace").partition("=") for word in words if b"=" in word]
    return {name: value for name, _, value in pairs}


def _ranks_of(environment: Optional[Dict[str, str]]) -> Tuple[Tuple[str, str], ...]:
    """The rank variables of a process. Slurm's alone may be a batch script's, or that of anything the script starts."""
    environment = environment or {}
    found = [(name, environment[name]) for name in RANKS if environment.get(name)]
    if [name for name, _ in found] == [SLURM_RANK] and not environment.get("SLURM_STEP_TASKS_PER_NODE"):
        return ()
    return tuple(found)


def _is_worker(
    pid: int,
    candidates: Collection[int],
    found: Dict[int, Tuple[Tuple[str, str], ...]],
    cards: Dict[int, List[str]],
    root: str,
) -> bool:
    """Whether an ancestor is the rank, and this its DataLoader worker or helper: the same rank, and no other GPU."""
    for parent in _ancestors(root, pid):
        if parent in candidates and found[parent] == found[pid]:
            return set(cards.get(pid, [])) <= set(cards.get(parent, []))
    return False


def _row(
    root: str,
    pid: int,
    environment: Optional[Dict[str, str]],
    cards: List[str],
    memory: Optional[Dict[str, int]],
    layout: Layout,
    gpus: Dict[str, Gpu],
) -> Optional[Dict[str, Any]]:
    """The row of one process, None if it has ended meanwhile."""
    allowed = read_colon_lines(read_text(root, f"/proc/{pid}/status")).get("Cpus_allowed_list")
    if allowed is None:
        return None
    present = set().union(*layout.cpus.values()) if layout.cpus else set()  # type: Set[int]
    # A mask may include CPUs that the host could have but does not.
    cpus = parse_cpu_list(allowed) & present or parse_cpu_list(allowed)
    cores = cores_of(cpus, root)
    nodes = {gpus[card].numa_node for card in cards if card in gpus} - {UNKNOWN_NODE}
    home = nodes or {node for node, own in layout.cpus.items() if own & cpus}
    near_nodes = _on_their_sockets(home, layout)
    threads = None if environment is None else environment.get("OMP_NUM_THREADS", "")
    row = {
        "pid": pid,
        "name": command_name(root, pid),
        "cpus": format_cpu_list(cpus),
        "cores": format_cpu_list({core[0] for core in cores}),
        "cards": sorted(cards),
        "near": format_cpu_list(set().union(*(layout.cpus.get(node, set()) for node in near_nodes))) if nodes else "",
        "threads": _unreadable(pid, "environ") if threads is None else _threads(threads, len(cores)),
    }  # type: Dict[str, Any]
    row["near"] = row["near"] or NOBODYS
    if memory is None:
        row["memory_mib"] = row["far_mib"] = _unreadable(pid, "numa_maps")
    else:
        sizes = {int(node): size for node, size in memory.items()}
        far = sum(size for node, size in sizes.items() if node not in near_nodes and layout.cpus.get(node))
        row["memory_mib"], row["far_mib"] = sum(memory.values()) // KIB, far // KIB
    return row


def _threads(text: str, cores: int) -> int:
    """The first number of OMP_NUM_THREADS ("8,4" is for nested regions), the number of cores if it has none."""
    word = text.split(",")[0].strip()
    return int(word) if is_digits(word, 6) and int(word) else cores


def _unreadable(pid: int, name: str) -> Dict[str, Any]:
    return {"unreadable": f"/proc/{pid}/{name} is for its owner and root, or did not answer", "only_root": True}


def _on_their_sockets(nodes: Set[int], layout: Layout) -> Set[int]:
    """The nodes, and those on the same sockets; memory there does not count as far."""
    sockets = {layout.sockets.get(node) for node in nodes} - {None}
    return set(nodes) | {node for node, socket in layout.sockets.items() if socket in sockets}


def _memory(root: str, pid: int) -> Optional[Dict[str, int]]:
    """{node: KiB} of the process's own memory, without files mapped into it; None if this process may not see it.

    Empty for a process that has ended, and with a kernel without NUMA: such memory is never far.
    """
    try:
        with open(below(root, f"/proc/{pid}/numa_maps"), "rb") as file:
            lines = file.read(MOST_BYTES).decode("ascii", "replace").splitlines()
    except PermissionError:
        return None
    except OSError:
        return {}
    found = {}  # type: Dict[str, int]
    for line in lines:
        words = line.split()
        pairs = [word.partition("=") for word in words[2:]]
        values = {name: to_int(value) for name, _, value in pairs}
        page = values.get("kernelpagesize_kB") or 4
        if not values.get("anon"):
            continue
        for name, pages in values.items():
            if name.startswith("N") and is_digits(name[1:], 4) and pages:
                found[name[1:]] = found.get(name[1:], 0) + pages * page
    return found
