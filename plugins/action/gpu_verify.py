# SPDX-License-Identifier: Apache-2.0
"""Verify a node, and keep its report on the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpuwright.node.plugins.plugin_utils.host_values import facts_of, value_in
from ansible_collections.gpuwright.node.plugins.plugin_utils.nothing_to_do import ENDS, may_rely, wanted_stamp
from ansible_collections.gpuwright.node.plugins.plugin_utils.operator_run import own_claim
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.kept_report import keep_report
from ansible_collections.gpuwright.node.plugins.plugin_utils.started import told
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary.verdict_fact import verdict_fact

# As the role system_busy says it, which waits where that is asked for.
IN_USE = (
    "{host} is in use, so this run did not train on the GPUs to try them: {who}. Next: run again when the work has "
    "ended, or let the run wait for it: {again} -e gpuwright_busy=wait"
)
NOT_AGAIN = "{host}: its smoke test passed at {when}; nothing that it depends on has changed, so it was not run again"
AGAIN = "ansible-playbook site.yml -l {host}"
MODULE = "gpuwright.node.gpu_verify"
OTHER_FOLDER = "make the folder writable, or name another with -e verify_report_dir=FOLDER"

display = Display()


class ActionModule(ActionBase):
    """`gpu_verify:` of a task; the module of the same name documents it, and does all the work on the node."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        host = variables["inventory_hostname"]
        answer = self._answer(host, variables)
        if "verdict" not in answer:
            return {**result, **answer}
        # Where the report is for a file, it comes as the text of that file, which nothing here takes apart.
        text, findings = answer.pop("report_text", None), answer.pop("findings", [])
        answer["ansible_facts"] = verdict_fact(answer["verdict"], answer.get("checks", findings))
        if answer.get("busy"):
            display.display(f"  {IN_USE.format(host=host, who=answer['busy'], again=told(AGAIN.format(host=host)))}")
        if answer.get("tested_at") and self._tests() and not answer["busy"] and answer.get("smoke_seconds") is None:
            display.display(f"  {NOT_AGAIN.format(host=host, when=answer['tested_at'])}")
        if text is not None:
            folder = self._task.args["report_folder"]
            try:
                answer["dest"] = str(keep_report(Path(folder), f"{host}.json", text))
            except OSError as error:
                where, why = error.filename or folder, error.strerror or error
                answer |= {"failed": True, "msg": f"{where}: {why}; {OTHER_FOLDER} [verify.folder]"}
        return {**result, **answer}

    def _tests(self) -> bool:
        """Whether a smoke test is asked for, here and now."""
        return isinstance(self._task.args.get("smoke_test"), dict) and not self._task.check_mode

    def _answer(self, host: str, variables: dict[str, Any]) -> dict[str, Any]:
        """The module's answer, with the lock of the host where that is asked for and no role of this run has it."""
        options = {**self._task.args, "stamp": wanted_stamp(variables)}
        if self._tests():
            names = (facts_of(variables).get("gpu_node_settled") or {}).get("names")
            hours = options["smoke_test"].get("hours", 0) if may_rely(variables) else 0
            options["smoke_test"] = {**options["smoke_test"], "hours": hours, "names": names or []}
        wanted, own = options.pop("hold", None), (facts_of(variables).get("gpu_node_lock") or {}).get("run")
        if wanted and not own and self._task.check_mode:
            # Who only looks is told who works there.
            self._lock(wanted, variables)
        elif wanted and (not own or variables.get(ENDS) is True):
            # What follows in this run changes nothing, so whoever has the lock gives it back with this call.
            options["claim"] = own_claim(host)
            own = options["claim"]["run"]
        if own:
            # What is left working by a run that has ended is found by this variable.
            self._task.environment = [*(self._task.environment or []), {"GPUWRIGHT_RUN": own}]
        answer = self._execute_module(MODULE, options, task_vars=variables)
        if answer.get("held") is False:
            # Only that action waits for what is left of a dead run, takes the lock from it, or refuses.
            lock = self._lock(wanted, variables)
            if lock.get("failed"):
                return lock
            answer = self._execute_module(MODULE, options, task_vars=variables)
        return answer

    def _lock(self, wanted: str, variables: dict[str, Any]) -> dict[str, Any]:
        """What a task `operator_lock` answers, with the options that the variable has."""
        task = self._task.copy()
        task.args = value_in(variables, wanted, self._templar)
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
