# SPDX-License-Identifier: Apache-2.0
"""Whether the next batch may begin, judged from the record alone.

Ansible does not stop for a host that cannot be reached: max_fail_percentage and any_errors_fatal do not count it. In
the record, a host that was begun and is not done or skipped counts as bad, whatever became of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

PENDING, BEGUN, WAITING = "pending", "begun", "waiting"
DONE, SKIPPED, FAILED, LOST = "done", "skipped", "failed", "lost"
# It did not come through and is as it was before, verified: an upgrade that was taken back.
RETURNED = "returned"
BAD = (BEGUN, FAILED, LOST, RETURNED)
Hosts = Mapping[str, Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Decision:
    """`go` are the hosts that may begin; `stop` says why the rollout ends here, "" if it goes on."""

    go: tuple[str, ...] = ()
    stop: str = ""


def decide(record: Mapping[str, Any], batch: Sequence[str]) -> Decision:
    """For a batch that is about to begin; `record` as in state_file.py."""
    hosts, start, rules = record["hosts"], record["starts"], record["rules"]
    stop = broken(hosts, start, rules)
    if stop:
        return Decision(stop=stop)
    down = [name for name, host in hosts.items() if host["state"] in BAD and name not in batch]
    room = rules["down_at_once"] - len(down) if rules["down_at_once"] else len(batch)
    if room < 1:
        return Decision(
            stop=f"{len(down)} hosts are down ({some(down)}), and gpuwright_down_at_once allows "
            f"{rules['down_at_once']}: repair them first, or allow more [rollout.down]"
        )
    if (
        rules.get("canaries", True)
        and not record["kept"]
        and not any(host["state"] == DONE for host in of_start(hosts, start).values())
    ):
        # All canaries were skipped: nobody has proven anything, so no more hosts begin than a first batch has.
        room = min(room, len(record["batches"][0]))
    return Decision(go=tuple(batch[:room]))


def broken(hosts: Hosts, start: int, rules: Mapping[str, Any]) -> str:
    """Why no further batch may begin: a canary that is not done, or too many hosts that are not; else ""."""
    percent = rules["breaker_percent"]
    canary = bad_canaries(hosts, start) if rules.get("canaries", True) else []
    if canary:
        return f"{some(canary)} of the first batch did not come through, so no other host begins [rollout.canary]"
    tried, bad = counted(hosts, start)
    if bad * 100 > percent * tried:
        return (
            f"{bad} of {tried} hosts tried did not come through, more than the {percent} % that "
            "gpuwright_breaker_percent allows, so no other host begins [rollout.breaker]"
        )
    return ""


def bad_canaries(hosts: Hosts, start: int) -> list[str]:
    """Hosts of this start's first batch that was tried at all, if they are not done: skipped hosts prove nothing."""
    tried = {name: host for name, host in of_start(hosts, start).items() if host["state"] in (*BAD, DONE)}
    first = min((host["batch"] for host in tried.values()), default=0)
    return [name for name, host in tried.items() if host["batch"] == first and host["state"] in BAD]


def counted(hosts: Hosts, start: int) -> tuple[int, int]:
    """(tried, bad) of the rollout, without what failed in earlier starts: that was repaired or set aside since."""
    bad = sum(host["state"] in BAD for host in of_start(hosts, start).values())
    return bad + sum(host["state"] == DONE for host in hosts.values()), bad


def of_start(hosts: Hosts, start: int) -> dict[str, Mapping[str, Any]]:
    """The hosts that this start of the rollout has selected."""
    return {name: host for name, host in hosts.items() if host["start"] == start}


def some(names: Sequence[str]) -> str:
    """Three of the names, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
