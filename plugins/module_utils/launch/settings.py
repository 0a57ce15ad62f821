# SPDX-License-Identifier: Apache-2.0
"""Settings that follow from a process's CPUs and nodes: memory policy, allocator, CUDA's allocator.

Every function takes a `decision.Decision` and records in it what it chose and why.
"""

from ..host.topology import format_cpu_list, memory_nodes
from .calibration.chosen import calibrated_arm
from .decision import BY_CALLER

# Importing typing would take a third of gpu-run's start time: its names are only for the type checker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

    from .decision import Decision

# Never bound unless asked: the kernel kills a process that fills its node, however much is free on the others.
WHY = {
    "preferred": "from there while there is room, then from the other nodes",
    "bind": "as asked: from there only, and killed when that is full",
}


def choose_memory(decision: "Decision", nodes: "List[int]", mode: str, root: str) -> None:
    """Choose the NUMA nodes from which memory should come."""
    present = memory_nodes(root)
    without_memory = set() if present is None else set(nodes) - present
    if mode == "none":
        why = "switched off"
    elif not nodes:
        why = "nothing is bound to a NUMA node"
    elif present is not None and len(present) < 2:
        why = "there is one memory node"
    elif without_memory:
        why = f"NUMA node {format_cpu_list(without_memory)} has no memory that the caller may use"
    elif mode != "bind" and len(nodes) > 1:
        why = "the GPUs lie on several nodes: memory comes from the node of the CPU that asks"
    else:
        decision.memory_policy, decision.memory_nodes = mode, nodes
        decision.note("memory policy", f"{mode} {format_cpu_list(nodes)}", WHY[mode])
        return
    decision.note("memory policy", "unchanged", why)


def choose_allocator(decision: "Decision", option: "Optional[str]", policy: "Dict[str, Any]", root: str) -> None:
    """Preload the allocator's library after checking the file; a library that the caller preloads stays."""
    name, source = (option, "option --allocator") if option else (policy["allocator"], "policy")
    conf = policy["malloc_conf"]
    if name == "calibrated":
        arm = calibrated_arm(root)
        name, conf, source = arm.allocator, arm.malloc_conf, arm.why
        decision.warnings += [arm.problem] if arm.problem else []
    preloaded = decision.environment.get("LD_PRELOAD", "")
    if not preloaded and name == "none":
        decision.note("allocator", "malloc", source)
        return
    # Imported here, since most starts preload nothing.
    from .preload import check_callers_preload, find_library

    check_callers_preload(decision, preloaded, root)
    if preloaded and not option:
        decision.note("allocator", "the caller's", "LD_PRELOAD is " + BY_CALLER + ", so none is added")
        decision.note("LD_PRELOAD", preloaded, BY_CALLER)
        return
    if name == "none":
        decision.note("allocator", "malloc", source)
        decision.note("LD_PRELOAD", preloaded, BY_CALLER)
        return
    library = decision.allocator = find_library(name, policy, root)
    if library not in preloaded.split(":"):
        preloaded = library + (":" + preloaded if preloaded else "")
    decision.note("allocator", name, source)
    decision.set_variable("LD_PRELOAD", preloaded, "the library of " + name, even_if_set=True)
    if name == "jemalloc" and conf:
        decision.set_variable("MALLOC_CONF", conf, "for jemalloc")


def choose_cuda_allocator(decision: "Decision", value: str) -> None:
    """Set both names: torch before 2.9 knows only the old one, and 2.9.1 ignores expandable_segments under the new one.

    If the caller has set either, the other stays unset: two values could contradict each other.
    """
    names = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    given = [name for name in names if name in decision.environment]
    for name in given or (names if value else ()):
        decision.set_variable(name, value, "policy: fewer fragments in GPU memory")
