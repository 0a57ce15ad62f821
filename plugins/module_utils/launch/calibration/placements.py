# SPDX-License-Identifier: Apache-2.0
"""The placements that `gpu-run --calibrate` compares, and how its child is placed."""

import os
from typing import Callable, Dict, Mapping, Optional, Sequence, Tuple

from ...host.bounded import run_bounded
from ..cpu_share import NODE, NONE, SOCKET
from ..decision import Decision
from ..memory_policy import set_memory_policy
from ..options import Options
from ..placement import CALIBRATED, Placement
from ..ranks import Rank, is_launcher
from .chosen import CORES, UNSET

BARE, AGAIN = "bare", "bare again"
PLACEMENTS = {
    BARE: Placement(NONE, "none", UNSET),
    AGAIN: Placement(NONE, "none", UNSET),
    "threads": Placement(NONE, "none", CORES),
    "node": Placement(NODE, "preferred", CORES),
    "node bind": Placement(NODE, "bind", CORES),
    "socket": Placement(SOCKET, "preferred", CORES),
    "socket bind": Placement(SOCKET, "bind", CORES),
}
TRIAL_SECONDS = 10.0


def why_not_measured(
    options: Options, command: Sequence[str], environ: Mapping[str, str], policy_numa: str, rank: Optional[Rank]
) -> str:
    """Why no placements are compared, "" if they are."""
    if rank is not None or is_launcher(command):
        return "several ranks divide the host, so their placement is not compared"
    for name in ("node", "numa", "memory", "threads"):
        if getattr(options, name) is not None:
            return f"option --{name} sets it"
    if policy_numa != CALIBRATED:
        return f"the policy names {policy_numa}, which takes precedence"
    if environ.get("OMP_NUM_THREADS"):
        return "OMP_NUM_THREADS is set by the caller"
    return ""


def different(decisions: Dict[str, Decision]) -> Tuple[Dict[str, Decision], Dict[str, str]]:
    """(the decisions without those equal to an earlier one, {name: the earlier one's}); the control stays."""
    kept: Dict[str, Decision] = {}
    same: Dict[str, str] = {}
    for name, decision in decisions.items():
        twin = next((other for other in kept if other != AGAIN and _alike(decision, kept[other])), None)
        if twin is None or name == AGAIN:
            kept[name] = decision
        else:
            same[name] = f"is the same here as {twin}"
    return kept, same


def _alike(one: Decision, other: Decision) -> bool:
    return (one.cpus, one.memory_policy, one.memory_nodes, one.environment) == (
        *(other.cpus, other.memory_policy, other.memory_nodes, other.environment),
    )


def placing(decision: Decision, become: Optional[Callable[[], None]]) -> Callable[[], None]:
    """Called in a child before the command starts: sets the CPUs and the memory policy, and gives up root's rights.

    The call raises OSError if the kernel refuses.
    """

    def before() -> None:
        os.sched_setaffinity(0, decision.cpus)
        if decision.memory_policy != "none":
            fault = set_memory_policy(decision.memory_policy, decision.memory_nodes)
            if fault:
                raise OSError(fault)
        if become is not None:
            become()

    return before


def refusal(decision: Decision) -> str:
    """Why the kernel does not allow this placement, "" if it does; tried in a child that ends at once."""
    reading, writing = os.pipe()

    def before() -> None:
        try:
            placing(decision, None)()
        except OSError as error:
            os.write(writing, str(error).encode("utf-8", "replace"))

    try:
        done = run_bounded(["true"], TRIAL_SECONDS, before_start=before)
    finally:
        os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        return pipe.read().decode("utf-8", "replace") or done.problem
