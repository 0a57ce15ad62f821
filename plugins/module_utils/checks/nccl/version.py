# SPDX-License-Identifier: Apache-2.0
"""Check of NCCL."""

from typing import Any, Dict, Optional

from ...host.versions import major
from ...readings.attempt import attempt
from ...readings.software import read_library_version
from ...verdict.check import (
    DRAIN,
    FAIL,
    STANDARD,
    Check,
    Outcome,
    failed,
    skipped,
)
from ...verdict.evidence import Evidence
from ...verdict.reader import Reader
from ...verdict.reading_sources import by_hand
from ...verdict.report import Record
from ..cuda.toolkit import compare_version
from ..reinstall import reinstall

NCCL = "/usr/lib64/libnccl.so.2"


def nccl_version(readings: Evidence, expected: Evidence) -> Outcome:
    """The library that programs load is of the planned version."""
    wanted = expected.wish("plan", "nccl", "version")
    if not wanted:
        return skipped("not-planned", "the plan installs no NCCL beside the one in PyTorch")
    if readings.absent("nccl", "library"):
        return failed(
            "missing", "none", wanted, "the library of NCCL is not there", reinstall(readings, NCCL, "system_cuda")
        )
    return compare_version("NCCL", readings.version("nccl", "library"), wanted)


def read_nccl(root: str, plan: Record) -> Optional[Dict[str, Any]]:
    version = plan["nccl"]["version"]
    return {"library": attempt(read_library_version, root, "libnccl", major(version))} if version else None


READ_NCCL = Reader(
    name="nccl",
    level=STANDARD,
    read=lambda seen: read_nccl(seen.root, seen.expectations["plan"]),
    source=by_hand("NCCL's library", "ldconfig -p | grep nccl"),
    scanned=False,
)

CHECKS = (
    Check(
        id="nccl.version",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Is the planned NCCL installed?",
        judge=nccl_version,
        needs_gpu=False,
        action="Run: ansible-playbook site.yml --tags system_cuda",
        readers=(READ_NCCL,),
    ),
)
