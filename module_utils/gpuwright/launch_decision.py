# SPDX-License-Identifier: Apache-2.0
"""What gpu-run would do and why: options, environment, allowed CPUs and the machine's topology give a `Decision`.

Nothing here changes the process. Who wins: an option, then what the caller's environment says, then the host's policy
/etc/gpuwright/runtime.json, then the defaults.
"""

import re

from .runtime_policy import LaunchError, find_library
from .topology import UNKNOWN_NODE, count_cores, find_gpus, format_cpu_list, memory_nodes, node_cpus

BY_CALLER = "set by the caller"
NUMBER = re.compile("[0-9]{1,9}")
# libgomp ties the main thread to one core at `import torch`, and every DataLoader worker inherits that core.
PINNING_VARIABLES = ("GOMP_CPU_AFFINITY", "OMP_PROC_BIND")


class Decision:
    """What gpu-run does and why.

    environment    {name: value} of the command, complete
    changed        {name: value} of what gpu-run adds to the caller's environment
    gpus           the `Gpu`s that this process works with
    cpus           set of CPUs to run on
    memory_nodes   NUMA nodes for the memory policy, empty for none
    memory_policy  "preferred", "bind" or "none"
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


def decide(options, environ, allowed_cpus, policy, root="/"):
    """The `Decision` for `options` (gpus, allocator), the caller's `environ` and the CPUs that it may use.

    Raises LaunchError, one sentence, for an option, variable or library that cannot be honoured.
    """
    decision = Decision(environ)
    visible = choose_visible_gpus(decision, options.gpus, find_gpus(root))
    sharing = choose_own_gpus(decision, visible)
    nodes = choose_cpus(decision, allowed_cpus, root)
    choose_memory(decision, nodes, policy["memory_policy"], root)
    choose_threads(decision, policy["omp_num_threads"], sharing, root)
    choose_allocator(decision, options.allocator, policy, root)
    choose_cuda_allocator(decision, policy["cuda_alloc_conf"])
    for name in PINNING_VARIABLES:
        if environ.get(name, "").lower() not in ("", "false"):
            warning = "{}={} ties every DataLoader worker to one core; unset it, gpu-run binds to a set of CPUs"
            decision.warnings.append(warning.format(name, environ[name]))
    return decision


def choose_visible_gpus(decision, option, gpus):
    """The GPUs that CUDA will show the command, in its order; sets CUDA_VISIBLE_DEVICES for the option --gpus."""
    listed = decision.environment.get("CUDA_VISIBLE_DEVICES")
    visible = gpus if listed is None else _listed_gpus(decision, listed, gpus)
    if option is not None:
        visible = _demanded_gpus(option, gpus, visible)
        decision.set_variable("CUDA_VISIBLE_DEVICES", option, "option --gpus", even_if_set=True)
    elif listed is not None:
        decision.note("CUDA_VISIBLE_DEVICES", listed, BY_CALLER)
    if gpus:
        decision.set_variable("CUDA_DEVICE_ORDER", "PCI_BUS_ID", "numbers the GPUs as nvidia-smi and sysfs do")
        if decision.environment["CUDA_DEVICE_ORDER"] != "PCI_BUS_ID":
            decision.warnings.append("CUDA_DEVICE_ORDER is not PCI_BUS_ID, so gpu-run may take one GPU for another")
    return visible


def _demanded_gpus(option, gpus, allowed):
    """The GPUs of --gpus; LaunchError when one does not exist or the caller's environment excludes it."""
    words = option.split(",")
    if not all(NUMBER.fullmatch(word) for word in words):
        raise LaunchError("--gpus {!r}: expected GPU numbers such as 0 or 0,1".format(option))
    numbers = [int(word) for word in words]
    if len(set(numbers)) != len(numbers):
        raise LaunchError("--gpus {}: a GPU is named twice".format(option))
    for number in numbers:
        if number >= len(gpus):
            known = "GPUs 0 to {}".format(len(gpus) - 1) if gpus else "no NVIDIA GPU"
            raise LaunchError("--gpus {}: there is no GPU {}; this host shows {}".format(option, number, known))
        if gpus[number] not in allowed:
            message = "--gpus {}: GPU {} is not in the caller's CUDA_VISIBLE_DEVICES={}; choose among those or unset it"
            raise LaunchError(message.format(option, number, ",".join(str(gpu.index) for gpu in allowed)))
    return [gpus[number] for number in numbers]


def _listed_gpus(decision, value, gpus):
    """The GPUs of CUDA_VISIBLE_DEVICES; as in CUDA, the first word that names no GPU ends the list."""
    found = []
    for word in [word.strip() for word in value.split(",")]:
        matches = [gpu for gpu in gpus if word == str(gpu.index)]
        matches += [gpu for gpu in gpus if word.startswith("GPU-") and gpu.uuid.startswith(word)]
        if len(matches) != 1 or matches[0] in found:
            if gpus and word not in ("", "-1"):
                warning = "CUDA_VISIBLE_DEVICES={}: {!r} names no GPU that gpu-run can find; it ignores what follows"
                decision.warnings.append(warning.format(value, word))
            break
        found.append(matches[0])
    return found


def choose_own_gpus(decision, visible):
    """Keep the GPUs that this process itself works on; return how many local ranks share their NUMA node."""
    rank = _whole_number(decision.environment, "LOCAL_RANK", 0)
    world = _whole_number(decision.environment, "LOCAL_WORLD_SIZE", 1) or 1
    decision.gpus, sharing = visible, world
    if rank is None:
        why = "all GPUs that the command sees"
    elif rank < len(visible):
        decision.gpus = [visible[rank]]
        why = "LOCAL_RANK={}".format(rank)
        if visible[rank].numa_node != UNKNOWN_NODE and world <= len(visible):
            sharing = sum(gpu.numa_node == visible[rank].numa_node for gpu in visible[:world])
    else:
        # One visible GPU for each rank is how Slurm hands them out; with more, the rank is in doubt.
        why = "LOCAL_RANK={}, but the command sees {} GPU(s)".format(rank, len(visible))
        if len(visible) > 1:
            decision.warnings.append(why + ": binding to the nodes of all of them")
    names = ", ".join("{} ({})".format(gpu.index, gpu.pci_id) for gpu in decision.gpus)
    decision.note("GPUs", names or "none", why if names else "no NVIDIA GPU is visible")
    return max(1, sharing)


def _whole_number(environ, name, least):
    """The number in a variable that launchers such as torchrun set, None when it is not set."""
    text = environ.get(name)
    if text is None:
        return None
    if not NUMBER.fullmatch(text) or int(text) < least:
        raise LaunchError("{}={!r}: expected a whole number from {}".format(name, text, least))
    return int(text)


def choose_cpus(decision, allowed_cpus, root):
    """Choose the CPUs of the GPUs' NUMA nodes within the allowed ones; return those nodes, [] when nothing is bound."""
    decision.cpus = set(allowed_cpus)
    nodes = sorted({gpu.numa_node for gpu in decision.gpus})
    local = [None if node == UNKNOWN_NODE else node_cpus(node, root) for node in nodes]
    if not nodes:
        why = "no GPU to be near to: all CPUs that the caller may use"
    elif None in local:
        why = "the NUMA node of a GPU is unknown (usual in a virtual machine): all CPUs that the caller may use"
    elif not decision.cpus & set().union(*local):
        why = "the caller may use no CPU of NUMA node {}: nothing is bound".format(format_cpu_list(nodes))
    else:
        why = "NUMA node {} of the GPUs, within the CPUs that the caller may use".format(format_cpu_list(nodes))
        decision.cpus &= set().union(*local)
        decision.note("CPU set", format_cpu_list(decision.cpus), why)
        return nodes
    decision.note("CPU set", format_cpu_list(decision.cpus), why)
    return []


def choose_memory(decision, nodes, mode, root):
    """Choose the NUMA nodes that memory should come from."""
    present = memory_nodes(root)
    without_memory = set() if present is None else set(nodes) - present
    if mode == "none":
        why = "switched off in the policy"
    elif not nodes:
        why = "nothing is bound to a NUMA node"
    elif present is not None and len(present) < 2:
        why = "there is one memory node"
    elif without_memory:
        why = "NUMA node {} has no memory that the caller may use".format(format_cpu_list(without_memory))
    elif mode == "preferred" and len(nodes) > 1:
        why = "the GPUs lie on several nodes: memory comes from the node of the CPU that asks"
    else:
        decision.memory_policy, decision.memory_nodes = mode, nodes
        decision.note("memory policy", "{} {}".format(mode, format_cpu_list(nodes)), "the NUMA node of the GPUs")
        return
    decision.note("memory policy", "unchanged", why)


def choose_threads(decision, wanted, sharing, root):
    """OMP_NUM_THREADS: the policy's number, or the physical cores of the CPU set divided among the ranks on it."""
    if wanted:
        decision.set_variable("OMP_NUM_THREADS", str(wanted), "policy")
        return
    cores = count_cores(decision.cpus, root)
    why = "{} physical core(s) for {} process(es)".format(cores, sharing)
    decision.set_variable("OMP_NUM_THREADS", str(max(1, cores // sharing)), why)


def choose_allocator(decision, option, policy, root):
    """Preload the allocator's library after proving the file; a library of the caller's own stays."""
    name, source = (option, "option --allocator") if option else (policy["allocator"], "policy")
    preloaded = decision.environment.get("LD_PRELOAD", "")
    if name == "none" or (preloaded and not option):
        why = BY_CALLER + ", so no allocator is added" if preloaded else "no allocator: " + source
        decision.note("LD_PRELOAD", preloaded or "(empty)", why)
        return
    library = find_library(name, policy, root)
    if library not in preloaded.split(":"):
        preloaded = library + (":" + preloaded if preloaded else "")
    decision.set_variable("LD_PRELOAD", preloaded, "{}: {}".format(name, source), even_if_set=True)
    if name == "jemalloc" and policy["malloc_conf"]:
        decision.set_variable("MALLOC_CONF", policy["malloc_conf"], "policy, for jemalloc")


def choose_cuda_allocator(decision, value):
    """Both names: torch before 2.9 knows only the old one, and 2.9.1 ignores expandable_segments under the new one.

    When the caller has set either, the other stays unset: two values would contradict each other.
    """
    names = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    given = [name for name in names if name in decision.environment]
    for name in given or (names if value else ()):
        decision.set_variable(name, value, "policy: fewer fragments in GPU memory")
