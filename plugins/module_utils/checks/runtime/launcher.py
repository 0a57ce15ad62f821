# SPDX-License-Identifier: Apache-2.0
"""Checks of what training is started with: allocators, and gpu-run."""

from ...verdict.check import (
    DRAIN,
    FAIL,
    STANDARD,
    Check,
    Outcome,
    failed,
    passed,
    skipped,
    unknown,
)
from ...verdict.evidence import Evidence
from ..driver.files import bad_program
from ..reinstall import reinstall


def allocator(readings: Evidence, expected: Evidence) -> Outcome:
    """Each planned allocator library passes the launcher's own test: there, loadable, and changed by root only."""
    names = [name for name in ("jemalloc", "tcmalloc") if expected.wish("plan", "runtime", name)]
    if not names:
        return skipped("not-planned", "the plan installs no allocator library")
    for name in names:
        path = readings.text("allocators", name, "path")
        problem = readings.text("allocators", name, "problem")
        if path != expected.wish("plan", "runtime", name):
            return unknown("other-library", f"a library other than the planned one was checked: {path}")
        if problem != "none":
            return failed("unusable", "unusable", path, problem, reinstall(readings, path, "system_runtime"))
    return passed(", ".join(names), ", ".join(names), f"{' and '.join(names)} can be preloaded")


def launcher(readings: Evidence, expected: Evidence) -> Outcome:
    """gpu-run is a program that everybody may run and only root may change, and it can read its policy."""
    if readings.absent("launcher", "file"):
        return failed("missing", "missing", "runnable", "/usr/local/bin/gpu-run is not there")
    bad = bad_program(readings.at("launcher", "file"), "gpu-run", "0755")
    if bad:
        return bad
    policy = readings.text("launcher", "policy")
    if policy != "ok":
        return failed("bad-policy", "bad policy", "runnable", policy)
    name, why = readings.text("launcher", "allocator", "name"), readings.text("launcher", "allocator", "why")
    if name not in ("malloc", "jemalloc", "tcmalloc"):
        return unknown("unknown-allocator", f"gpu-run uses an unknown allocator: {name}")
    return passed("runnable", "runnable", f"gpu-run reads its policy; allocator {name}: {why}")


CHECKS = (
    Check(
        id="runtime.allocator",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Can the planned memory allocators be preloaded?",
        judge=allocator,
        needs_gpu=False,
        action="Run: ansible-playbook site.yml --tags system_runtime",
    ),
    Check(
        id="runtime.launcher",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Can training runs be started with gpu-run?",
        judge=launcher,
        needs_gpu=False,
        action="Run: ansible-playbook site.yml --tags system_runtime",
    ),
)
