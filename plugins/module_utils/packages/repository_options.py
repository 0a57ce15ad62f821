# SPDX-License-Identifier: Apache-2.0
"""Options that the modules of repositories have in common; documented in the doc fragment `repository`."""

import os
from typing import Any, Dict

from .kept_key import Source

COMMON: Dict[str, Dict[str, Any]] = {
    "id": {"type": "str", "required": True},
    "description": {"type": "str", "required": True},
    "also": {"type": "str", "default": ""},
    "username": {"type": "str", "default": ""},
    "password": {"type": "str", "default": "", "no_log": True},
    "key_url": {"type": "str", "required": True, "no_log": False},
    "key_username": {"type": "str", "default": "", "no_log": False},
    "key_password": {"type": "str", "default": "", "no_log": True},
    "fingerprint": {"type": "str", "required": True},
    "key_file": {"type": "path", "required": True, "no_log": False},
    "timeout": {"type": "int", "default": 30},
    "only_kept": {"type": "bool", "default": False},
}


def source_of(wish: Dict[str, Any]) -> Source:
    """Where the key is fetched from."""
    return Source(wish["key_url"], wish["key_username"], wish["key_password"], wish["fingerprint"], wish["timeout"])


def end_where_not_kept(module: Any, path: str) -> None:
    """End the module where only a repository that is there already is kept, and this one's file is not."""
    if module.params["only_kept"] and not os.path.lexists(path):
        module.exit_json(changed=False, repository_changed=False, taken_over=[], left_out=[], diff=[])
