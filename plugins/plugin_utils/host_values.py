# SPDX-License-Identifier: Apache-2.0
"""What a run knows of a host: values of variables, which may be templates or encrypted, and facts of our modules.

Since ansible-core 2.19, a text is a template only where a file of the run has it as one; what Python puts together
never is. So a variable is read by its name, and its value is what is evaluated.

Facts are read from `ansible_facts`, never as variables of their own: that they are is a setting of the controller
(inject_facts_as_vars), which some sites switch off and ansible-core 2.24 drops. Whether one is there decides what a run
does, so a fact that is missing is never taken for nothing to do.

A fact cache of the controller (fact_caching = jsonfile) gives what an earlier run has found to the next one: a plan,
what is settled, a verdict. So the toolkit's facts are forgotten before a run's first play (callback lock); all others
stay. Where a play of the site uses the roles without that callback, the run's name in what preflight found tells them.

This is the one file that reaches inside Ansible (a test holds that): its inventory, its fact cache, encrypted values,
a template's variables, a plug-in's name, where a value is from. The lane of cores tries it under each release.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleError, AnsibleUndefinedVariable
from ansible.inventory.manager import InventoryManager
from ansible.parsing import vault
from ansible.template import Templar
from ansible.vars.manager import VariableManager

from .operator_run import claim

# Absent before 2.19, where an encrypted value is of a class of its own as long as it is not part of another text.
HELPER = getattr(vault, "VaultHelper", None)
OURS = "gpu_node"
FOUND = "gpu_node_preflight"


def inventory_of(manager: VariableManager | None) -> InventoryManager | None:
    """The run's inventory; None before it is known. Callbacks get it in no other way."""
    return manager._inventory if manager else None


def name_of_plugin(plugin: Any) -> str:
    """Under which Ansible has found it, and keeps its options."""
    return str(plugin._load_name)


def templar_with(variables: Mapping[str, Any], templar: Any) -> Any:
    """One for these variables, also in what the lookups of a template see: until 2.18, a copy's keep the first ones."""
    if HELPER:
        return templar.copy_with_new_env(available_variables=variables)
    return Templar(templar._loader, variables=dict(variables))


def value_in(variables: Mapping[str, Any], name: str, templar: Any) -> Any:
    """The variable's value for the host with these variables. AnsibleUndefinedVariable where it has none."""
    if name not in variables:
        raise AnsibleUndefinedVariable(f"{name!r} is undefined")
    return templar_with(variables, templar).template(variables[name])


def ciphertext_of(value: Any) -> str:
    """How the inventory has an encrypted value, also one that Ansible has decrypted; "" if it is not encrypted."""
    found = HELPER.get_ciphertext(value, with_tags=False) if HELPER else getattr(value, "_ciphertext", None)
    return found.decode() if isinstance(found, bytes) else found or ""


def origin_of(value: Any) -> tuple[str, int]:
    """(file, line) from which Ansible has read it, ("", 0) if it does not say: up to 2.18 numbers and templates."""
    if not HELPER:
        file, line, _column = getattr(value, "ansible_pos", None) or ("", 0, 0)
        return str(file or ""), int(line or 0)
    tag = importlib.import_module("ansible._internal._datatag._tags").Origin.get_tag(value)
    return (str(tag.path or ""), int(tag.line_num or 0)) if tag else ("", 0)


def facts_of(variables: Mapping[str, Any]) -> Mapping[str, Any]:
    """All facts of the host with these variables, by their names."""
    return variables.get("ansible_facts") or {}


def needed_fact(variables: Mapping[str, Any], name: str) -> Any:
    """One fact. AnsibleError where no task of this run has left it: it is missing, or of an earlier run."""
    found = facts_of(variables)
    if name not in found:
        host = variables.get("inventory_hostname", "this host")
        raise AnsibleError(
            f"{host}: the fact {name} is missing, so it is not known what there is to do. The role preflight leaves "
            "it: run that role before this one, and leave out no task with the tag always [fact.missing]"
        )
    if is_of_another_run(found):
        host = variables.get("inventory_hostname", "this host")
        raise AnsibleError(
            f"{host}: the fact {name} in the controller's fact cache is of an earlier run, so it is not known what "
            "there is to do now. Run the role preflight before this one [fact.missing]"
        )
    return found[name]


@functools.cache
def this_run() -> str:
    """The name of this run, the same in all its workers: controller, process and its start."""
    return str(claim()["run"])


def is_of_another_run(facts: Mapping[str, Any]) -> bool:
    """Whether another run than this one has left what preflight found."""
    return facts.get(FOUND, {}).get("run", this_run()) != this_run()


def without_ours(facts: Mapping[str, Any]) -> dict[str, Any]:
    """All facts that are not of the toolkit."""
    return {name: value for name, value in facts.items() if not name.startswith(OURS)}


def forget(manager: VariableManager, hosts: Iterable[str]) -> None:
    """Take the toolkit's facts out of the cache, before the first play of a run; all others stay."""
    for host in hosts:
        try:
            # A mapping until ansible-core 2.18, since then a plug-in that raises where it has nothing.
            facts = manager._fact_cache.get(host) or {}
        except KeyError:
            continue
        others = without_ours(facts)
        if len(others) < len(facts):
            manager.clear_facts(host)
            if others:
                manager.set_host_facts(host, others)
