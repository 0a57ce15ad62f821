# SPDX-License-Identifier: Apache-2.0
"""Which GPUs a process works with: --gpus, CUDA_VISIBLE_DEVICES, what Slurm granted, and the rank on this host.

Sources: CUDA C++ Programming Guide (environment variables), NVIDIA MIG User Guide (device names), srun(1).
"""

from ..host.files import is_digits
from ..host.topology import UNKNOWN_NODE, all_node_cpus, find_all_gpus, gpu_model, reachable_gpus
from .cpu_choice import NO_COUNT
from .decision import BY_CALLER
from .ranks import MOST_DIGITS, RANK_VARIABLES, SLURM_COUNT, SLURM_RANK
from .runtime_policy import LaunchError, pci_address

# Importing typing would take a third of gpu-run's start time: its names are only for the type checker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping, Optional, Tuple

    from ..host.topology import Gpu
    from .decision import Decision
    from .ranks import Rank

SLURM_GPUS = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
NVIDIA_SMI_SECONDS = 10
UUID_STARTS = ("GPU-", "MIG-")


def choose_visible_gpus(
    decision: "Decision", option: "Optional[str]", nodes: "Dict[str, int]", root: str
) -> "List[Gpu]":
    """The GPUs that CUDA will show the command, in its order; sets CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.

    `nodes` is {PCI address: NUMA node} for cards for which the firmware names no node, or a wrong one.
    """
    told = reachable_gpus(find_all_gpus(root), root)
    gpus = _corrected(told, nodes, root)
    _tell_corrected(decision, gpus, told, nodes)
    listed = decision.environment.get("CUDA_VISIBLE_DEVICES")
    granted = _granted(decision.environment, gpus) if listed is None else []
    visible = _listed_gpus(decision, listed, gpus) if listed is not None else granted or gpus
    if option is not None:
        visible = demanded_gpus(option, gpus, visible)
        decision.set_variable("CUDA_VISIBLE_DEVICES", option, "option --gpus", even_if_set=True)
    elif listed is not None:
        decision.note("CUDA_VISIBLE_DEVICES", listed, BY_CALLER)
    elif granted and granted != gpus:
        decision.set_variable("CUDA_VISIBLE_DEVICES", ",".join(str(gpu.index) for gpu in granted), "granted by Slurm")
    if gpus:
        decision.set_variable("CUDA_DEVICE_ORDER", "PCI_BUS_ID", "numbers the GPUs as nvidia-smi and sysfs do")
        return _in_cuda_order(decision, visible, gpus, listed if option is None else None, root)
    return visible


def _corrected(gpus: "List[Gpu]", nodes: "Dict[str, int]", root: str) -> "List[Gpu]":
    """The GPUs with the NUMA nodes that the policy names, as far as this host has these nodes."""
    named = {pci_address(name): node for name, node in nodes.items()}
    there = all_node_cpus(root) if named else {}
    known = {address: node for address, node in named.items() if node in there}
    return [gpu.changed(numa_node=known.get(gpu.pci_id, gpu.numa_node)) for gpu in gpus]


def _tell_corrected(decision: "Decision", gpus: "List[Gpu]", told: "List[Gpu]", nodes: "Dict[str, int]") -> None:
    """A row for each GPU whose node differs from the firmware's, a warning for a node that does not exist."""
    named = {pci_address(name): node for name, node in nodes.items()}
    for place, gpu in enumerate(gpus):
        before = told[place]
        if gpu.numa_node != before.numa_node:
            says = "names none" if before.numa_node == UNKNOWN_NODE else f"says {before.numa_node}"
            decision.note(f"node of GPU {gpu.index}", str(gpu.numa_node), f"policy; the firmware {says}")
        elif named.get(gpu.pci_id, gpu.numa_node) != gpu.numa_node:
            message = "the policy puts GPU {} on NUMA node {}, which does not exist: what the firmware says is used"
            decision.warnings.append(message.format(gpu.pci_id, named[gpu.pci_id]))


def _in_cuda_order(
    decision: "Decision", visible: "List[Gpu]", gpus: "List[Gpu]", listed: "Optional[str]", root: str
) -> "List[Gpu]":
    """`visible`, with unknown nodes if CUDA may number the GPUs in an order other than PCI order."""
    order = decision.environment["CUDA_DEVICE_ORDER"]
    by_number = listed is None or any(word.strip().isdecimal() for word in listed.split(","))
    if len(gpus) < 2 or not by_number:
        return visible
    if order != "PCI_BUS_ID":
        # Cards of one model are equally fast; CUDA then keeps the order of the bus.
        if _one_model(gpus, root):
            return visible
        message = "CUDA_DEVICE_ORDER={} numbers GPUs of different models by speed: it is not known which GPU this is"
        decision.warnings.append(message.format(order) + ", so nothing is bound to its NUMA node; unset it")
        return [gpu.changed(numa_node=UNKNOWN_NODE) for gpu in visible]
    if listed is not None and "CUDA_DEVICE_ORDER" in decision.changed and not _one_model(gpus, root):
        message = (
            "GPUs of different models: CUDA_VISIBLE_DEVICES={} now counts as nvidia-smi does, CUDA by itself by speed"
        )
        decision.warnings.append(message.format(listed))
    return visible


def _one_model(gpus: "List[Gpu]", root: str) -> bool:
    models = {gpu_model(gpu.pci_id, root) for gpu in gpus}
    return len(models) == 1 and None not in models


def demanded_gpus(option: str, gpus: "List[Gpu]", allowed: "List[Gpu]") -> "List[Gpu]":
    """The GPUs of --gpus; LaunchError if one does not exist or the caller's environment excludes it."""
    words = option.split(",")
    if not all(is_digits(word, MOST_DIGITS) or word.startswith(UUID_STARTS) for word in words):
        raise LaunchError(f"--gpus {option!r}: expected GPU numbers such as 0 or 0,1, or UUIDs")
    numbers = [_number_of(option, word, gpus) for word in words]
    # Two slices of one GPU are two devices.
    if len(set(words)) != len(words) or (len(set(numbers)) != len(numbers) and "MIG-" not in option):
        raise LaunchError(f"--gpus {option}: a GPU is named twice")
    for number in numbers:
        if number >= len(gpus):
            known = f"GPUs 0 to {len(gpus) - 1}" if gpus else "no NVIDIA GPU"
            raise LaunchError(f"--gpus {option}: there is no GPU {number}; this host shows {known}")
        if gpus[number] not in allowed:
            message = "--gpus {}: GPU {} is not among those that the caller may use, {}; choose among those"
            names = ",".join(str(gpu.index) for gpu in allowed) or "none"
            raise LaunchError(message.format(option, number, names))
    return [gpus[number] for number in numbers]


def _number_of(option: str, word: str, gpus: "List[Gpu]") -> int:
    """The index of the GPU that one word of --gpus names."""
    if is_digits(word, MOST_DIGITS):
        return int(word)
    matches = _mig_parents(word, gpus) if word.startswith("MIG-") else _named(word, gpus)
    if len(matches) != 1:
        message = "--gpus {}: {} names {} of this host's GPUs, expected one; nvidia-smi -L lists them"
        raise LaunchError(message.format(option, word, len(matches) or "none"))
    return matches[0].index


def _listed_gpus(decision: "Decision", value: str, gpus: "List[Gpu]") -> "List[Gpu]":
    """The GPUs of CUDA_VISIBLE_DEVICES; as in CUDA, the first word that names no GPU ends the list."""
    found = []
    for word in [word.strip() for word in value.split(",")]:
        slice_of_gpu = word.startswith("MIG-")
        matches = _mig_parents(word, gpus) if slice_of_gpu else _named(word, gpus)
        # Two slices of one GPU are two devices, the same GPU twice is an error in CUDA.
        if len(matches) != 1 or (matches[0] in found and not slice_of_gpu):
            if gpus and word not in ("", "-1"):
                warning = "CUDA_VISIBLE_DEVICES={}: {!r} names no GPU that gpu-run can find; what follows it is ignored"
                decision.warnings.append(warning.format(value, word))
            break
        found.append(matches[0])
    return found


def _named(word: str, gpus: "List[Gpu]") -> "List[Gpu]":
    by_uuid = [gpu for gpu in gpus if word.startswith("GPU-") and gpu.uuid.startswith(word)]
    return [gpu for gpu in gpus if word == str(gpu.index)] + by_uuid


def _mig_parents(word: str, gpus: "List[Gpu]") -> "List[Gpu]":
    """The GPU of which a MIG device is a slice, in a list: MIG-GPU-<uuid of the GPU>/gi/ci or MIG-<uuid of its own>."""
    if word.startswith("MIG-GPU-"):
        return [gpu for gpu in gpus if gpu.uuid and gpu.uuid == word[4:].split("/")[0]]
    if len(gpus) < 2:
        return gpus
    # Only the driver knows the newer names; it is asked only if they are used.
    from ..host.bounded import run_bounded

    parent = ""
    for line in run_bounded(["nvidia-smi", "-L"], NVIDIA_SMI_SECONDS).stdout.splitlines():
        uuid = line.partition("(UUID: ")[2].rstrip(") ")
        if uuid.startswith("GPU-"):
            parent = uuid
        elif uuid == word:
            return [gpu for gpu in gpus if gpu.uuid == parent]
    return []


def _granted(environ: "Mapping[str, str]", gpus: "List[Gpu]") -> "List[Gpu]":
    """The GPUs that Slurm granted to the step or job, [] if it named none or one that is not here."""
    numbers = slurm_minors(environ)
    by_minor = {gpu.minor: gpu for gpu in gpus}
    return [by_minor[number] for number in numbers] if numbers and set(numbers) <= set(by_minor) else []


def slurm_minors(environ: "Mapping[str, str]") -> "List[int]":
    """Numbers N of the devices /dev/nvidiaN that Slurm granted; [] if it named none."""
    text = next((environ[name] for name in SLURM_GPUS if environ.get(name)), "")
    words = [word.strip() for word in text.split(",")]
    return [int(word) for word in words] if text and all(is_digits(word, MOST_DIGITS) for word in words) else []


def place_ranks(
    decision: "Decision", visible: "List[Gpu]", rank: "Optional[Rank]", nodes: "Dict[str, int]", root: str
) -> "Tuple[List[List[Gpu]], List[int]]":
    """(units, mine): the GPUs of every unit that shares this host, and the indices of this process's units.

    A unit is a rank; if Slurm gives every rank its own GPUs and hides the others, a unit is a GPU. If the number of
    ranks is not known, this one is the only unit. `nodes` as for choose_visible_gpus.
    """
    if rank is None:
        return _tell_gpus(decision, visible, "all GPUs that the command sees", [visible], [0])
    if rank.count is None:
        counts = dict(RANK_VARIABLES).get(rank.variable, (SLURM_COUNT,))
        decision.warnings.append(NO_COUNT.format(rank.variable, rank.index, counts[0]))
        own = visible[rank.index % len(visible) :][:1] if visible else []
        return _tell_gpus(decision, own, f"{rank.variable}={rank.index} of an unknown number", [own], [0])
    if not visible:
        return _tell_gpus(decision, [], "", [[]] * rank.count, [rank.index])
    handed = _handed_out(decision.environment, visible, rank, nodes, root)
    if handed:
        why = f"handed to this rank by Slurm, {len(visible)} of {len(handed)}"
        ours = {gpu.pci_id for gpu in visible}
        mine = [index for index, gpu in enumerate(handed) if gpu.pci_id in ours]
        return _tell_gpus(decision, visible, why, [[gpu] for gpu in handed], mine)
    # A nested launcher counts its own ranks, and their numbers refer to the GPUs that they see.
    each = rank.each or rank.count
    units = [[visible[index % each % len(visible)]] for index in range(rank.count)]
    own = units[rank.index]
    if 1 < len(visible) < each:
        message = "{} ranks for {} GPUs: taken in turn, rank {} has GPU {}"
        decision.warnings.append(message.format(each, len(visible), rank.index % each, own[0].index))
    nested = f", and {rank.count} with those of the launcher around it" if rank.count != each else ""
    why = f"{rank.variable}={rank.index % each} of {each}{nested}"
    return _tell_gpus(decision, own, why, units, [rank.index])


def _tell_gpus(
    decision: "Decision", gpus: "List[Gpu]", why: str, units: "List[List[Gpu]]", mine: "List[int]"
) -> "Tuple[List[List[Gpu]], List[int]]":
    decision.gpus = gpus
    names = ", ".join(f"{gpu.index} ({gpu.pci_id})" for gpu in gpus)
    decision.note("GPUs", names or "none", why if names else "no NVIDIA GPU is visible")
    return units, mine


def _handed_out(
    environ: "Mapping[str, str]", visible: "List[Gpu]", rank: "Rank", nodes: "Dict[str, int]", root: str
) -> "List[Gpu]":
    """All GPUs of the step if each of its ranks was given an equal part of them, else []."""
    minors = slurm_minors(environ) if rank.variable == SLURM_RANK else []
    if not minors or len(minors) != (rank.count or 0) * len(visible):
        return []
    by_minor = {gpu.minor: gpu for gpu in _corrected(find_all_gpus(root), nodes, root)}
    handed = [by_minor[minor] for minor in minors if minor in by_minor]
    ours = {gpu.pci_id for gpu in visible} <= {gpu.pci_id for gpu in handed}
    return handed if ours and len(handed) == len(minors) else []
