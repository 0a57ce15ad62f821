# SPDX-License-Identifier: Apache-2.0
"""Commands in what is said to people, as the toolkit was started: from its checkout or as an installed collection."""

import re
from typing import Optional

CHECKOUT, COLLECTION = STARTED_AS = ("checkout", "collection")
PLAYBOOK = re.compile(
    r"\bansible-playbook (?:playbooks/)?(site|preflight|plan|system|framework|model|verify|scan|report|lock)\.yml\b"
)


def as_started(text: str, started_as: Optional[str]) -> str:
    """The text, where the collection was used with its names of playbooks: gpuwright.node.site instead of site.yml."""
    if started_as != COLLECTION:
        return text
    return PLAYBOOK.sub(r"ansible-playbook gpuwright.node.\1", text)
