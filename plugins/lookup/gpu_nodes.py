# SPDX-License-Identifier: Apache-2.0
"""Guard of every play: Ansible treats an empty group, a limit that selects nothing and a mistyped tag as a success."""

from __future__ import annotations

DOCUMENTATION = """
name: gpu_nodes
short_description: The group gpu_nodes, or that of gpuwright_hosts, or an error that says why no host would be processed
description:
  - For C(hosts:) of a play. It is evaluated before any host is contacted.
  - Stops on an ansible-core older than 2.16, an inventory without hosts in C(gpu_nodes), a C(--limit) that selects none
    of them or names one that does not exist, a tag that no play knows, and an extra
    variable that is internal to a role.
  - C(--syntax-check) needs no host, so it stops on nothing.
  - With a layer, only the hosts that have something to do, as the role preflight has found in an earlier play of the
    run; with C(preflight), only those that no play of the run has read before, with C(closer)
    those that are to be looked at more closely, with C(ready) those that something has to be made ready on before they
    are verified, with C(verify) those that are not left out, and with C(verdict) those that did not pass. Where there
    is none, the play has no hosts, which is no error. Where
    these are not all hosts, one of the others comes with them, since Ansible ends a run where all hosts of a play fail;
    the role preflight ends the play for that host at once.
options:
  layer:
    description: Layer whose roles the play lists.
    type: str
    choices: [preflight, closer, system, framework, model, ready, verify, verdict]
  named:
    description: Whether the play takes several hosts only if C(--limit) or C(gpuwright_hosts) names them, since it
      takes away what they have. C(--check) may look at all.
    type: bool
    default: false
"""
EXAMPLES = """
- name: Every GPU node
  hosts: "{{ lookup('gpuwright.node.gpu_nodes') }}"
- name: Those on which a role of the model layer has something to do
  hosts: "{{ query('gpuwright.node.gpu_nodes', layer='model') }}"
"""
RETURN = """
_raw:
  description: The name of the group; of some of its hosts, their names; of none, a pattern that matches no host.
  type: list
  elements: str
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible import context
from ansible.errors import AnsibleLookupError
from ansible.inventory.manager import InventoryManager
from ansible.plugins.lookup import LookupBase
from ansible.utils.vars import load_extra_vars
from ansible_collections.gpuwright.node.plugins.plugin_utils import inherited
from ansible_collections.gpuwright.node.plugins.plugin_utils.host_values import facts_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.layers import LAYERS, ROLES
from ansible_collections.gpuwright.node.plugins.plugin_utils.limits import NOBODY, limit_problems, unknown_parts

# The group, unless -e gpuwright_hosts names another.
GROUP = "gpu_nodes"
OTHER = "gpuwright_hosts"
# Systems that a newer one cannot manage (RHEL 8 after 2.16) are known once the hosts are read; only they are left out.
OLDEST_ANSIBLE_CORE = (2, 16)
# Parts of a layer that are useful to run alone.
PARTS = ("report", "sbom", "advisories")
# Tags that select something.
TAGS = sorted({*LAYERS, *ROLES, *PARTS, "accept", "uninstall"})
PASSED = ("PASS", "WARN")
LEFT_OUT = "gpu_node_left_out"
SPECIAL_TAGS = ("all", "always", "never", "tagged", "untagged")


def problems(
    variables: dict, hosts: list[str], selected: list[str], tags: list[str], given: Iterable[str] = ()
) -> list[str]:
    """Why this run would do nothing or cannot work; if the list is empty, the run starts.

    `variables` are the play's magic variables, `hosts` those of the group, `selected` those of them within the limit,
    `tags` the known ones, `given` the names of the extra variables.
    """
    group = variables.get(OTHER) or GROUP
    found = []
    version = variables["ansible_version"]["full"]
    if tuple(int(part) for part in re.findall("[0-9]+", version)[:2]) < OLDEST_ANSIBLE_CORE:
        found.append(
            f"ansible-core {version} is too old: gpuwright runs on 2.16 and newer; use 2.16.19 (make venv) [run.core]"
        )
    if not hosts and not names_of(variables) - {"all", "ungrouped"}:
        found.append(
            "no inventory was read, or it has no host: start this in the folder of the checkout, whose ansible.cfg "
            "names inventory/, or name yours with -i [run.no_hosts]"
        )
    elif not hosts:
        found.append(
            f"the inventory has no host in the group {group}. Add your servers there, name the right file with -i, or "
            f"another group with -e {OTHER}=GROUP [run.no_hosts]"
        )
    elif not selected:
        found.append(
            f"--limit {variables.get('ansible_limit')} selects none of the hosts of {group}: {', '.join(hosts[:8])} "
            "[run.limit]"
        )
    elif variables.get("ansible_limit"):
        found += limit_problems(variables["ansible_limit"], names_of(variables))
    for tag in [*variables.get("ansible_run_tags", []), *variables.get("ansible_skip_tags", [])]:
        if tag not in (*tags, *SPECIAL_TAGS):
            near = difflib.get_close_matches(tag, tags, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            found.append(f"no task has the tag {tag}{hint}; the tags are {', '.join(tags)} [run.tag]")
    for name in sorted(name for name in given if name.startswith("__")):
        found.append(
            f"{name} is internal to a role and cannot be set; the variables of each role are in its README "
            "[run.internal]"
        )
    return found


def unnamed(variables: dict, selected: list[str]) -> list[str]:
    """Why a play that takes away what hosts have does not begin on all of them, unless they are named."""
    if variables.get("ansible_limit") or variables.get(OTHER) or variables.get("ansible_check_mode"):
        return []
    return [
        f"this takes away what {len(selected)} hosts have, and no --limit names them: -l {selected[0]} for one host, "
        f"-l {GROUP} for all of them [run.limit]"
    ]


def names_of(variables: dict) -> set[str]:
    """Every group and host of the inventory."""
    groups = variables.get("groups", {})
    return {*groups, *(host for hosts in groups.values() for host in hosts)}


class LookupModule(LookupBase):
    """`lookup('gpuwright.node.gpu_nodes')`."""

    def run(self, terms: list, variables: dict | None = None, **kwargs: object) -> list[str]:
        variables = variables or {}
        manager = InventoryManager(self._loader, parse=False)
        group = variables.get(OTHER) or GROUP
        if context.CLIARGS.get("syntax"):
            return [group]
        for name, members in variables.get("groups", {}).items():
            manager.add_group(name)
            for host in members:
                manager.add_host(host, group=name)
        # Ansible only warns about a group that does not exist, and continues.
        known = not unknown_parts(group, names_of(variables))
        hosts = [host.name for host in manager.get_hosts(group)] if known else []
        manager.subset(variables.get("ansible_limit"))
        selected = [host.name for host in manager.get_hosts(group)] if hosts else []
        found = problems(variables, hosts, selected, TAGS, load_extra_vars(self._loader))
        self.set_options(var_options=variables, direct=kwargs)
        if self.get_option("named") and len(selected) > 1:
            found += unnamed(variables, selected)
        if found:
            raise AnsibleLookupError("Nothing was done: " + "; ".join(found))
        # Every play asks for its hosts here, in the main process, before any worker is forked.
        inherited.load()
        layer = self.get_option("layer")
        left = hosts_of(layer, selected, variables) if layer else selected
        return [group] if left == selected else left or [NOBODY]


def hosts_of(layer: str, hosts: list[str], variables: Mapping[str, Any]) -> list[str]:
    """Those of the hosts that a play of this layer is for."""
    hostvars = variables.get("hostvars", {})
    known = {name: hostvars.get(name) or {} for name in hosts}
    if layer == "verify":
        return [name for name in hosts if LEFT_OUT not in known[name]]
    # The page alone (--tags report) is made from saved reports, for which no host is contacted.
    if layer in OF_HOSTS and not set(variables.get("ansible_run_tags", [])) - set(PARTS):
        return []
    chosen = OF_HOSTS.get(layer, has_something_to_do)
    some = [name for name in hosts if chosen(known[name])]
    return some if layer == "preflight" else with_another(some, hosts)


def with_another(some: list[str], hosts: list[str]) -> list[str]:
    """Some of the hosts, and one for which the play ends at once (nothing_to_do.yml and closer.yml of preflight).

    Where all hosts of a play fail, Ansible ends the whole run, also for hosts that only other plays are for.
    """
    others = [name for name in hosts if name not in some]
    return [*some, *others[:1]] if some else []


def is_read(known: Mapping[str, Any]) -> bool:
    """Whether an earlier play of the run has decided the host's plan, or has left it out."""
    return LEFT_OUT in known or "gpu_node_plan" in facts_of(known)


def is_to_be_looked_at(known: Mapping[str, Any]) -> bool:
    """Whether the role preflight has more to look for on the host and has not done so, or has not even read it."""
    looked = {"__preflight_checks", LEFT_OUT} & set(known)
    return not looked and not facts_of(known).get("gpu_node_preflight", {"finished": False})["finished"]


def is_not_ready(known: Mapping[str, Any]) -> bool:
    """Whether the role preflight has not found that the host can be verified as it is."""
    return not facts_of(known).get("gpu_node_preflight", {}).get("ready")


def has_not_passed(known: Mapping[str, Any]) -> bool:
    """Whether the host has to be told: it was verified and has not passed, or has no verdict without being left out."""
    return LEFT_OUT not in known and facts_of(known).get("gpu_node_verdict", {"verdict": ""})["verdict"] not in PASSED


def has_something_to_do(known: Mapping[str, Any]) -> bool:
    """Whether the roles of the layers have something to do on the host, or that is not known."""
    return not (facts_of(known).get("gpu_node_settled") or {}).get("all")


# Which hosts the plays are for that are no layer's; a host of which nothing is known is among them.
OF_HOSTS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "preflight": lambda known: not is_read(known),
    "closer": is_to_be_looked_at,
    "ready": is_not_ready,
    "verdict": has_not_passed,
}
