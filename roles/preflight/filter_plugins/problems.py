# SPDX-License-Identifier: Apache-2.0
"""Gather what preflight found on every host, and write it as one table."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


# Ansible loads each of these files by its path, so the neighbour is not a module that could be imported by name.
def _neighbour(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"gpuwright_{name}", Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


contact = _neighbour("contact_failure")
package_failure = _neighbour("package_failure").package_failure

TASK_RESULTS = (
    "__preflight_variables",
    "__preflight_probe",
    "__preflight_answer",
    "__preflight_lists",
    "__preflight_rehearsal",
    "__preflight_checks",
)


def preflight_problems(hosts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows C(host, problem, evidence, next, stops) of these hosts' variables (hostvars), host by host."""
    found = []
    for variables in hosts:
        results = {name: variables.get(name) or {} for name in TASK_RESULTS}
        rows = _rows(results, variables)
        found += [{"host": variables["inventory_hostname"], **row} for row in rows]
    return found


def _rows(results: Mapping[str, Any], variables: Mapping[str, Any]) -> list[dict[str, Any]]:
    said = results["__preflight_variables"]
    rows = [
        _row(line, "inventory", "Correct the variable in the inventory or on the command line.")
        for line in str(said.get("msg", "")).splitlines()
        if said.get("evaluated_to") is False and line
    ]
    probe = results["__preflight_probe"]
    if probe.get("unreachable"):
        rows.append({**contact.not_reached(probe), "stops": True})
    elif probe and not probe.get("skipped") and "gpu_node" not in probe.get("ansible_facts", {}):
        rows.append({**contact.contact_failure(probe), "stops": True})
    answer = results["__preflight_answer"]
    for conflict in answer.get("conflicts", []):
        ways = [", ".join(f'{pin}: "{value}"' for pin, value in choice.items()) for choice in conflict["variables"]]
        step = "Set one of: " + "; or ".join(ways) if ways else "No change of one pin helps; see docs/compatibility.md."
        rows.append(_row(conflict["what"], " + ".join(conflict["clash"]) or "inventory", step))
    if answer.get("msg") and not answer.get("conflicts") and not answer.get("skipped"):
        rows.append(
            _row("No plan could be made", _message(answer), "This is a fault of the matrix or the probe; report it.")
        )
    # Where apt cannot read its lists, that is the problem, and what it found in the old ones is none.
    lists = results["__preflight_lists"]
    rehearsal = lists if lists.get("msg") else results["__preflight_rehearsal"]
    # The task never fails for itself: a failure is read from dnf's return code, and from apt's having a message at all.
    by_apt = variables.get("gpu_node", {}).get("os", {}).get("family") == "debian"
    if rehearsal.get("failures") or rehearsal.get("rc", 0) != 0 or (by_apt and rehearsal.get("msg")):
        rows.append(_repository_row(rehearsal, variables["gpu_node"], variables["gpu_node_plan"]))
    return rows + list(results["__preflight_checks"].get("problems", []))


def _repository_row(rehearsal: Mapping[str, Any], node: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    """Headers, compiler and Python come from the distribution: say what it calls the repositories that have them."""
    devel = [str(name) for name in plan["kernel"]["devel"]]
    names = [*devel, *plan["kernel"]["packages"], *plan["python"]["packages"]]
    family = str(node["os"].get("family", "redhat"))
    manager = "apt" if family == "debian" else "dnf"
    problem = package_failure(dict(rehearsal), names, family)
    step = "" if manager == "apt" else repository_step(str(node["os"]["id"]), plan["repositories"])
    missing = [name for name in devel if name in problem]
    if missing:
        kernels = ", ".join(re.sub("^(kernel-devel|linux-headers)-", "", name) for name in missing)
        problem += f" The driver cannot be built for kernel {kernels} without {', '.join(missing)}."
        step += (
            " For an older kernel: (1) enable the repository that still has it (RHEL: the EUS repository of this minor"
            " release, or `subscription-manager release --set`; Rocky, Alma: the vault; Debian: snapshot.debian.org);"
            " (2) set system_kernel_allow_update: true to move this node to the newest kernel (one more reboot)."
        )
    return _row(problem, f"a rehearsal of `{manager} install {' '.join(names)}`", step)


def repository_step(os_id: str, repositories: Mapping[str, Mapping[str, str]]) -> str:
    """How the repositories of a distribution are switched on; CodeReady Builder is what packages of EPEL may need."""
    by_way = {way: [str(row[way]) for row in repositories.values()] for way in ("subscription", "rhui", "rebuild")}
    if os_id != "rhel":
        return f"Enable them: `dnf config-manager --set-enabled {' '.join(by_way['rebuild'])}`."
    enable = " ".join(f"--enable={name}" for name in by_way["subscription"])
    cloud = " ".join(by_way["rhui"])
    return (
        f"Enable them: `subscription-manager repos {enable}`; on a cloud image (RHUI): "
        f"`dnf config-manager --set-enabled {cloud}`."
    )


def _row(problem: str, evidence: str, step: str) -> dict[str, Any]:
    return {"problem": problem, "evidence": evidence, "next": step, "stops": True}


def _message(result: Mapping[str, Any]) -> str:
    return re.sub(r"\s+", " ", str(result.get("msg", ""))).strip()[:600]


def problem_table(rows: list[dict[str, Any]]) -> str:
    """The rows as text, grouped by host; remarks after what stops the run."""
    stopping = [row for row in rows if row["stops"]]
    hosts = list(dict.fromkeys(row["host"] for row in rows))
    if stopping:
        bad = len({row["host"] for row in stopping})
        title = f"{len(stopping)} problem(s) on {bad} host(s). Nothing was changed."
    else:
        title = f"{len(rows)} remark(s), nothing that stops the run."
    lines = [title]
    for host in hosts:
        lines += ["", host]
        own = sorted((row for row in rows if row["host"] == host), key=lambda row: not row["stops"])
        for number, row in enumerate(own, 1):
            lines.append(f"  {number}. {'' if row['stops'] else 'remark: '}{row['problem']}")
            lines += [f"     seen: {row['evidence']}"] if row["evidence"] else []
            lines += [f"     next: {row['next']}"] if row["next"] else []
    return "\n".join(lines)


class FilterModule:
    """Filters of the role preflight."""

    def filters(self) -> dict[str, Any]:
        return {"preflight_problems": preflight_problems, "problem_table": problem_table}
