# SPDX-License-Identifier: Apache-2.0
"""Collect what preflight found on every host, and write it as one table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.gpuwright.node.plugins.filter.contact_failure import contact_failure
from ansible_collections.gpuwright.node.plugins.filter.package_failure import package_failure
from ansible_collections.gpuwright.node.plugins.filter.reach_failure import reach_failure
from ansible_collections.gpuwright.node.plugins.plugin_utils import operator_run
from ansible_collections.gpuwright.node.plugins.plugin_utils.started import told

TASK_RESULTS = (
    "__preflight_variables",
    "__preflight_contact",
    "__preflight_probe",
    "__preflight_answer",
    "__preflight_lists",
    "__preflight_rehearsal",
    "__preflight_checks",
    "__preflight_bundle",
    "__preflight_bundle_part",
)


def preflight_problems(hosts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows C(host, problem, evidence, next, stops, kind) from these hosts' variables (hostvars), host by host.

    kind  unreachable, busy, or refused; a row without a kind is refused
    """
    found = []
    for variables in hosts:
        results = {name: variables.get(name) or {} for name in TASK_RESULTS}
        rows = _rows(results, variables)
        name = variables["inventory_hostname"]
        found += [{"host": name, **with_id(row), "next": told(row["next"])} for row in rows]
    return found


def with_id(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its fault's id (docs/faults.md) in brackets behind the problem, as all messages have theirs."""
    fault = row.get("id")
    found = {name: value for name, value in row.items() if name != "id"}
    if fault:
        found["problem"] = f"{row['problem']} [{fault}]"
    if fault and row.get("common"):
        found["common"] = {**row["common"], "problem": f"{row['common']['problem']} [{fault}]"}
    return found


def _rows(results: Mapping[str, Any], variables: Mapping[str, Any]) -> list[dict[str, Any]]:
    said = results["__preflight_variables"]
    rows = [
        _row("", line, "inventory", "Correct the variable in the inventory or on the command line.")
        for line in str(said.get("msg", "")).splitlines()
        if said.get("evaluated_to") is False and line
    ]
    probe = results["__preflight_probe"]
    if probe.get("unreachable"):
        rows.append({**reach_failure(_message(probe), variables["inventory_hostname"], variables), "stops": True})
    elif probe and not probe.get("skipped") and "gpu_node" not in probe.get("ansible_facts", {}):
        rows.append({**contact_failure(probe, variables), "stops": True})
    elif results["__preflight_contact"].get("failed"):
        rows.append({**contact_failure(results["__preflight_contact"], variables), "stops": True})
    answer = results["__preflight_answer"]
    for conflict in answer.get("conflicts", []):
        ways = [", ".join(f'{pin}: "{value}"' for pin, value in choice.items()) for choice in conflict["variables"]]
        step = "Set one of: " + "; or ".join(ways) if ways else "No change of one pin helps; see docs/compatibility.md."
        rows.append(_row("plan.conflict", conflict["what"], " + ".join(conflict["clash"]) or "inventory", step))
    if answer.get("msg") and not answer.get("conflicts") and not answer.get("skipped"):
        rows.append(
            _row(
                "plan.failed",
                "No plan could be made",
                _message(answer),
                "This is a fault of the matrix or the probe; report it.",
            )
        )
    # If apt cannot read its lists, that is the problem; what it found in the old ones does not count.
    lists = results["__preflight_lists"]
    rehearsal = lists if lists.get("msg") else results["__preflight_rehearsal"]
    # The task itself never fails: a failure shows in dnf's return code, or in apt giving any message at all.
    by_apt = variables.get("gpu_node", {}).get("os", {}).get("family") == "debian"
    if rehearsal.get("failures") or rehearsal.get("rc", 0) != 0 or (by_apt and rehearsal.get("msg")):
        rows.append(_repository_row(rehearsal, variables["gpu_node"], variables["gpu_node_plan"]))
    kept = ("__preflight_bundle", "__preflight_bundle_part", "__preflight_checks")
    rows += _lock_rows(probe.get("ansible_facts", {}).get("gpu_node", {}).get("lock") or {})
    return rows + [row for name in kept for row in results[name].get("problems", [])]


def _lock_rows(lock: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A remark if another run is changing the host, by the record that the probe read; the lock is taken later."""
    holder = lock.get("holder")
    if holder and holder["run"] != operator_run.claim()["run"] and operator_run.state_of(holder) != operator_run.GONE:
        problem = f"It is being changed by {operator_run.holder_words(holder)}, so what is read meanwhile may change"
    elif lock.get("damaged"):
        problem = "It is not known whether another run is changing it"
    else:
        return []
    step = "Wait until that run has ended: a run that changes something leaves this host out until then."
    return [{**_row("operator.busy", problem, str(lock.get("damaged") or ""), step), "stops": False}]


def _repository_row(rehearsal: Mapping[str, Any], node: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    """Headers, compiler and Python come from the distribution: name its repositories that have them."""
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
    return _row("packages.unavailable", problem, f"a dry run of `{manager} install {' '.join(names)}`", step)


def repository_step(os_id: str, repositories: Mapping[str, Mapping[str, str]]) -> str:
    """How to enable the repositories of a distribution; packages of EPEL may need CodeReady Builder."""
    by_way = {way: [str(row[way]) for row in repositories.values()] for way in ("subscription", "rhui", "rebuild")}
    if os_id != "rhel":
        return f"Enable them: `dnf config-manager --set-enabled {' '.join(by_way['rebuild'])}`."
    enable = " ".join(f"--enable={name}" for name in by_way["subscription"])
    cloud = " ".join(by_way["rhui"])
    return (
        f"Enable them: `subscription-manager repos {enable}`; on a cloud image (RHUI): "
        f"`dnf config-manager --set-enabled {cloud}`."
    )


def _row(fault: str, problem: str, evidence: str, step: str) -> dict[str, Any]:
    return {"id": fault, "problem": problem, "evidence": evidence, "next": step, "stops": True}


def _message(result: Mapping[str, Any]) -> str:
    return re.sub(r"\s+", " ", str(result.get("msg", ""))).strip()[:600]


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


def common_problems(results: Iterable[Mapping[str, Any]]) -> list[str]:
    """What is wrong with the variables of every host, from the results of the first check of all hosts of the run."""
    of_hosts = [
        [line for line in str(result.get("msg", "")).splitlines() if line]
        if result.get("evaluated_to") is False
        else []
        for result in results
    ]
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


class FilterModule:
    """Filters of the role preflight."""

    def filters(self) -> dict[str, Any]:
        return {
            "preflight_problems": preflight_problems,
            "preflight_left_out": left_out,
            "common_problems": common_problems,
            "problem_table": problem_table,
        }
