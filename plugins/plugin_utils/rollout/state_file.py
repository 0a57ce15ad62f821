# SPDX-License-Identifier: Apache-2.0
"""The record of a rollout: one JSON file for each name and inventory, which survives the controller.

It is written whole or not at all. Its keys are described in docs/rollout.md.
"""

from __future__ import annotations

import copy
import datetime
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.written.aside import begin_anew
from ansible_collections.gpuwright.node.plugins.module_utils.host.written.state_file import (
    ANY,
    NAME,
    OTHERS,
    Damaged,
    read_state,
    write_state,
)

from . import judge

SCHEMA = 1
STATES = (
    judge.PENDING,
    judge.BEGUN,
    judge.WAITING,
    judge.DONE,
    judge.SKIPPED,
    judge.FAILED,
    judge.LOST,
    judge.RETURNED,
)
RUN = {"machine": str, "pid": int, "started": str, "controller": str, "who": str, OTHERS: ANY}
HOST = {"state": set(STATES), "batch": int, "start": int, "plan": str, "since": str, "why": str, OTHERS: ANY}
RULES = {"batches": [(int, str)], "down_at_once": int, "breaker_percent": float, "canaries?": bool}
FORM = {
    "schema": {SCHEMA}, "rollout": str, "inventory": [NAME], "starts": int, "kept": int, "run": (RUN, {}), "ended": str,
    "stopped": str, "rules": (RULES, {}), "batches": [[str]], "hosts": {str: HOST}, OTHERS: ANY,
}  # fmt: skip
Record = dict[str, Any]


class RecordError(Exception):
    """The record cannot be read or written; the text says what and what to do."""


def path_of(folder: Path, name: str, inventory: Sequence[str]) -> Path:
    """Two inventories that share a folder of logs do not share a rollout."""
    which = hashlib.sha256("\n".join(sorted(inventory)).encode()).hexdigest()[:8]
    return folder / f"rollout-{name}-{which}.json"


def read(path: Path, begins: bool = False) -> Record | None:
    """The record, None if there is none; RecordError if it is damaged: it is never taken for a new rollout.

    begins   for a start that writes: a damaged record is set aside, so that the next start is a new rollout
    """
    try:
        found: Record | None = read_state(str(path), FORM)
    except Damaged as error:
        if error.place == "schema" or not begins:
            raise RecordError(f"the record of this rollout cannot be read ({error}); {ADVICE}") from error
        raise RecordError(f"{_aside(path, error)}; {NEXT}") from error
    except OSError as error:
        raise RecordError(f"the record of this rollout cannot be read ({error}); {ADVICE}") from error
    return found


def _aside(path: Path, error: Damaged) -> str:
    try:
        return begin_anew(str(path), error, "which hosts are done, failed or lost")
    except OSError as why:
        return f"the record of this rollout is damaged ({error}), and cannot be set aside ({why})"


ADVICE = (
    "look at it, then remove it to begin a new rollout, or name another with -e gpuwright_rollout=NAME [rollout.record]"
)
NEXT = "nothing was begun. Start again for a new rollout of all hosts, or put a mended record back [rollout.record]"


def write(path: Path, record: Record) -> None:
    """Replace the record, on the disk too; RecordError if that fails, and the old one is still there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_state(str(path), record, FORM, 0o600, folder=False)
    except OSError as error:
        raise RecordError(
            f"the record of this rollout, {path}, cannot be written ({error.strerror or error}), so no other host "
            "begins: make the folder writable or name another in GPUWRIGHT_LOG_FOLDER [rollout.record]"
        ) from error


def begun(
    old: Record | None, name: str, inventory: Sequence[str], plans: Mapping[str, str], known: Iterable[str], again: bool
) -> Record:
    """The record as a start begins: its hosts pending, but for those that are done with the same plan.

    plans  digest of the plan of each selected host, in their order      known  all hosts of the inventory's group
    again  whether hosts that are done are done again
    """
    start = (old["starts"] if old else 0) + 1
    there = set(known)
    hosts = {host: copy.copy(row) for host, row in (old["hosts"] if old else {}).items() if host in there}
    kept = [host for host, plan in plans.items() if not again and is_done(hosts.get(host), plan)]
    for host, plan in plans.items():
        if host not in kept:
            hosts[host] = {"state": judge.PENDING, "batch": 0, "start": start, "plan": plan, "since": now(), "why": ""}
    return {
        "schema": SCHEMA, "rollout": name, "inventory": sorted(inventory), "starts": start, "kept": len(kept),
        "run": {}, "ended": "", "stopped": "", "rules": {}, "batches": [], "hosts": hosts,
    }  # fmt: skip


def is_done(host: Mapping[str, Any] | None, plan: str) -> bool:
    return host is not None and host["state"] == judge.DONE and host["plan"] == plan


def with_batches(record: Record, batches: Sequence[Sequence[str]]) -> Record:
    """Batches after those that there are; each host knows its number, which begins with 1."""
    changed = copy.deepcopy(record)
    first = len(changed["batches"]) + 1
    changed["batches"] += [list(batch) for batch in batches]
    for number, batch in enumerate(batches, first):
        for host in batch:
            changed["hosts"][host]["batch"] = number
    return changed


def with_state(record: Record, hosts: Iterable[str], state: str, why: str = "") -> Record:
    """The hosts in that state from now on."""
    changed = copy.deepcopy(record)
    for host in hosts:
        changed["hosts"][host].update(state=state, why=why, since=now())
    return changed


def in_state(record: Record, *states: str) -> list[str]:
    """Hosts that this start has selected."""
    return [name for name, host in judge.of_start(record["hosts"], record["starts"]).items() if host["state"] in states]


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
