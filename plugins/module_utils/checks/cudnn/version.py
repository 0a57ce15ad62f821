# SPDX-License-Identifier: Apache-2.0
"""Check of cuDNN."""

from typing import Any, Dict, Optional

from ...host.versions import major
from ...readings.attempt import attempt
from ...readings.software import LIBRARY_FOLDERS, read_cudnn_of_wheel, read_header_version, read_library_version
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
from ...verdict.reader import Reader
from ...verdict.reading_sources import by_hand
from ...verdict.report import Record
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


def read_cudnn(root: str, plan: Record, user: str) -> Optional[Dict[str, Any]]:
    """cuDNN for programs that are compiled here (header) and for those that run here (library)."""
    wanted = plan["cudnn"]
    if not wanted["version"]:
        return None
    header = attempt(read_header_version, root, wanted["header"], "CUDNN")
    if wanted.get("wheel"):
        return {"header": header, "library": attempt(read_cudnn_of_wheel, root, wanted["prefix"], user)}
    folders = LIBRARY_FOLDERS + (plan["cuda"]["prefix"] + "/lib64",)
    library = attempt(read_library_version, root, "libcudnn", major(wanted["version"]), folders)
    return {"header": header, "library": library}


READ_CUDNN = Reader(
    name="cudnn",
    level=STANDARD,
    read=lambda seen: read_cudnn(seen.root, seen.expectations["plan"], seen.expectations["training_user"]),
    source=by_hand("cuDNN's header and library", "ldconfig -p | grep cudnn"),
    scanned=False,
)

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
            "Run: ansible-playbook site.yml --tags system_cuda ; remove files that were copied into the include folder "
            "by hand."
        ),
        readers=(READ_CUDNN,),
    ),
)
