# SPDX-License-Identifier: Apache-2.0
"""Bring a node's part of a bundle to it: ask what is missing, send it in portions, have each file checked there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible.parsing.ajson import AnsibleJSONEncoder
from ansible.plugins.action import ActionBase

# What waits beside its place on the node at one time, so that a copy needs little more room than the files themselves.
PORTION_BYTES = 1024**3
PORTION_FILES = 64
# What is left over on the node for dnf and its database.
SPARE_BYTES = 256 * 1024**2
MODULE = "gpuwright.node.bundle_files"


def portions(paths: list[str], files: dict[str, dict[str, Any]]) -> Iterator[list[str]]:
    """The paths in their order, a few at a time; a file that is larger than a portion is one of its own."""
    some: list[str] = []
    size = 0
    for path in paths:
        if some and (size + files[path]["size"] > PORTION_BYTES or len(some) == PORTION_FILES):
            yield some
            some, size = [], 0
        some.append(path)
        size += files[path]["size"]
    if some:
        yield some


class ActionModule(ActionBase):
    """`bundle_files:` of a task; the module of the same name documents it."""

    TRANSFERS_FILES = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        options = json.loads(json.dumps(self._task.args, cls=AnsibleJSONEncoder, vault_to_text=True))
        source, dest, files = options["source"], options["dest"], options["files"]

        def on_node(**more: Any) -> dict[str, Any]:
            answer = self._execute_module(MODULE, {"dest": dest, "files": files, **more}, task_vars=task_vars)
            # The list again, which may be long.
            return {name: value for name, value in answer.items() if name != "invocation"}

        found = on_node(step="look")
        if found.get("failed") or found.get("unreachable") or not found["changed"] or self._task.check_mode:
            return {**result, **found}
        needed = found["bytes"] + min(PORTION_BYTES, found["bytes"]) + SPARE_BYTES
        if found["missing"] and found["free"] < needed:
            room = f"{found['free'] // 1024**2} MiB free, {needed // 1024**2} MiB needed with what waits for its check"
            return {
                **result,
                "failed": True,
                "msg": f"{dest} has no room for the bundle's files: {room}. Make room there and run again. Nothing was "
                "copied. [bundle.space]",
            }
        for some in portions(found["missing"], files):
            sent = self._send(source, some)
            if "msg" in sent:
                return {**result, "failed": True, **sent}
            taken = on_node(step="take", files={path: files[path] for path in some}, arrived=sent)
            if taken.get("failed") or taken.get("unreachable"):
                return {**result, **taken}
            if taken["wrong"]:
                names = ", ".join(taken["wrong"][:3])
                return {
                    **result,
                    "failed": True,
                    "msg": f"Files are not those that were signed when they arrive on the node: {names}. None of them "
                    "is used. Copy the bundle again from where it was made, and run again. [bundle.altered]",
                }
        done = on_node(step="finish")
        if done.get("failed") or done.get("unreachable"):
            return {**result, **done}
        return {**result, **found, "changed": True}

    def _send(self, source: str, paths: list[str]) -> dict[str, str]:
        """Where each file lies on the node now; {"msg"} if one cannot be read or sent."""
        # One for all portions; Ansible removes it after the task.
        folder = self._connection._shell.tmpdir or self._make_tmp_path()
        sent = {}
        try:
            for number, path in enumerate(paths):
                place = self._connection._shell.join_path(folder, str(number))
                self._transfer_file(str(Path(source) / path), place)
                sent[path] = place
        except Exception as error:
            text = "A file of the bundle cannot be copied to the node: {}. Is there room in {}? [bundle.files]"
            return {"msg": text.format(error, folder)}
        return sent
