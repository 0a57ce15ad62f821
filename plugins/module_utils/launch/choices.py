# SPDX-License-Identifier: Apache-2.0
"""All choices of gpu-run: options, environment, allowed CPUs and the machine's topology give a `Decision`.

Nothing here changes the process. Order of precedence: an option, then the caller's environment, then the host's policy
/etc/gpuwright/runtime.json, then the defaults.
"""

from ..host.files import to_int
from .calibration.chosen import UNSET
from .cpu_choice import choose_cpus, keep_cores, nodes_for_bind
from .decision import Decision
from .gpu_choice import choose_visible_gpus, place_ranks
from .network import check_interface, choose_cards
from .placement import choose_placement
from .ranks import find_rank, is_launcher, is_script
from .settings import choose_allocator, choose_cuda_allocator, choose_memory
from .threads import choose_threads

# Importing typing would take a third of gpu-run's start time: its names are only for the type checker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import AbstractSet, Any, Dict, Mapping, Optional, Sequence

    from .cpu_share import Share
    from .options import Options
    from .placement import Placement
    from .ranks import Launcher, Rank

# libgomp binds the main thread to one core at `import torch`, and every DataLoader worker inherits that core.
PINNING_VARIABLES = ("GOMP_CPU_AFFINITY", "OMP_PROC_BIND")

MAY_START_RANKS = (
    "{} may start ranks whose number is not known, so OMP_NUM_THREADS is left to them; put gpu-run before each rank, "
    "or set it with --threads"
)
FEWER_CPUS = (
    "SLURM_CPUS_PER_TASK={}, but this process may use {} CPU(s): from Slurm 22.05 on srun has to be told, too, by "
    "--cpus-per-task or SRUN_CPUS_PER_TASK"
)


def decide(
    options: "Options",
    command: "Sequence[str]",
    environ: "Mapping[str, str]",
    allowed_cpus: "AbstractSet[int]",
    policy: "Dict[str, Any]",
    root: str = "/",
    launcher: "Optional[Launcher]" = None,
    rank: "Optional[Rank]" = None,
    placement: "Optional[Placement]" = None,
) -> Decision:
    """The `Decision` for `options` (gpus, node, numa, memory, threads, allocator), the command's words, the caller's
    `environ`, the CPUs that it may use, the `ranks.Launcher` of this rank, if there is one, and the rank itself, if it
    was determined from more than the environment. A `placement` takes precedence over all other settings for one.

    Raises LaunchError, one sentence, for an option, variable or library that cannot be honoured.
    """
    decision = Decision(environ)
    rank = rank or find_rank(environ)
    starts_ranks = rank is None and is_launcher(command)
    visible = choose_visible_gpus(decision, options.gpus, policy["gpu_nodes"], root)
    units, mine = place_ranks(decision, visible, rank, policy["gpu_nodes"], root)
    if placement is None:
        placement = choose_placement(decision, options, command, policy, rank, starts_ranks, root)
    share, nodes = choose_cpus(
        decision, options.node, placement.numa, units, mine, set(allowed_cpus), rank, launcher, root
    )
    keep_cores(decision, share, set(allowed_cpus), rank, options, root)
    share = share.changed(cpus=decision.cpus)
    if starts_ranks and options.memory is None:
        decision.note("memory policy", "unchanged", "the command starts the ranks; put gpu-run before each of them too")
    else:
        nodes = nodes_for_bind(nodes, share, placement.numa, root) if placement.memory == "bind" else nodes
        choose_memory(decision, nodes, placement.memory, root)
    _choose_threads(decision, options, command, policy, placement, share, len(visible), rank, launcher, root)
    choose_allocator(decision, options.allocator, policy, root)
    if decision.gpus:
        choose_cuda_allocator(decision, policy["cuda_alloc_conf"])
    if rank is not None or starts_ranks or len(decision.gpus) > 1:
        for name, value in sorted(policy["nccl"].items()):
            decision.set_variable(name, value, "policy, for several ranks")
        check_interface(decision, root)
    choose_cards(decision, options.nic, root)
    for name in PINNING_VARIABLES:
        if environ.get(name, "").lower() not in ("", "false"):
            warning = "{}={} ties every DataLoader worker to one core; unset it, gpu-run binds to a set of CPUs"
            decision.warnings.append(warning.format(name, environ[name]))
    asked = to_int(environ.get("SLURM_CPUS_PER_TASK"))
    if asked and asked > len(allowed_cpus):
        decision.warnings.append(FEWER_CPUS.format(asked, len(allowed_cpus)))
    return decision


def _choose_threads(
    decision: Decision,
    options: "Options",
    command: "Sequence[str]",
    policy: "Dict[str, Any]",
    placement: "Placement",
    share: "Share",
    visible: int,
    rank: "Optional[Rank]",
    launcher: "Optional[Launcher]",
    root: str,
) -> None:
    """OMP_NUM_THREADS, except for ranks that the command itself starts or whose number is not known."""
    left = ""
    if options.threads is None and rank is None and is_launcher(command):
        left = "left to the ranks"
    elif options.threads is None and rank is None and visible > 1 and is_script(command):
        left = "left to what the script starts"
        decision.warnings.append(MAY_START_RANKS.format(command[0]))
    elif options.threads is None and not policy["omp_num_threads"] and rank is not None and rank.count is None:
        left = "it is not known how many ranks there are"
    elif options.threads is None and not policy["omp_num_threads"] and placement.threads == UNSET:
        left = "as it was fastest in the calibration"
    if left:
        decision.note("OMP_NUM_THREADS", decision.environment.get("OMP_NUM_THREADS", "unset"), left)
    else:
        choose_threads(decision, options.threads, policy, share, rank, launcher, root)
