# SPDX-License-Identifier: Apache-2.0
"""Which of the system's own repositories dnf's files name, so that a next step can name them as this node does.

A subscription, a cloud (RHUI), Satellite and extended support (EUS, E4S, AUS) each have ids of their own. No list of
all of them would stay true: what is in the node's files is what its administrator can switch on.
"""

import re
from typing import Dict

from .dnf_files import read_files

OWN = re.compile(r"baseos|appstream|codeready-builder|powertools|(^|[-_])crb($|[-_])", re.IGNORECASE)
# Of an id: what has no packages that are installed.
OTHER = re.compile(r"debug|source|beta|[-_]src[-_]|isos|kickstart|layered", re.IGNORECASE)


def own_repositories(root: str = "/") -> Dict[str, bool]:
    """`{id: whether it is switched on}`, the first section of an id only, as dnf takes it."""
    found = {}  # type: Dict[str, bool]
    for file in read_files(root):
        for entry in () if file.problem else file.entries:
            if OWN.search(entry.id) and not OTHER.search(entry.id):
                found.setdefault(entry.id, entry.enabled)
    return found
