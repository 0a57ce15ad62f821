# SPDX-License-Identifier: Apache-2.0
"""Check a host's variables, read the host, decide its plan, and find out whether it has nothing to do: one task."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.parsing.ajson import AnsibleJSONEncoder
from ansible.plugins.action import ActionBase
from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.gpuwright.node.plugins.module_utils.host.os_family import PYTHONS
from ansible_collections.gpuwright.node.plugins.plugin_utils import preflight_rows as rows_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.use import found_in_bundle
from ansible_collections.gpuwright.node.plugins.plugin_utils.host_values import (
    facts_of,
    is_of_another_run,
    templar_with,
    this_run,
    value_in,
    without_ours,
)
from ansible_collections.gpuwright.node.plugins.plugin_utils.nothing_to_do import decided
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.matrix import SHIPPED
from ansible_collections.gpuwright.node.plugins.plugin_utils.planning import asked, planned
from ansible_collections.gpuwright.node.plugins.plugin_utils.variables.rules import problems_by_roles

SPEC: dict[str, Any] = {
    "roles": {"type": "list", "elements": "str", "required": True},
    "bundle": {"type": "str", "required": True},
    "question": {"type": "str", "required": True},
}
# Of a module's answer, beside its facts: what Ansible shows, and how it counts what was run on the node.
OF_ANSWER = ("warnings", "deprecations", "invocation")
# Ansible's setting of which Pythons it looks for on a host, first to last, and a host's own variable for it.
DISCOVERED, OF_HOST = "INTERPRETER_PYTHON_FALLBACK", "ansible_interpreter_python_fallback"
# Variables with this prefix are of the whole toolkit.
OF_ALL = "gpuwright"


COUNT, MODEL = "verify_expected_gpu_count", "verify_expected_gpu_model"


class ActionModule(ActionBase):
    """`host_plan:` of a task; the module of the same name documents it."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = {**super().run(tmp, task_vars), "changed": False}
        _validated, self._options = self.validate_argument_spec(SPEC)
        self._known = dict(task_vars or {})
        if is_of_another_run(facts_of(self._known)):
            self._known["ansible_facts"] = without_ours(facts_of(self._known))
        self._facts: dict[str, Any] = {}
        self._rows: list[dict[str, Any]] = []
        lines = self._wrong_variables()
        self._rows += rows_of.variable_rows(lines)
        if not lines:
            # None of its values depends on what is found from here on.
            self._asked = asked(self._known, self._templar, self._loader)
            self._bundle = self._value(self._options["bundle"]) if self._asked.setting("gpuwright_bundle") else {}
            self._use_bundle({})
        if not self._rows:
            result |= self._read()
        if "gpu_node" in self._facts:
            self._rows += rows_of.lock_rows(self._facts["gpu_node"].get("lock") or {})
            self._decide()
        finished = not lines and self._finished()
        found = {"variables": lines, "rows": self._rows, "finished": finished, "ready": self._ready()}
        found["run"] = this_run()
        return {**result, "ansible_facts": {**self._facts, "gpu_node_preflight": found}}

    def _value(self, name: str) -> Any:
        """Of a variable, with all that was found so far, in plain types."""
        return plain(value_in(self._so_far(), name, self._templar))

    def _so_far(self) -> dict[str, Any]:
        """The host's variables, as the roles will have them."""
        of_bundle = (self._facts.get("gpu_node_bundle") or {}).get("variables") or {}
        return {**self._known, **of_bundle, "ansible_facts": {**facts_of(self._known), **self._facts}}

    def _is(self, name: str) -> bool:
        return boolean(self._asked.setting(name), strict=False)

    def _wrong_variables(self) -> list[str]:
        roles = self._options["roles"]
        prefixes = tuple(f"{role}_" for role in [OF_ALL, *roles])
        given = {name: value for name, value in self._known.items() if name.startswith(prefixes)}
        values = {name: self._templar.template(value, fail_on_undefined=True) for name, value in given.items()}
        lines = problems_by_roles(values, roles)
        if not lines:
            return []
        # Only for who needs it: collections have no compiled files.
        from ansible_collections.gpuwright.node.plugins.plugin_utils.variables.place import with_places

        return with_places(lines, self._known)

    def _use_bundle(self, question: dict[str, Any]) -> None:
        """Verify the bundle, and find what it has for the question."""
        if self._bundle:
            now = datetime.datetime.now(datetime.timezone.utc)
            host, path = self._known["inventory_hostname"], Path(self._bundle["path"])
            found, rows = found_in_bundle(path, self._bundle["signer"], host, question, now)
            self._facts |= {"gpu_node_bundle": found} if found else {}
            self._rows += rows

    def _read(self) -> dict[str, Any]:
        """Reach the host and read what it is; returns what the task's result has of the answer."""
        kernel = self._asked.setting("system_kernel_target")
        options = {
            "agents": self._asked.setting("preflight_agents"),
            "kernels": [kernel] if kernel else [],
            "settled": True,
        }
        try:
            # Where ssh fails while a module is sent, its reason may be lost to a broken pipe; nothing is sent here.
            self._low_level_execute_command("true", sudoable=False)
            answer = self._execute_module("gpuwright.node.gpu_probe", options, task_vars=self._with_pythons())
        except AnsibleConnectionFailure as error:
            # Ansible leaves a host out that does not answer, and ends with 4; where one host stops all, it gets a row.
            if not self._stops_all():
                raise
            host = self._known["inventory_hostname"]
            self._rows.append(rows_of.unreached_row(str(error), host, self._of_inventory()))
            return {}
        except AnsibleError as error:
            # Ansible itself ends a module where sudo asks for a password or it has no sshpass.
            answer = {"msg": str(error)}
        # A node's own words are never a template.
        self._facts |= wrap_var(answer.pop("ansible_facts", None) or {})
        kept = {name: answer[name] for name in OF_ANSWER if name in answer}
        if "gpu_node" in self._facts:
            return kept
        self._rows.append(rows_of.contact_row(answer, self._of_inventory()))
        return {**kept, "probe": answer}

    def _with_pythons(self) -> dict[str, Any]:
        """The host's variables, by which Ansible discovers the system's own Python, unless a site has its own list.

        Since 2.17, it takes the newest, which is another one once a run has installed it: without the bindings of dnf,
        rpm or apt, and without what the module for pip imports.
        """
        pythons, origin = C.config.get_config_value_and_origin(DISCOVERED, variables=self._known)
        return self._known if origin != "default" else {**self._known, OF_HOST: [*PYTHONS, *pythons]}

    def _decide(self) -> None:
        """The plan, what a bundle has for it, and whether the host has nothing to do."""
        node = plain(self._facts["gpu_node"])
        node |= plain(self._asked.circumstances(self._is("preflight_judges_only")) | self._asked.hardware(node))
        pins, locks, setting = plain(self._asked.pins()), self._asked.locks(), self._asked.setting
        newer = [str(setting(name)) for name in ("preflight_knowledge", "preflight_knowledge_signer")]
        answer = planned(str(SHIPPED), node, pins, locks, *newer)
        if answer.get("failed"):
            self._rows += rows_of.plan_rows(answer)
            return
        self._facts |= wrap_var(answer["ansible_facts"])
        if self._bundle:
            self._use_bundle(self._value(self._options["question"]))
        known = self._so_far()
        templar = templar_with(known, self._templar)
        environment = asked(known, templar, self._loader).environment(self._facts["gpu_node_plan"])["name"]
        self._facts["gpu_node_settled"] = decided(known, templar, environment)
        if self._facts["gpu_node_settled"].get("all"):
            # Nobody looks closer at a finished node, whose verification would be the first to say it, at its end.
            counted = setting(COUNT) if COUNT in self._known else None
            self._rows += rows_of.hardware_rows(node["gpus"], counted, str(setting(MODEL) or ""))
        # The decision has it, and Ansible goes through all facts of a host for each of its tasks.
        self._facts["gpu_node"].pop("settled", None)

    def _of_inventory(self) -> Any:
        """The host's variables as hostvars has them: how it is connected to may be a template."""
        return self._known["hostvars"][self._known["inventory_hostname"]]

    def _stops_all(self) -> bool:
        return self._is("preflight_host_checks") and self._asked.setting("preflight_on_problem") == "fleet"

    def _ready(self) -> bool:
        """Whether a verification needs nothing before it; to wait for work on cards to end is something."""
        if not (self._facts.get("gpu_node_settled") or {}).get("all"):
            return False
        return self._asked.setting("gpuwright_busy") != "wait" or self._asked.setting("verify_smoke_device") != "cuda"

    def _finished(self) -> bool:
        closer = self._is("preflight_host_checks") and not (self._facts.get("gpu_node_settled") or {}).get("all")
        return not closer and not any(row["stops"] for row in self._rows)


def plain(value: Any) -> Any:
    """In plain types, as a module gets it: Ansible's own text is marked against templating, and slow."""
    return json.loads(json.dumps(value, cls=AnsibleJSONEncoder, vault_to_text=True))
