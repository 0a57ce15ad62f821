# SPDX-License-Identifier: Apache-2.0
"""Everything that the checks use, read once; a failure is `{"unreadable": "why"}` and never an exception."""

import time
from typing import Any, Callable, Dict, Mapping, Sequence

from ..gpu.nvidia_smi.query import DEFAULT_TIMEOUT_SECONDS, query
from ..host.in_child import Beside
from ..probe.host import probe
from ..readings.attempt import attempt
from ..verdict.check import QUICK, STANDARD, within
from ..verdict.reader import ALWAYS, WITHOUT_CARDS, Reader, Seen
from ..verdict.report import Record
from .all import CHECKS, READERS
from .site.reading import read_site_checks
from .site.rows import READING as SITE_CHECKS

NOTHING: Dict[str, Any] = {}
# Level quick promises an answer within 5 s, even if nvidia-smi hangs.
QUICK_NVIDIA_SMI_SECONDS = 3
LEAST_SECONDS = 1.0
# Each program of the environment has a limit of its own, below this; it is for a child that was killed or hangs.
CHILD_SECONDS = 900
NO_ANSWER = "the process that was to read it gave no answer; look for the reason in journalctl -k"


def collect(
    expectations: Record,
    root: str = "/",
    nvidia_smi_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    level: str = STANDARD,
    ahead: Mapping[str, Any] = NOTHING,
    site: bool = False,
    dkms: bool = False,
) -> Dict[str, Any]:
    """Read the node below `root`. `expectations` (see docs/parts/report.md) says where to look, not what to find.

    At level quick, the readings that take long are left out: toolkit, libraries, venv, permissions. At level deep, the
    speed of the GPUs is measured last, when no other reading uses them.

    `nvidia_smi_seconds` is how long nvidia-smi may take. Null means "it does not exist", which is a finding, not a
    failed reading. `ahead` are readings of `collect_ahead`, which are not taken again. `site`: the site's own checks
    are asked, too, for which no level sets a limit. `dkms`: DKMS is asked at level quick, too, where no check needs it.
    """
    readings = {"probe": attempt(_probe, root, dkms or level != QUICK)}
    begun = time.monotonic()
    readings["nvidia_smi"] = attempt(query, nvidia_smi_seconds)
    # All questions to nvidia-smi share what it may take.
    left = max(LEAST_SECONDS, nvidia_smi_seconds - (time.monotonic() - begun))
    seen = Seen(root, expectations, readings["probe"], readings["nvidia_smi"], left)
    for each in within(level):
        readings.update(collect_level(seen, each, ahead))
    if site:
        found = attempt(read_site_checks, root, {check.id for check in CHECKS})
        if found is not None:
            readings[SITE_CHECKS] = found
    return readings


def _probe(root: str, dkms: bool) -> Dict[str, Any]:
    return probe(root, owners=False, dkms=dkms)


def collect_level(seen: Seen, level: str, ahead: Mapping[str, Any] = NOTHING, scanned: bool = False) -> Dict[str, Any]:
    """The readings of exactly this level, with those that were taken `ahead`; of a host that nobody has set up, those
    that exist there (`scanned`)."""
    asked = [reader for reader in READERS if reader.level == level and (reader.scanned or not scanned)]
    taken = {reader.name: ahead[reader.name] for reader in asked if reader.ahead and reader.name in ahead}
    left = [reader for reader in asked if reader.name not in taken]
    # What loads the environment's libraries takes as long as all others together, and is a program of its own.
    loading = _begin([reader for reader in left if reader.ahead == WITHOUT_CARDS], seen)
    taken.update(_take([reader for reader in left if reader.ahead != WITHOUT_CARDS], seen))
    taken.update(loading())
    return {reader.name: taken[reader.name] for reader in asked}


def _take(readers: Sequence[Reader], seen: Seen) -> Dict[str, Any]:
    return {reader.name: attempt(reader.read, seen) for reader in readers}


def _begin(readers: Sequence[Reader], seen: Seen) -> Callable[[], Dict[str, Any]]:
    """Let a child take these readings, one after the other; what to call for them, which waits."""
    if not readers:
        return dict
    try:
        child = Beside(lambda own: _take(own, seen), readers)
    except OSError:
        # The host has no process or pipe to give.
        return lambda: _take(readers, seen)
    none = {reader.name: {"unreadable": NO_ANSWER} for reader in readers}
    return lambda: child.answer(CHILD_SECONDS) or none


def collect_ahead(expectations: Record, root: str = "/", cards_train: bool = False) -> Dict[str, Any]:
    """The slowest readings of level standard, for a caller that has to wait for a training meanwhile.

    They are such that the training does not change them, nor they the training: where it has the cards (`cards_train`),
    nothing else touches these.
    """
    smi = {"unreadable": "it is asked after the training"} if cards_train else attempt(query, DEFAULT_TIMEOUT_SECONDS)
    seen = Seen(root, expectations, attempt(_probe, root, True), smi)
    taken = (ALWAYS,) if cards_train else (ALWAYS, WITHOUT_CARDS)
    return _take([reader for reader in READERS if reader.ahead in taken], seen)
