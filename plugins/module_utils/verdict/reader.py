# SPDX-License-Identifier: Apache-2.0
"""A reading that a check defines: how it is taken, when, and where to look if it fails."""

from typing import Any, Callable, Mapping, NamedTuple

from .reading_sources import Source


class Seen(NamedTuple):
    """What a reader gets.

    root          the folder below which the host's files lie, "/" on the host itself
    expectations  those of docs/parts/report.md; a scan of a host without a plan has few of them
    probe         the fact gpu_node, or {"unreadable": why}
    nvidia_smi    nvidia-smi's answer, or {"unreadable": why}
    """

    root: str
    expectations: Mapping[str, Any]
    probe: Mapping[str, Any]
    nvidia_smi: Mapping[str, Any]


class Reader(NamedTuple):
    """One reading as data.

    name    its key in the report's readings, under which the checks look for it
    level   QUICK, STANDARD or DEEP: the level from which on it is taken, never above that of a check that uses it
    read    the value; null means "it does not exist". An exception makes the reading unreadable, with that reason
    source  what it reads, and the command that shows why that fails
    """

    name: str
    level: str
    read: Callable[[Seen], Any]
    source: Source
