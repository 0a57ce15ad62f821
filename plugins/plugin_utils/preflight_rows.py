# SPDX-License-Identifier: Apache-2.0
"""Rows of preflight's table for what the steps of `host_plan` found: what is wrong, what was seen, what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.preflight.host_checks import hardware_problems

from . import operator_run
from .failures.contact import contact_failure
from .failures.reach import reach_failure
from .started import told

Row = dict[str, Any]


def told_rows(host: str, rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The rows with their host, the ids of their faults, and commands as this run was started."""
    return [{"host": host, **with_id(row), "next": told(row["next"])} for row in rows]


def with_id(row: Mapping[str, Any]) -> Row:
    """The row with its fault's id (docs/faults.md) in brackets behind the problem, as all messages have theirs."""
    fault = row.get("id")
    found = {name: value for name, value in row.items() if name != "id"}
    if fault:
        found["problem"] = f"{row['problem']} [{fault}]"
    if fault and row.get("common"):
        found["common"] = {**row["common"], "problem": f"{row['common']['problem']} [{fault}]"}
    return found


def variable_rows(lines: Iterable[str]) -> list[Row]:
    """Of messages about variables, which have their ids already."""
    step = "Correct the variable in the inventory or on the command line."
    return [stopping_row("", line, "inventory", step) for line in lines]


def unreached_row(message: str, host: str, variables: Mapping[str, Any]) -> Row:
    """Of a host that ssh, or what else the connection is, did not reach."""
    return {**reach_failure(_short(message), host, variables), "stops": True}


def contact_row(answer: Mapping[str, Any], variables: Mapping[str, Any]) -> Row:
    """Of a host that was reached, where the first module failed."""
    return {**contact_failure(answer, variables), "stops": True}


def plan_rows(answer: Mapping[str, Any]) -> list[Row]:
    """Of a plan that could not be made: its conflicts, or the message of `gpu_plan`."""
    rows = []
    for conflict in answer.get("conflicts", []):
        ways = [", ".join(f'{pin}: "{value}"' for pin, value in choice.items()) for choice in conflict["variables"]]
        step = "Set one of: " + "; or ".join(ways) if ways else "No change of one pin helps; see docs/compatibility.md."
        fault, step = conflict.get("id", "plan.conflict"), conflict.get("next", step)
        rows.append(stopping_row(fault, conflict["what"], " + ".join(conflict["clash"]) or "inventory", step))
    if answer.get("msg") and not rows:
        step = "This is a fault of the matrix or the probe; report it."
        rows.append(stopping_row("plan.failed", "No plan could be made", _short(answer["msg"]), step))
    return rows


def hardware_rows(gpus: list[Mapping[str, Any]], count: Any, model: str) -> list[Row]:
    """Remarks on cards that are not those of the inventory (`count` None or "": it says none).

    What a verification makes of them is its own affair.
    """
    expected = None if count in ("", None) else int(count)
    wishes = {"gpu_count": expected, "gpu_model": model, "allow_missing_gpus": True}
    return [{**row, "stops": False} for row in hardware_problems(gpus, wishes)]


def lock_rows(lock: Mapping[str, Any]) -> list[Row]:
    """A remark if another run is changing the host, by the record that the probe read; the lock is taken later."""
    holder = lock.get("holder")
    if holder and holder["run"] != operator_run.claim()["run"] and operator_run.state_of(holder) != operator_run.GONE:
        problem = f"It is being changed by {operator_run.holder_words(holder)}, so what is read meanwhile may change"
    elif lock.get("damaged"):
        problem = "It is not known whether another run is changing it"
    else:
        return []
    step = "Wait until that run has ended: a run that changes something leaves this host out until then."
    return [{**stopping_row("operator.busy", problem, str(lock.get("damaged") or ""), step), "stops": False}]


def stopping_row(fault: str, problem: str, evidence: str, step: str) -> Row:
    return {"id": fault, "problem": problem, "evidence": evidence, "next": step, "stops": True}


def _short(message: Any) -> str:
    return re.sub(r"\s+", " ", str(message)).strip()[:600]
