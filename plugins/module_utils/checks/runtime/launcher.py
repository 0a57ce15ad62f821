# SPDX-License-Identifier: Apache-2.0
"""Checks of what training is started with: allocators, and gpu-run."""

from typing import Any, Dict

from ...host.access import read_file
from ...launch.calibration.chosen import calibrated_arm
from ...launch.preload import PACKAGES, check_library
from ...launch.runtime_policy import LaunchError, load_policy
from ...readings.attempt import attempt
from ...verdict.check import (
    DRAIN,
    FAIL,
    QUICK,
    STANDARD,
    Check,
    Outcome,
    failed,
    passed,
    skipped,
    unknown,
)
from ...verdict.evidence import Evidence
from ...verdict.reader import Reader
from ...verdict.reading_sources import by_hand
from ...verdict.report import Record
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


LAUNCHER = "/usr/local/bin/gpu-run"


def read_allocators(root: str, plan: Record) -> Dict[str, Any]:
    """`{name: {path, problem}}` of the allocator libraries that the plan names, by the launcher's own test."""
    paths = {name: plan["runtime"].get(name, "") for name in sorted(PACKAGES)}
    return {name: attempt(read_allocator, root, name, path) for name, path in paths.items() if path}


def read_allocator(root: str, name: str, path: str) -> Dict[str, str]:
    try:
        check_library(path, PACKAGES[name], root)
    except LaunchError as error:
        return {"path": path, "problem": str(error)}
    return {"path": path, "problem": "none"}


def read_launcher(root: str) -> Dict[str, Any]:
    """The launcher's file (null if it does not exist), whether it can read its policy, its allocator and why."""
    try:
        policy = load_policy(root)
    except LaunchError as error:
        return {"file": attempt(read_file, root, LAUNCHER), "policy": str(error), "allocator": None}
    name, why = policy["allocator"], "named by the policy"
    if name == "calibrated":
        arm = calibrated_arm(root)
        name, why = arm.allocator, arm.why
    chosen = {"name": "malloc" if name == "none" else name, "why": why}
    return {"file": attempt(read_file, root, LAUNCHER), "policy": "ok", "allocator": chosen}


READ_ALLOCATORS = Reader(
    name="allocators",
    level=STANDARD,
    read=lambda seen: read_allocators(seen.root, seen.expectations["plan"]),
    source=by_hand("the allocators' libraries", "gpu-run --explain -- true"),
    scanned=False,
)
READ_LAUNCHER = Reader(
    name="launcher",
    level=QUICK,
    read=lambda seen: read_launcher(seen.root),
    source=by_hand("/usr/local/bin/gpu-run", "ls -l /usr/local/bin/gpu-run"),
    scanned=False,
)

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
        readers=(READ_ALLOCATORS,),
    ),
    Check(
        id="runtime.launcher",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Can training runs be started with gpu-run?",
        judge=launcher,
        needs_gpu=False,
        action="Run: ansible-playbook site.yml --tags system_runtime",
        readers=(READ_LAUNCHER,),
    ),
)
