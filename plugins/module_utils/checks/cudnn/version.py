# SPDX-License-Identifier: Apache-2.0
"""Check of cuDNN."""

from ...verdict.check import (
    DRAIN,
    FAIL,
    STANDARD,
    Check,
    Outcome,
    failed,
    passed,
    skipped,
)
from ...verdict.evidence import Evidence
from ..cuda.toolkit import compare_version, release
from ..reinstall import reinstall

CUDNN = {"header": "/usr/include/cudnn_version.h", "library": "/usr/lib64/libcudnn.so.{}"}


def cudnn_version(readings: Evidence, expected: Evidence) -> Outcome:
    """Header and library are both of the planned version: an old one left beside a new one breaks builds silently."""
    wanted = expected.wish("plan", "cudnn", "version")
    if not wanted:
        return skipped("not-planned", "the plan installs no cuDNN")
    for name in ("header", "library"):
        if readings.absent("cudnn", name):
            action = reinstall(readings, CUDNN[name].format(release(wanted, 1)), "system_cuda")
            return failed(
                "missing",
                "none",
                wanted,
                f"the {name} of cuDNN is missing",
                action,
                items=(name,),
            )
        outcome = compare_version("cuDNN " + name, readings.version("cudnn", name), wanted)
        if outcome.status != "PASS":
            return outcome
    return passed(readings.version("cudnn", "library"), wanted, "header and library agree")


CHECKS = (
    Check(
        id="cudnn.version",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Is the planned cuDNN installed, for builds and for programs?",
        judge=cudnn_version,
        needs_gpu=False,
        action=(
            "Run: ansible-playbook site.yml --tags system_cuda; remove files that were copied into the include folder "
            "by hand."
        ),
    ),
)
