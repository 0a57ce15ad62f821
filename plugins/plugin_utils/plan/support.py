# SPDX-License-Identifier: Apache-2.0
"""Which drivers, toolkits and cuDNN support the GPUs of an architecture: its row says where support begins and ends.

Rows of drivers, toolkits and libraries mention GPUs only if they differ from that, so that a new one is a row without
a list (roles/preflight/files/matrix/architectures.yml).
"""

from __future__ import annotations

import functools
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import version_key

Row = dict[str, Any]


def drives(architecture: Row, flavour: str, branch: str) -> bool:
    """Whether a kernel module of a driver branch drives the architecture; single cards may be newer than the branch."""
    span = architecture["drivers"].get(flavour)
    return span is not None and _within(span.get("from", ""), branch, span.get("to", ""))


def what_drives(matrix: dict[str, Any], architecture: str) -> str:
    """The end of a sentence: "volta needs the proprietary module of branch 580 or older"."""
    rows, served = matrix["drivers"], matrix["architectures"][architecture]
    flavours_of = {
        branch: [name for name in row["flavours"] if drives(served, name, branch)] for branch, row in rows.items()
    }
    branches = sorted((branch for branch in rows if flavours_of[branch]), key=int)
    if not branches:
        return "no known branch drives " + architecture
    flavours = {flavour for branch in branches for flavour in flavours_of[branch]}
    module = f"the {flavours.pop()} module of " if len(flavours) == 1 else ""
    oldest, newest = min(rows, key=int), max(rows, key=int)
    end = " or newer" if branches[-1] == newest else " or older" if branches[0] != branches[-1] else ""
    edge = branches[0] if branches[-1] == newest and branches[0] != oldest else branches[-1]
    return f"{architecture} needs {module}branch {edge}{end}"


def compiles(architecture: Row, cuda: str) -> bool:
    """Whether a toolkit compiles for the architecture; `without_capabilities` of its row is left out."""
    span = architecture["cuda"]
    return _within(span.get("from", ""), cuda, span.get("to", ""))


def has_code(name: str, architecture: Row, cudnn: Row) -> bool:
    """Whether a cuDNN (its row) has code for the architecture, because the toolkits have for which it was built."""
    if name in cudnn.get("without", ()):
        return False
    last, span = architecture.get("last_cudnn", ""), architecture["cuda"]
    newest = cudnn["cuda_to"] or cudnn["cuda_major"] + ".999"
    known = _within(span.get("from", ""), newest, "") and _within("", cudnn["cuda_from"], span.get("to", ""))
    return known and not (last and version_key(cudnn["version"])[:2] > version_key(last))


@functools.lru_cache(maxsize=4096)
def _within(first: str, value: str, last: str) -> bool:
    """Both ends included; an empty one is open. A last series such as "580" includes its releases."""
    key = version_key(value)
    return not (first and key < version_key(first)) and not (last and key[: len(version_key(last))] > version_key(last))
