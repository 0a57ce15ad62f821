# SPDX-License-Identifier: Apache-2.0
"""Drop-ins of the toolkit's units that the toolkit did not write: no task of site.yml looks for them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from ansible_collections.gpuwright.node.plugins.module_utils.tuning.file_texts import DROP_IN

from .differences import Difference, Place

OWN = PurePosixPath(DROP_IN).name
FOLDERS = ("system", "system.control")
# Units that nobody is to extend, and those whose documentation says how a site extends them with a drop-in.
CLOSED = re.compile(r"(gpuwright-[^/]*|nvidia-persistenced)\.(service|timer|path)\.d")
OPEN = re.compile(r"(train-gan|gpu-job)@[^/]*\.service\.d")


def judge(paths: Iterable[str], place: Place) -> tuple[list[Difference], list[str]]:
    """(differences, remarks) for the files ending in .conf below systemd's folders of units, sorted by path."""
    rows, remarks = [], []
    for path in sorted(set(paths)):
        file = PurePosixPath(path)
        unit = file.parent.name.removesuffix(".d")
        # Not a user's units, and no instance of what systemd itself keeps there.
        if file.name == OWN or file.parent.parent.name not in FOLDERS:
            continue
        if CLOSED.fullmatch(file.parent.name):
            rows.append(Difference("system", place.role, place.task, path, f"drop-in of {unit}", "is there", "none"))
        elif OPEN.fullmatch(file.parent.name):
            remarks.append(f"{path}: a site's own drop-in of {unit}")
    return rows, remarks
