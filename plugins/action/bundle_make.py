# SPDX-License-Identifier: Apache-2.0
"""Make a bundle on a connected controller: keep a host's question, or get what it lacks and sign the list."""

from __future__ import annotations

import datetime
import errno
import json
from pathlib import Path
from typing import Any

from ansible.parsing.ajson import AnsibleJSONEncoder
from ansible.plugins.action import ActionBase
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle import carried, images, making
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.index import configuration, sources_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.listing import BundleError

SPEC: dict[str, Any] = {
    "folder": {"type": "path", "required": True},
    "question": {"type": "dict", "default": {}},
    "key": {"type": "path", "default": "", "no_log": False},
    "days": {"type": "int", "default": 90},
    "pythons": {"type": "list", "elements": "str", "choices": list(carried.PYTHONS), "default": []},
    "controller_only": {"type": "bool", "default": False},
    "image": {"type": "path", "default": ""},
}


class ActionModule(ActionBase):
    """`bundle_make:` of a task; the module of the same name documents it."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(SPEC)
        options = json.loads(json.dumps(options, cls=AnsibleJSONEncoder, vault_to_text=True))
        host = (task_vars or {})["inventory_hostname"]
        try:
            return {**result, **self._made(options, host)}
        except BundleError as error:
            return {**result, "failed": True, "msg": str(error)}
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                return {
                    **result,
                    "failed": True,
                    "msg": f"No room for the bundle: {error}. Make room and run again; the rest is kept [bundle.space]",
                }
            return {
                **result,
                "failed": True,
                "msg": f"The bundle cannot be written: {error}. Mend that and run again [bundle.files]",
            }

    def _made(self, options: dict[str, Any], host: str) -> dict[str, Any]:
        places, dry = making.Places(Path(options["folder"])), self._task.check_mode
        if options["question"]:
            # In check mode, too: the folder with the plans is a cache, and what follows says sizes for them.
            changed = making.write_question(places, host, options["question"])
            return {"changed": changed and not dry}
        alone = options["controller_only"]
        if alone:
            making.check_no_plans(places)
        questions = {} if alone else making.read_questions(places)
        making.claim(places, dry)
        say, sources = self._display.display, sources_of(configuration())
        own = images.carried_image(places, options["image"], say, dry)
        own |= carried.for_controller(places, options["pythons"], sources, say, dry)
        wheels = making.get_wheels(places, questions, say, dry)
        if dry:
            return {"changed": False}
        now, key = datetime.datetime.now(datetime.timezone.utc), Path(options["key"])
        changed = making.finished(places, wheels, key, options["days"], now, own)
        return {"changed": changed, "signer": making.public_fingerprint(key)}
