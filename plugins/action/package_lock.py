# SPDX-License-Identifier: Apache-2.0
"""Resolve packages in addition to a plan's lock file and write their own, on the controller; no host is contacted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpuwright.node.plugins.module_utils.host.whole_file import write_whole
from ansible_collections.gpuwright.node.plugins.plugin_utils import package_lock

SPEC: dict[str, dict[str, Any]] = {
    "packages": {"type": "list", "elements": "str", "required": True},
    "base_name": {"type": "str", "required": True},
    "base": {"type": "str", "required": True},
    "python": {"type": "str", "required": True},
    "folder": {"type": "path", "required": True},
    "locks": {"type": "str", "default": ""},
    "index_url": {"type": "str", "default": "", "no_log": True},
    "extra_index_url": {"type": "str", "default": ""},
}


class ActionModule(ActionBase):
    """`package_lock:` of a task; the module of the same name documents it."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(SPEC)
        return {**result, **locked(options, self._task.check_mode)}


def locked(options: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """The result of the task; an existing lock file is kept, and check mode writes none."""
    packages, name, base, python = (options[key] for key in ("packages", "base_name", "base", "python"))
    try:
        wanted = package_lock.read_wanted(packages, Path(options["folder"]))
        path = package_lock.lock_path(wanted, name, base, python, options["folder"], options["locks"])
        if path.is_file():
            return {"changed": False, "path": str(path)}
        index = package_lock.Index(options["index_url"], options["extra_index_url"])
        text = package_lock.lock_text(name, base, python, wanted, index)
        if not check_mode:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Every later run would take a half-written file for a complete one.
            write_whole(str(path), text.encode("utf-8"))
    except package_lock.LockError as error:
        return {"failed": True, "msg": f"{error} [framework.packages]"}
    except OSError as error:
        return {
            "failed": True,
            "msg": f"{error.filename or options['folder']}: {error.strerror or error} [framework.packages_lock]",
        }
    return {"changed": True, "path": str(path)}
