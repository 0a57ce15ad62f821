# SPDX-License-Identifier: Apache-2.0
"""Collect what preflight found on every host, and write it as one table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.gpuwright.node.plugins.plugin_utils.failures.own_repositories import (
    kernel_step,
    repository_step,
)
from ansible_collections.gpuwright.node.plugins.plugin_utils.failures.package_manager import package_failure
from ansible_collections.gpuwright.node.plugins.plugin_utils.host_values import facts_of, needed_fact
from ansible_collections.gpuwright.node.plugins.plugin_utils.preflight_rows import stopping_row, told_rows

# Of the steps that a host has only where it is looked at more closely.
TASK_RESULTS = ("__preflight_lists", "__preflight_rehearsal", "__preflight_checks")
# Causes for which another repository helps.
NOT_THERE = ("packages.unavailable", "packages.unregistered")


def preflight_problems(hosts: Iterable[Mapping[str, Any]], read: bool = True) -> list[dict[str, Any]]:
    """Rows C(host, problem, evidence, next, stops, kind) from these hosts' variables (hostvars), host by host.

    kind  unreachable, busy, or refused; a row without a kind is refused
    read  false leaves out what C(host_plan) has found; otherwise AnsibleError for a host that it did not look at
    """
    found = []
    for variables in hosts:
        results = {name: variables.get(name) or {} for name in TASK_RESULTS}
        rows = needed_fact(variables, "gpu_node_preflight")["rows"] if read else []
        found += told_rows(variables["inventory_hostname"], [*rows, *_rows(results, variables)])
    return found


def _rows(results: Mapping[str, Any], variables: Mapping[str, Any]) -> list[dict[str, Any]]:
    # If apt cannot read its lists, that is the problem; what it found in the old ones does not count.
    # Not that of a source which the run takes over before it installs anything.
    others = results["__preflight_checks"].get("other_sources")
    lists = {} if others else results["__preflight_lists"]
    rehearsal = lists if lists.get("msg") else results["__preflight_rehearsal"]
    # The task itself never fails: a failure shows in dnf's return code, or in apt giving any message at all. What is
    # known of the node comes last: Ansible templates the whole of it for each look.
    failed = rehearsal.get("failures") or rehearsal.get("rc", 0) != 0
    if rehearsal.get("msg") and not failed:
        failed = needed_fact(variables, "gpu_node")["os"]["family"] == "debian"
    facts = facts_of(variables) if failed else {}
    named = results["__preflight_checks"].get("own_repositories") or {}
    rows = [_repository_row(rehearsal, facts["gpu_node"], facts["gpu_node_plan"], named)] if failed else []
    return rows + results["__preflight_checks"].get("problems", [])


def _repository_row(
    rehearsal: Mapping[str, Any], node: Mapping[str, Any], plan: Mapping[str, Any], named: Mapping[str, bool]
) -> dict[str, Any]:
    """Headers, compiler and Python come from the distribution: name its repositories that have them."""
    system = {name: str(node["os"].get(name, "")) for name in ("id", "version")}
    devel = [str(name) for name in plan["kernel"]["devel"]]
    names = [*devel, *plan["kernel"]["packages"], *plan["python"]["packages"]]
    family = str(node["os"].get("family", "redhat"))
    manager = "apt" if family == "debian" else "dnf"
    failure = package_failure(rehearsal, names, family)
    problem, step = failure["text"], ""
    # Enabling more repositories helps only against a package that none of those has.
    absent = failure["id"] in NOT_THERE
    if absent and manager == "dnf":
        step = repository_step(system, plan["repositories"], named)
    missing = [name for name in devel if name in problem]
    if absent and missing:
        kernels = ", ".join(re.sub(r"^.*?-(?=[0-9])", "", name) for name in missing)
        problem += f" The driver cannot be built for kernel {kernels} without {', '.join(missing)}."
        step += kernel_step(system, plan["repositories"], named)
    return stopping_row(failure["id"], problem, f"a dry run of `{manager} install {' '.join(names)}`", step)


def left_out(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """C(preflight_left_out) for a host with these rows that stop it; {} if there are none.

    A host counts as busy or unreachable only if nothing else is wrong with it. The result includes a node's own words,
    so Ansible must never read it as a template.
    """
    if not rows:
        return {}
    kinds = {row.get("kind", "refused") for row in rows}
    problems = [
        {
            **{name: str(row.get(name) or "") for name in ("problem", "evidence", "next")},
            "common": row.get("common", {}),
        }
        for row in rows
    ]
    told = {
        "kind": kinds.pop() if len(kinds) == 1 else "refused",
        "reason": "; ".join(row["problem"].rstrip(".") for row in problems) + ".",
        "next": " ".join(dict.fromkeys(row["next"] for row in problems if row["next"])),
        "problems": problems,
    }
    return wrap_var(told)


def common_problems(hosts: Iterable[Mapping[str, Any]]) -> list[str]:
    """What is wrong with the variables of every host, by what C(host_plan) has found on those that are not left out.

    hosts  their variables (hostvars); AnsibleError for one that C(host_plan) did not look at
    """
    asked = [variables for variables in hosts if "gpu_node_left_out" not in variables]
    of_hosts = [list(needed_fact(variables, "gpu_node_preflight")["variables"]) for variables in asked]
    return [line for line in (of_hosts or [[]])[0] if all(line in lines for lines in of_hosts)]


def problem_table(rows: list[dict[str, Any]]) -> str:
    """The rows as text, with a problem that several hosts share only once; remarks come last."""
    stopping = [row for row in rows if row["stops"]]
    if stopping:
        bad = len({row["host"] for row in stopping})
        title = f"{len(stopping)} problem(s) on {bad} host(s). Nothing was changed."
    else:
        title = f"{len(rows)} remark(s), none of which stops a host."
    lines = [title]
    alike: dict[str, list[str]] = {}
    for host in dict.fromkeys(row["host"] for row in rows):
        own = [{**row, "host": ""} for row in rows if row["host"] == host]
        alike.setdefault(repr(own), []).append(host)
    for hosts in alike.values():
        lines += ["", ", ".join(hosts)]
        own = sorted((row for row in rows if row["host"] == hosts[0]), key=lambda row: not row["stops"])
        for number, row in enumerate(own, 1):
            lines.append(f"  {number}. {'' if row['stops'] else 'remark: '}{row['problem']}")
            lines += [f"     seen: {row['evidence']}"] if row["evidence"] else []
            lines += [f"     next: {row['next']}"] if row["next"] else []
    return "\n".join(lines)
