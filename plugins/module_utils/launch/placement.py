# SPDX-License-Identifier: Apache-2.0
"""Where a process may run and take memory from: by an option, the calibration of its command, or the policy."""

from ..host.named_tuple import Record
from .calibration.chosen import CORES, calibrated_placement
from .cpu_share import NODE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Sequence

    from .decision import Decision
    from .options import Options
    from .ranks import Rank

CALIBRATED = "calibrated"


class Placement(Record):
    """How a process is placed.

    numa     one of cpu_share's modes: node, socket, none
    memory   "preferred", "bind" or "none"
    threads  "cores": as many OpenMP threads as physical cores, unless another number is set; "unset": left alone
    """

    __slots__ = ("numa", "memory", "threads")
    numa: str
    memory: str
    threads: str


def choose_placement(
    decision: "Decision",
    options: "Options",
    command: "Sequence[str]",
    policy: "Dict[str, Any]",
    rank: "Optional[Rank]",
    starts_ranks: bool,
    root: str,
) -> Placement:
    """The `Placement` of this process; a calibration is made for, and applies to, a process that starts no ranks."""
    memory = options.memory or policy["memory_policy"]
    if options.numa is not None:
        return Placement(options.numa, memory, CORES)
    if policy["numa"] != CALIBRATED:
        return Placement(policy["numa"], memory, CORES)
    if rank is None and not starts_ranks and command and options.node is None:
        found, problem = calibrated_placement(command, root)
        if problem and problem not in decision.warnings:
            decision.warnings.append(problem)
        if found is not None:
            decision.note("placement", found["arm"], found["why"])
            return Placement(found["numa"], options.memory or found["memory"], found["threads"])
    return Placement(NODE, memory, CORES)
