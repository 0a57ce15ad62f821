# SPDX-License-Identifier: Apache-2.0
"""Verify a node, and keep its report on the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpuwright.node.plugins.action.operator_lock import own_claim
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.kept_report import keep_report
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary.verdict_fact import verdict_fact

MODULE = "gpuwright.node.gpu_verify"
OTHER_FOLDER = "make the folder writable, or name another with -e verify_report_dir=FOLDER"


class ActionModule(ActionBase):
    """`gpu_verify:` of a task; the module of the same name documents it, and does all the work on the node."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        host = variables["inventory_hostname"]
        options = dict(self._task.args)
        wanted, own = options.pop("hold", None), (variables.get("gpu_node_lock") or {}).get("run")
        if wanted and not own and not self._task.check_mode:
            options["claim"] = own_claim(host)
            own = options["claim"]["run"]
        elif wanted and not own:
            self._lock(wanted, variables)
        if own:
            # What is left working by a run that has ended is found by this variable.
            self._task.environment = [*(self._task.environment or []), {"GPUWRIGHT_RUN": own}]
        answer = self._execute_module(MODULE, options, task_vars=variables)
        if answer.get("held") is False:
            # Only that action waits for what is left of a dead run, takes the lock from it, or refuses.
            lock = self._lock(wanted, variables)
            if lock.get("failed"):
                return {**result, **lock}
            answer = self._execute_module(MODULE, options, task_vars=variables)
        if "verdict" not in answer:
            # Whoever releases what this run holds tries it here, too.
            return {**result, **answer, "held": "claim" in options}
        # Where the report is for a file, it comes as the text of that file, which nothing here takes apart.
        text, findings = answer.pop("report_text", None), answer.pop("findings", [])
        answer["ansible_facts"] = verdict_fact(answer["verdict"], answer.get("checks", findings))
        if text is not None:
            folder = options["report_folder"]
            try:
                answer["dest"] = str(keep_report(Path(folder), f"{host}.json", text))
            except OSError as error:
                where, why = error.filename or folder, error.strerror or error
                answer |= {"failed": True, "msg": f"{where}: {why}; {OTHER_FOLDER} [verify.folder]"}
        return {**result, **answer}

    def _lock(self, wanted: str, variables: dict[str, Any]) -> dict[str, Any]:
        """What a task `operator_lock` answers, with the options that the variable has."""
        task = self._task.copy()
        task.args = self._templar.template(f"{{{{ {wanted} }}}}")
        action = self._shared_loader_obj.action_loader.get(
            "gpuwright.node.operator_lock",
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        return action.run(task_vars=variables)
