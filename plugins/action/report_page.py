# SPDX-License-Identifier: Apache-2.0
"""Make the pages of the fleet from the saved reports, on the controller; no host is contacted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.report import now_utc
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.folder import INDEX, host_names, pages, write_pages


class ActionModule(ActionBase):
    """`report_page:` of a task; the module of the same name documents it."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec({"folder": {"type": "path", "required": True}})
        return {**result, **made(options["folder"], self._task.check_mode)}


def made(folder: str, check_mode: bool) -> dict[str, Any]:
    """The result of the task; check mode makes every page and writes none."""
    try:
        names = host_names(folder)
        if not names:
            return {
                "failed": True,
                "msg": f"{folder}: no report there; expected the JSON files of gpu_verify [report.missing]",
            }
        if check_mode:
            for _page in pages(folder, names, now_utc()):
                pass
        else:
            write_pages(folder, names, now_utc())
    except OSError as error:
        return {"failed": True, "msg": f"{error.filename or folder}: {error.strerror or error} [report.failed]"}
    return {"changed": False, "path": str(Path(folder, INDEX)), "hosts": len(names)}
