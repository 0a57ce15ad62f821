# SPDX-License-Identifier: Apache-2.0
"""Reports what stops no host, before anything is changed, such as minor releases or kernels that have drifted apart."""

from __future__ import annotations

DOCUMENTATION = r"""
---
name: preflight_remarks
author: The gpuwright developers (@gpuwright)
version_added: 0.2.0
short_description: Return what was seen on hosts that stops none of them, as rows
description:
  - Goes through the C(hostvars) once, since Ansible puts together anew what is known of a host each time.
positional: releases
options:
  _input:
    description: The C(hostvars) of the hosts.
    type: list
    required: true
    elements: dict
  releases:
    description: Whether hosts whose minor release or kernel has drifted apart from the others' are among it.
    type: bool
    required: true
"""

EXAMPLES = r"""
- ansible.builtin.debug:
    msg: "{{ [hostvars[inventory_hostname]] | gpuwright.node.preflight_remarks(releases=true) }}"
"""

RETURN = r"""
_value:
  description: Rows like those of P(gpuwright.node.preflight_problems#filter).
  type: list
  elements: dict
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpuwright.node.plugins.plugin_utils.host_values import facts_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.preflight_problems import preflight_problems

# 4.18.0-553.el8_10.x86_64 is a kernel of 8.10; kernels of a first minor release may have no number there.
MINOR_OF_KERNEL = re.compile(r"\.el(\d+)_(\d+)(?:\.|$)")
SHOWN_HOSTS = 3


def preflight_remarks(hosts: Iterable[Mapping[str, Any]], releases: bool) -> list[dict[str, Any]]:
    """Rows that stop no host; with C(releases) also of hosts whose release or kernel is not that of the others."""
    known = list(hosts)
    # An earlier play may have left hosts out, or lost them, before they were read.
    read = [each for each in known if "gpu_node_preflight" in facts_of(each)]
    own = [row for row in preflight_problems(read) if not row["stops"]]
    return own + (release_remarks(known) if releases else [])


def release_remarks(hosts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows C(host, problem, evidence, next, stops: false) for hosts that differ from most others of their system.

    hosts  their variables (hostvars); one without C(gpu_node) was not read and is left out
    """
    found = [(str(each["inventory_hostname"]), facts_of(each).get("gpu_node")) for each in hosts]
    known = [(name, node) for name, node in found if node]
    rows: list[dict[str, Any]] = []
    for system in dict.fromkeys((node["os"]["id"], node["os"].get("major")) for _name, node in known):
        group = [(name, node) for name, node in known if (node["os"]["id"], node["os"].get("major")) == system]
        rows += _differences(group)
    return rows + [row for name, node in known for row in _kernel_of_another_release(name, node)]


def _differences(group: list[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """What differs from most hosts: the minor release or, within one release, the running kernel."""
    usual = _usual(str(node["os"]["version"]) for _name, node in group)
    alike = [(name, node) for name, node in group if str(node["os"]["version"]) == usual]
    kernel = _usual(str(node["kernel"]["running"]) for _name, node in alike)
    rows = []
    for name, node in group:
        version, running = str(node["os"]["version"]), str(node["kernel"]["running"])
        if version != usual:
            others = _names(each for each, other in group if str(other["os"]["version"]) == usual)
            text = f"Release {version} here, {usual} on {others}: kernels, packages and plans differ"
            rows.append(_remark(name, text, f"kernel {running}", _release_step(node["os"], usual)))
        elif running != kernel:
            others = _names(each for each, other in alike if str(other["kernel"]["running"]) == kernel)
            text = f"Kernel {running} here, {kernel} on {others}: the driver is built for another kernel"
            step = (
                "Nothing, if that is intended; otherwise update all to one kernel, and hold it (system_kernel_pin: "
                "true)."
            )
            rows.append(_remark(name, text, f"release {version} on both", step))
    return rows


def _kernel_of_another_release(name: str, node: Mapping[str, Any]) -> list[dict[str, Any]]:
    match = MINOR_OF_KERNEL.search(str(node["kernel"]["running"]))
    version = str(node["os"]["version"])
    if not match or "." not in version or f"{match[1]}.{match[2]}" == version:
        return []
    text = (
        f"The running kernel is from release {match[1]}.{match[2]}, but the system is {version}: "
        "an update is unfinished"
    )
    step = "Reboot it, or finish the update (`sudo dnf update`) before the driver is built for a kernel that goes."
    return [_remark(name, text, f"kernel {node['kernel']['running']}", step)]


def _usual(values: Iterable[str]) -> str:
    """The most frequent value; if there are several, the newest."""
    count = Counter(values)
    return max(count, key=lambda value: (count[value], [int(part) for part in re.findall(r"\d+", value)]))


def _names(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - SHOWN_HOSTS} more" if len(found) > SHOWN_HOSTS else ""
    return ", ".join(found[:SHOWN_HOSTS]) + more


def _release_step(system: Mapping[str, Any], usual: str) -> str:
    if system["id"] == "rhel":
        pin = f"`sudo subscription-manager release --set={usual}`"
    elif system.get("family") == "redhat":
        pin = (
            f"a repository of {usual} (`echo {usual} | sudo tee /etc/dnf/vars/releasever`; older ones are in the vault)"
        )
    else:
        return "Nothing, if that is intended; each host has its own plan."
    return f"Nothing, if that is intended; otherwise pin {pin}, `sudo dnf update`, reboot, and run again."


def _remark(host: str, text: str, seen: str, step: str) -> dict[str, Any]:
    return {"host": host, "problem": text, "evidence": seen, "next": step, "stops": False}


class FilterModule:
    """Filters of the role preflight."""

    def filters(self) -> dict[str, Any]:
        return {"preflight_remarks": preflight_remarks}
