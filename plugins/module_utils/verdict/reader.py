# SPDX-License-Identifier: Apache-2.0
"""A reading: how it is taken, when, and where to look if it fails."""

from typing import Any, Callable, List, Mapping, NamedTuple

from .reading_sources import Source

ALWAYS, WITHOUT_CARDS = "always", "without cards"


class Seen(NamedTuple):
    """What a reader gets.

    root          the folder below which the host's files lie, "/" on the host itself
    expectations  those of docs/parts/report.md; a scan of a host without a plan has few of them
    probe         the fact gpu_node, or {"unreadable": why}
    nvidia_smi    nvidia-smi's answer, or {"unreadable": why}
    smi_seconds   how long it may take when a reader asks it for more
    """

    root: str
    expectations: Mapping[str, Any]
    probe: Mapping[str, Any]
    nvidia_smi: Mapping[str, Any]
    smi_seconds: float = 30.0

    def cards(self) -> List[Any]:
        """The probe's cards; ValueError where it could not be taken."""
        for found in (self.probe, self.probe.get("gpus")):
            if isinstance(found, dict) and "unreadable" in found:
                raise ValueError(found["unreadable"])
        return list(self.probe["gpus"])


class Reader(NamedTuple):
    """One reading as data.

    name    its key in the report's readings, under which the checks look for it
    level   QUICK, STANDARD or DEEP: the level from which on it is taken, never above that of a check that uses it
    read    the value; null means "it does not exist". An exception makes the reading unreadable, with that reason
    source  what it reads, and the command that shows why that fails
    ahead   ALWAYS or WITHOUT_CARDS if it is so slow that it is taken while a training runs, in any case or only if that
            has no card: neither changes what the other finds. Where none runs, those WITHOUT_CARDS, which load the
            environment's libraries, are taken by a child while the others of their level are
    scanned whether it says something about a host that the toolkit has not set up
    """

    name: str
    level: str
    read: Callable[[Seen], Any]
    source: Source
    ahead: str = ""
    scanned: bool = True
