# SPDX-License-Identifier: Apache-2.0
"""Which plan a node is compared with: one that was made while all of its GPUs were present.

A plan that was made while a GPU was missing says nothing about the node that was bought. If it replaced the good one,
the node would still fail after the GPU is back.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ...verdict.expectations import parse_expectations

# How many GPUs the plan was made for; a record of an older release has none.
PLAN_GPUS = "plan_gpus"


class Held(NamedTuple):
    """The expectations for the node; `because` says why an older plan is kept, "" if it is this run's."""

    expectations: Dict
    because: str


def made_for(record: Dict) -> int:
    """For how many GPUs the plan of these expectations was made; in an older record, by whether it has a driver."""
    number = record.get(PLAN_GPUS)
    if isinstance(number, int) and not isinstance(number, bool):
        return number
    return int(record["gpu_count"]) if record["plan"]["driver"].get("branch") else 0


def hold(wanted: Dict, recorded: Any, gpus: Optional[List], kept: Sequence[str] = ()) -> Held:
    """The expectations of this run.

    wanted    from the inventory, with the plan of this run
    recorded  the node's expectations so far, None if there are none that can be read
    gpus      the GPUs that this run's plan was made for, None if not known
    kept      names of expectations that this run cannot know: as they are recorded, where they are

    The inventory's own values always count. Its plan counts if it was made for as many GPUs as the inventory expects;
    otherwise the recorded plan stays, if that one was. ValueError for invalid expectations.
    """
    parsed = parse_expectations(wanted)
    found = len(gpus) if isinstance(gpus, list) else 0
    try:
        before = parse_expectations(recorded)
    except ValueError:
        return Held(dict(parsed, **{PLAN_GPUS: found}), "")
    parsed.update({name: before[name] for name in kept if name in recorded})
    new = dict(parsed, **{PLAN_GPUS: found})
    if found >= parsed["gpu_count"] and isinstance(gpus, list):
        return Held(new, "")
    if made_for(before) < parsed["gpu_count"]:
        return Held(new, "")
    words = "{} of {} GPUs are on the PCI bus, so the node is still compared with the plan that was made for {}".format(
        found, parsed["gpu_count"], made_for(before)
    )
    return Held(dict(parsed, plan=before["plan"], **{PLAN_GPUS: made_for(before)}), words)
