# SPDX-License-Identifier: Apache-2.0
"""What a plan must know of one host, and the plan as the result of a task."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Mapping
from typing import Any

import yaml
from ansible.plugins.loader import lookup_loader

from . import package_lock
from .bundle.signature import signature_problem
from .plan.asked import Asked
from .plan.clash import conflict_message
from .plan.matrix import CARDS, SHIPPED, read_matrix
from .plan.reasons import age_warnings
from .plan.renewal.knowledge import with_knowledge
from .plan.solve import one_way_out, solve
from .role_options import value_of

# Strategies load an action, and this file with it, in the main process before they fork a worker for each host, so what
# is parsed here is parsed once in a run. Errors in the files are reported by the task, which reads them again.
with contextlib.suppress(OSError, ValueError, yaml.YAMLError):
    read_matrix(SHIPPED, without=[CARDS])


def asked(variables: Mapping[str, Any], templar: Any, loader: Any) -> Asked:
    """Of the host with these variables; templar and loader are those of the lookup or action."""
    files = lookup_loader.get("file", loader=loader, templar=templar)
    known = dict(variables)
    return Asked(
        lambda name: value_of(name, variables, templar),
        lambda path: files.run([path], known)[0],
        package_lock.lock_of,
        variables,
    )


def planned(
    matrix: dict[str, Any] | str,
    host: dict[str, Any],
    pins: dict[str, str],
    locks: list[str] | None,
    knowledge: str = "",
    knowledge_signer: str = "",
) -> dict[str, Any]:
    """The result of the task: the plan as a fact, or `failed` with the clash.

    matrix     its content, or the folder of its files
    knowledge  a file or folder with newer tables than its own, "" for none
    """
    try:
        matrix = matrix if isinstance(matrix, dict) else read_matrix(matrix, without=[CARDS])
    except (OSError, ValueError, yaml.YAMLError) as error:
        return {"failed": True, "msg": f"The matrix of versions cannot be read: {error} [plan.matrix]"}
    if locks is not None:
        matrix = {**matrix, "locks": locks}
    today = host.get("today") or datetime.date.today().isoformat()
    matrix, words = with_knowledge(matrix, knowledge, knowledge_signer, today, signature_problem)
    try:
        plan = solve(matrix, host, pins)
    except KeyError as error:
        missing = f"{error} is missing in host or matrix. Expected: what gpu_probe returns, and the matrix."
        return {"failed": True, "msg": missing}
    if "conflicts" in plan:
        conflicts = plan["conflicts"]
        together = one_way_out(matrix, host, pins, conflicts)
        return {
            "failed": True,
            "msg": conflict_message(host, conflicts, together, words + age_warnings(matrix, today)),
            "conflicts": conflicts,
        }
    plan["warnings"] = words + plan["warnings"]
    return {"changed": False, "ansible_facts": {"gpu_node_plan": plan}}
