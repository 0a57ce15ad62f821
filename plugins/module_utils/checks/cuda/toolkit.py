# SPDX-License-Identifier: Apache-2.0
"""Checks of the CUDA toolkit: its version, and the link to it."""

from typing import Any, Dict

from ...readings.attempt import attempt
from ...readings.software import read_link, read_nvcc_version, read_toolkit_version_file
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
from ..reinstall import reinstall


def release(version: str, parts: int) -> str:
    """The first `parts` numbers of a dotted version."""
    return ".".join(version.split(".")[:parts])


def compare_version(what: str, found: str, wanted: str) -> Outcome:
    """PASS when `found`, cut to the precision of `wanted` or the reverse, is `wanted`."""
    parts = min(len(found.split(".")), len(wanted.split(".")))
    # A single number is not enough for a comparison.
    if parts >= 2 and release(found, parts) == release(wanted, parts):
        return passed(found, wanted, f"{what} {found}")
    return failed("other-version", found, wanted, f"{what} {found} instead of {wanted}")


def cuda_version(readings: Evidence, expected: Evidence) -> Outcome:
    """Both the toolkit's version.json and its compiler state the planned version.

    The distribution's toolkit lies in the system's own folders, without a version.json; its compiler gives the version.
    """
    wanted = expected.wish("plan", "cuda", "version")
    if not wanted:
        return skipped("not-planned", "the plan installs no CUDA toolkit")
    if readings.absent("cuda", "version_file") and readings.absent("cuda", "nvcc"):
        return failed("missing", "none", wanted, f"no toolkit in {expected.wish('plan', 'cuda', 'prefix')}")
    own_folder = bool(expected.wish("plan", "cuda", "link"))
    for name, what in (("version_file", "version.json"), ("nvcc", "nvcc"))[not own_folder :]:
        if readings.absent("cuda", name):
            path = "{}/{}".format(expected.wish("plan", "cuda", "prefix"), {"nvcc": "bin/nvcc"}.get(what, what))
            return failed(
                "incomplete", "none", wanted, f"the toolkit has no {what}", reinstall(readings, path, "system_cuda")
            )
        outcome = compare_version(what, readings.version("cuda", name), wanted)
        if outcome.status != "PASS":
            return outcome
    if not own_folder:
        return passed(readings.version("cuda", "nvcc"), wanted, "the compiler says so")
    return passed(readings.version("cuda", "version_file"), wanted, "toolkit and compiler agree")


def cuda_link(readings: Evidence, expected: Evidence) -> Outcome:
    """/usr/local/cuda points to the planned toolkit, so that builds and scripts find the same one."""
    if not expected.wish("plan", "cuda", "version"):
        return skipped("not-planned", "the plan installs no CUDA toolkit")
    if not expected.wish("plan", "cuda", "link"):
        return skipped("of-the-system", "the distribution's toolkit is in the system's own folders, which need no link")
    wanted = expected.text("plan", "cuda", "prefix")
    if readings.absent("cuda", "prefix"):
        return failed("missing", "none", wanted, f"there is no {wanted}")
    if readings.absent("cuda", "link"):
        return failed("dangling", "none", wanted, "/usr/local/cuda is a dangling link")
    target = readings.text("cuda", "link")
    # Their final targets are compared, since the prefix may itself be a link of the alternatives system.
    if target != readings.text("cuda", "prefix"):
        return failed("other-version", target, wanted, f"/usr/local/cuda points to {target}")
    return passed(target, wanted, f"/usr/local/cuda points to {target}")


def read_cuda(root: str, plan: Record) -> Dict[str, Any]:
    """The version that the planned toolkit itself states, and where the usual link leads."""
    prefix = plan["cuda"]["prefix"]
    return {
        "version_file": attempt(read_toolkit_version_file, root, prefix),
        "nvcc": attempt(read_nvcc_version, root, prefix),
        "link": attempt(read_link, root, "/usr/local/cuda"),
        "prefix": attempt(read_link, root, prefix),
    }


READ_CUDA = Reader(
    name="cuda",
    level=STANDARD,
    read=lambda seen: read_cuda(seen.root, seen.expectations["plan"]),
    source=by_hand("the CUDA toolkit's own version", "nvcc --version ; ls -lL /usr/local/cuda"),
    scanned=False,
)

CHECKS = (
    Check(
        id="cuda.version",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Is the planned CUDA toolkit installed?",
        judge=cuda_version,
        needs_gpu=False,
        action="Run: ansible-playbook site.yml --tags system_cuda",
        readers=(READ_CUDA,),
    ),
    Check(
        id="cuda.link",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Does /usr/local/cuda point to it?",
        judge=cuda_link,
        needs_gpu=False,
        action=(
            "Run: ansible-playbook site.yml --tags system_cuda ; to see what changed it: alternatives --display cuda"
        ),
    ),
)
