# SPDX-License-Identifier: Apache-2.0
"""What a host's plan is made from, in a few characters: a host that is done is done again only if that has changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpuwright.node.plugins.plugin_utils.host_values import ciphertext_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary.command import SECRET
from ansible_collections.gpuwright.node.plugins.plugin_utils.trainer_wheel import source_digest

LENGTH = 16
PARTS = ("library", "plugins", "roles")


def plan_digest(variables: Mapping[str, Any], roles: Iterable[str], common: str) -> str:
    """16 hex digits of a host's variables of these roles, as they stand in the inventory, and of what is common to all.

    A secret is left out: it changes no plan, and its digest would be stored. An encrypted value counts as it is stored.
    """
    prefixes = tuple(f"{role}_" for role in sorted(roles))
    own = {name: value for name, value in variables.items() if name.startswith(prefixes) and not SECRET.search(name)}
    text = json.dumps([own, common], sort_keys=True, default=_text)
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def toolkit_digest(root: Path) -> str:
    """Of what this release of the toolkit does on a node: with another one, a host is not done any more.

    root  folder of the checkout, or of the installed collection
    """
    total = hashlib.sha256(source_digest(root / "trainer").encode())
    for folder in PARTS:
        for path in sorted((root / folder).rglob("*")):
            # A wheel of the trainer is built by the first run that needs it.
            name = path.relative_to(root)
            if path.is_file() and not {"wheels", "__pycache__"} & set(name.parts):
                total.update(f"{name}\0".encode())
                total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def _text(value: Any) -> str:
    return ciphertext_of(value) or str(value)
