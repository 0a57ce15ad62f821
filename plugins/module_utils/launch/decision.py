# SPDX-License-Identifier: Apache-2.0
"""What gpu-run would do and why: options, environment, allowed CPUs and the machine's topology give a `Decision`.

Nothing here changes the process. Who wins: an option, then what the caller's environment says, then the host's policy
/etc/gpuwright/runtime.json, then the defaults.
"""

from ..host.topology import UNKNOWN_NODE, all_node_cpus, cores_of, format_cpu_list, node_cpus, parse_cpu_list
from .cpu_share import divide, nearest
from .gpu_choice import BY_CALLER, choose_visible_gpus, place_ranks
from .ranks import bound_by, find_rank, is_launcher, is_script, ranks_on
from .runtime_policy import LaunchError
from .settings import choose_allocator, choose_cuda_allocator, choose_memory, choose_threads

# libgomp ties the main thread to one core at `import torch`, and every DataLoader worker inherits that core.
PINNING_VARIABLES = ("GOMP_CPU_AFFINITY", "OMP_PROC_BIND")

BOUND_AWAY = (
    "rank {} is bound by {} to no CPU of NUMA node {}, where its GPU is; leave the choice to gpu-run: "
    "mpirun --bind-to none, srun --cpu-bind=none"
)
MAY_START_RANKS = (
    "{} may start ranks that nobody has counted, so OMP_NUM_THREADS is left to them; put gpu-run before each rank, or "
    "set it by --threads"
)


class Decision:
    """What gpu-run does and why.

    environment    {name: value} of the command, complete
    changed        {name: value} of what gpu-run adds to the caller's environment
    gpus           the `Gpu`s that this process works with
    cpus           set of CPUs to run on
    memory_nodes   NUMA nodes for the memory policy, empty for none
    memory_policy  "preferred", "bind" or "none"
    allocator      path of the library that gpu-run preloads, "" for none
    rows           [[setting, value, why]]
    warnings       sentences
    """

    def __init__(self, environ):
        self.environment = dict(environ)
        self.changed = {}
        self.gpus = []
        self.cpus = set()
        self.memory_nodes = []
        self.memory_policy = "none"
        self.allocator = ""
        self.rows = []
        self.warnings = []

    def note(self, setting, value, why):
        self.rows.append([setting, value, why])

    def set_variable(self, name, value, why, even_if_set=False):
        """Give the command `name`=`value`, unless the caller already has a say in it."""
        if name in self.environment and not even_if_set:
            self.note(name, self.environment[name], BY_CALLER)
            return
        self.environment[name] = self.changed[name] = value
        self.note(name, value, why)


def decide(options, command, environ, allowed_cpus, policy, root="/", launcher=None):
    """The `Decision` for `options` (gpus, node, memory, threads, allocator), the command's words, the caller's
    `environ`, the CPUs that it may use and the `ranks.Launcher` of this rank, where there is one.

    Raises LaunchError, one sentence, for an option, variable or library that cannot be honoured.
    """
    decision = Decision(environ)
    rank = find_rank(environ)
    starts_ranks = rank is None and is_launcher(command)
    visible = choose_visible_gpus(decision, options.gpus, root)
    units, mine = place_ranks(decision, visible, rank, root)
    share, nodes = choose_cpus(decision, options.node, units, mine, set(allowed_cpus), rank, launcher, root)
    if starts_ranks and options.memory is None:
        decision.note("memory policy", "unchanged", "the command starts the ranks; put gpu-run before each of them too")
    else:
        choose_memory(decision, nodes, options.memory or policy["memory_policy"], root)
    if starts_ranks and options.threads is None:
        decision.note("OMP_NUM_THREADS", environ.get("OMP_NUM_THREADS", "unset"), "left to the ranks")
    elif rank is None and options.threads is None and len(visible) > 1 and is_script(command):
        decision.note("OMP_NUM_THREADS", environ.get("OMP_NUM_THREADS", "unset"), "left to what the script starts")
        decision.warnings.append(MAY_START_RANKS.format(command[0]))
    else:
        choose_threads(decision, options.threads, policy, share, rank, launcher, root)
    choose_allocator(decision, options.allocator, policy, root)
    if decision.gpus:
        choose_cuda_allocator(decision, policy["cuda_alloc_conf"])
    if rank is not None or starts_ranks or len(decision.gpus) > 1:
        for name, value in sorted(policy["nccl"].items()):
            decision.set_variable(name, value, "policy, for several ranks")
    for name in PINNING_VARIABLES:
        if environ.get(name, "").lower() not in ("", "false"):
            warning = "{}={} ties every DataLoader worker to one core; unset it, gpu-run binds to a set of CPUs"
            decision.warnings.append(warning.format(name, environ[name]))
    return decision


def choose_cpus(decision, option, units, mine, allowed, rank, launcher, root):
    """Choose the CPUs of this process; return its `Share` and its NUMA nodes, [] when nothing is bound to a node."""
    binder = bound_by(rank, decision.environment, allowed, launcher) if rank is not None else ""
    if option is not None:
        nodes, pool = _demanded_nodes(option, allowed, root)
        # One pool for all ranks, so that they divide it.
        one_place = {0: pool}
        share = divide([0] * len(units), mine, pool, one_place, lambda cpus: cores_of(cpus, root))
        why = "option --node"
    elif len(units) == 1 or binder:
        nodes = sorted({gpu.numa_node for gpu in decision.gpus} - {UNKNOWN_NODE})
        unknown = any(gpu.numa_node == UNKNOWN_NODE for gpu in decision.gpus)
        local = {} if unknown else {node: node_cpus(node, root) for node in nodes}
        share = nearest(nodes, allowed, {node: cpus for node, cpus in local.items() if cpus is not None})
        why = _why_near(decision, nodes, unknown, local, share)
        if binder:
            share = share.changed(sharing=ranks_on(allowed, rank, launcher))
            if nodes and not unknown and not share.at_home:
                decision.warnings.append(BOUND_AWAY.format(rank.index, binder, format_cpu_list(set(nodes))))
    else:
        wanted = [unit[0].numa_node if unit and unit[0].numa_node != UNKNOWN_NODE else None for unit in units]
        share = divide(wanted, mine, allowed, all_node_cpus(root), lambda cpus: cores_of(cpus, root))
        nodes = sorted({wanted[index] for index in mine} - {None})
        why = _why_divided(nodes, share, len(units))
    if binder:
        why = f"bound by {binder}; {why}"
    decision.cpus = share.cpus
    decision.note("CPU set", format_cpu_list(share.cpus), why)
    return share, nodes if share.at_home else []


def _demanded_nodes(option, allowed, root):
    """(nodes, their allowed CPUs) of --node; LaunchError for what is not there or not allowed."""
    try:
        # No kernel knows more than 1024 nodes; a range of thousands of millions would fill the memory.
        short = all(len(word) <= 4 for word in option.replace("-", ",").split(","))
        nodes = sorted(parse_cpu_list(option)) if short else []
    except ValueError:
        nodes = []
    if not nodes:
        raise LaunchError(f"--node {option!r}: expected NUMA nodes such as 0 or 0,1")
    there = all_node_cpus(root)
    for node in nodes:
        if node not in there:
            known = format_cpu_list(set(there)) or "none"
            raise LaunchError(f"--node {option}: there is no node {node} with CPUs; this host shows {known}")
        if not there[node] & allowed:
            message = "--node {}: the caller may use none of the CPUs of node {}, {}"
            raise LaunchError(message.format(option, node, format_cpu_list(there[node])))
    return nodes, allowed & set().union(*(there[node] for node in nodes))


def _why_near(decision, nodes, unknown, local, share):
    if not decision.gpus:
        return "no GPU to be near to: all CPUs that the caller may use"
    if unknown or None in local.values():
        return "the NUMA node of a GPU is unknown (usual in a virtual machine): all CPUs that the caller may use"
    names = format_cpu_list(set(nodes))
    if not share.at_home:
        return f"the caller may use no CPU of NUMA node {names}: all that it may use"
    return f"NUMA node {names} of the GPUs"


def _why_divided(nodes, share, count):
    if share.sharing > 1:
        return f"fewer CPUs than ranks: {share.sharing} of {count} ranks share them"
    if share.at_home:
        return f"part of NUMA node {format_cpu_list(set(nodes))} for this of {count} ranks"
    if nodes:
        names = format_cpu_list(set(nodes))
        return f"the caller may use no CPU of NUMA node {names}: part of the others for this of {count} ranks"
    return f"part of all CPUs for this of {count} ranks: no NUMA node to be near to"
