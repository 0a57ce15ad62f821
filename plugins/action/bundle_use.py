# SPDX-License-Identifier: Apache-2.0
"""Verify a bundle on the controller, and say what it has for a host's plan; no host is contacted."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path
from typing import Any

from ansible.parsing.ajson import AnsibleJSONEncoder
from ansible.plugins.action import ActionBase
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.listing import BundleError
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.use import (
    entry_for,
    listing_of,
    part_of,
    variables_of,
)

SPEC: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    "signer": {"type": "str", "required": True},
    "question": {"type": "dict", "default": {}},
}


def cache_folder() -> Path:
    """Where it is remembered which files were read, as XDG says."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuwright/bundles"


class ActionModule(ActionBase):
    """`bundle_use:` of a task; the module of the same name documents it."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = {**super().run(tmp, task_vars), "changed": False, "problems": []}
        _validated, options = self.validate_argument_spec(SPEC)
        options = json.loads(json.dumps(options, cls=AnsibleJSONEncoder, vault_to_text=True))
        folder, question = Path(options["path"]), options["question"]
        try:
            now = datetime.datetime.now(datetime.timezone.utc)
            listing = listing_of(folder, options["signer"], now, cache_folder())
            if not question:
                return result
            entry = entry_for(listing, (task_vars or {})["inventory_hostname"], question)
        except BundleError as error:
            return {**result, "problems": [error.row]}
        except OSError as error:
            row = BundleError(
                "bundle.missing", "The bundle cannot be read", str(error), "Look at that on the controller"
            ).row
            return {**result, "problems": [row]}
        facts = {"gpu_node_bundle": part_of(listing, entry, folder), **variables_of(listing, entry)}
        return {**result, "ansible_facts": facts}
