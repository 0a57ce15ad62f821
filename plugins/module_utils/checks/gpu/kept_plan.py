# SPDX-License-Identifier: Apache-2.0
"""Which plan a node is held to: one that was made while all of its GPUs were there.

A plan that was made while a GPU was missing says nothing of the node that was bought. Written over the good one it
would keep the node failing after the GPU is back.
"""

from typing import Any, Dict, List, NamedTuple, Optional

from ...verdict.expectations import parse_expectations

# How many GPUs the plan was made for; a record of an older release has none.
PLAN_GPUS = "plan_gpus"


class Held(NamedTuple):
    """The expectations to hold the node against; `because` says why an older plan is kept, "" when it is this run's."""

    expectations: Dict
    because: str


def made_for(record: Dict) -> int:
    """For how many GPUs the plan of these expectations was made; an older record tells by whether it has a driver."""
    number = record.get(PLAN_GPUS)
    if isinstance(number, int) and not isinstance(number, bool):
        return number
    return int(record["gpu_count"]) if record["plan"]["driver"].get("branch") else 0


def hold(wanted: Dict, recorded: Any, gpus: Optional[List]) -> Held:
    """The expectations of this run.

    wanted    from the inventory, with the plan of this run
    recorded  what the node is held to until now, None where there is nothing that can be read
    gpus      the GPUs that this run's plan was made for, None when nobody knows

    The inventory's own values always count. Its plan counts when it was made for as many GPUs as the inventory expects;
    else the recorded plan stays, if that one was. ValueError for expectations that are none.
    """
    parsed = parse_expectations(wanted)
    found = len(gpus) if isinstance(gpus, list) else 0
    new = dict(parsed, **{PLAN_GPUS: found})
    if found >= parsed["gpu_count"] and isinstance(gpus, list):
        return Held(new, "")
    try:
        before = parse_expectations(recorded)
    except ValueError:
        return Held(new, "")
    if made_for(before) < parsed["gpu_count"]:
        return Held(new, "")
    words = "{} of {} GPUs are on the PCI bus, so the node is still compared with the plan that was made for {}".format(
        found, parsed["gpu_count"], made_for(before)
    )
    return Held(dict(parsed, plan=before["plan"], **{PLAN_GPUS: made_for(before)}), words)
