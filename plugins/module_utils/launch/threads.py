# SPDX-License-Identifier: Apache-2.0
"""How many OpenMP threads a process gets."""

from ..host.cgroups import cpu_quota
from ..host.topology import cores_of
from .ranks import is_torchruns_filler

# As in settings: a start does not load typing.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional

    from .cpu_share import Share
    from .decision import Decision
    from .ranks import Launcher, Rank


def choose_threads(
    decision: "Decision",
    option: "Optional[int]",
    policy: "Dict[str, Any]",
    share: "Share",
    rank: "Optional[Rank]",
    launcher: "Optional[Launcher]",
    root: str,
) -> None:
    """OMP_NUM_THREADS: the number asked for, or the physical cores of the CPU set within the cgroup's quota."""
    if option is not None:
        decision.set_variable("OMP_NUM_THREADS", str(option), "option --threads", even_if_set=True)
        return
    filler = is_torchruns_filler(decision.environment, launcher)
    note = "; the 1 that torchrun sets by default is replaced" if filler else ""
    if policy["omp_num_threads"]:
        decision.set_variable("OMP_NUM_THREADS", str(policy["omp_num_threads"]), "policy" + note, even_if_set=filler)
        return
    cores = len(cores_of(share.cpus, root))
    threads, why = max(1, cores // share.sharing), f"{cores} physical core(s)"
    if share.sharing > 1:
        why += f" for {share.sharing} processes"
    quota = cpu_quota(root)
    if quota is not None:
        count = (rank.count if rank else None) or 1
        granted = max(1, int(quota / count))
        if granted < threads:
            threads, why = (
                granted,
                f"the cgroup grants {quota:g} CPU(s) to {count} process(es)",
            )
    decision.set_variable("OMP_NUM_THREADS", str(threads), why + note, even_if_set=filler)
