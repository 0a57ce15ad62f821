# SPDX-License-Identifier: Apache-2.0
"""Commands in messages, in the form in which the toolkit was started: from its checkout or as a collection."""

from typing import Optional

from ..host.patterns import lazily

CHECKOUT, COLLECTION = STARTED_AS = ("checkout", "collection")
PLAYBOOK = lazily(
    r"\bansible-playbook (?:playbooks/)?(site|preflight|plan|system|framework|model|verify|scan|lock)\.yml\b"
)


def as_started(text: str, started_as: Optional[str]) -> str:
    """The text; if the collection is used, with its names of playbooks: gpuwright.node.site instead of site.yml."""
    if started_as != COLLECTION:
        return text
    return PLAYBOOK.sub(r"ansible-playbook gpuwright.node.\1", text)
