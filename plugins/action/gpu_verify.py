# SPDX-License-Identifier: Apache-2.0
"""Verify a node, and keep its report on the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.folder import keep_report
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary.verdict_fact import verdict_fact

OTHER_FOLDER = "make the folder writable, or name another with -e verify_report_dir=FOLDER"


class ActionModule(ActionBase):
    """`gpu_verify:` of a task; the module of the same name documents it, and does all the work on the node."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        answer = self._execute_module("gpuwright.node.gpu_verify", self._task.args, task_vars=variables)
        if "verdict" not in answer:
            return {**result, **answer}
        # Where the report is for a file, it comes as the text of that file, which nothing here takes apart.
        text, findings = answer.pop("report_text", None), answer.pop("findings", [])
        answer["ansible_facts"] = verdict_fact(answer["verdict"], answer.get("checks", findings))
        if text is not None:
            folder = self._task.args["report_folder"]
            try:
                answer["dest"] = str(keep_report(Path(folder), f"{variables['inventory_hostname']}.json", text))
            except OSError as error:
                where, why = error.filename or folder, error.strerror or error
                answer |= {"failed": True, "msg": f"{where}: {why}; {OTHER_FOLDER} [verify.folder]"}
        return {**result, **answer}
