# SPDX-License-Identifier: Apache-2.0
"""Check of NCCL."""

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
    ),
)
