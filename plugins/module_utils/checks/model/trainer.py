# SPDX-License-Identifier: Apache-2.0
"""Checks of the trainer: its package and the files that only root may change."""

from typing import Collection

from ...verdict.check import (
    DRAIN,
    FAIL,
    STANDARD,
    Check,
    Outcome,
    failed,
    passed,
    unknown,
)
from ...verdict.evidence import Evidence
from ..framework.files import TRAINER, damage
from ..standard_readings import ROOT_ONLY


def trainer_installed(readings: Evidence, expected: Evidence) -> Outcome:
    """The trainer package can be imported by the venv's Python, and its files are as they were installed."""
    if readings.absent("venv"):
        return failed("no-environment", "no venv", "ok", f"there is no venv at {expected.wish('venv')}")
    result = readings.text("venv", "imports", "gan_trainer")
    if result != "ok":
        return failed("cannot-import", result, "ok", f"import gan_trainer: {result}", items=("gan_trainer",))
    damaged, words = damage(readings)
    if TRAINER in damaged:
        return failed("damaged", "damaged", "ok", words if TRAINER in words else f"files of {TRAINER} are damaged")
    version = readings.version("venv", "versions", "gan_trainer")
    return passed(version, "importable", f"gan_trainer {version}")


def close_again(paths: Collection[str]) -> str:
    """The command that returns the named files to root: our whole folders, since only the first files are named."""
    folders = sorted({folder for folder in ROOT_ONLY for path in paths if (path + "/").startswith(folder + "/")})
    if not folders:
        return ""
    # -h: changes the owner of a link itself, never of its target.
    return "Run: chown -Rh root:root {0} ; chmod -R go-w {0} ; then find out who changed it.".format(" ".join(folders))


def permissions(readings: Evidence, expected: Evidence) -> Outcome:
    """Only root may change programs, shared code, venv and expectations."""
    missing = [path.text() for path in readings.each("permissions", "missing")]
    number = readings.number("permissions", "unsafe_count")
    looked_at = readings.number("permissions", "looked_at")
    examples = [example.text() for example in readings.each("permissions", "unsafe")]
    words = f"{number} files, such as {examples[0] if examples else 'unnamed ones'}"
    if missing:
        more = f"; {words}" if number or examples else ""
        lack = f"missing: {', '.join(missing)}{more}"
        return failed(
            "missing-and-unsafe" if more else "missing",
            len(missing),
            0,
            lack,
            "Run: ansible-playbook site.yml",
            items=missing,
        )
    if number or examples:
        return failed(
            "unsafe",
            number,
            0,
            words,
            close_again([example.partition(": ")[0] for example in examples]),
            items=tuple(example.partition(": ")[0] for example in examples),
        )
    if not looked_at:
        return unknown("nothing-checked", "no file was checked")
    return passed(0, 0, f"{looked_at} files, which only root can change")


CHECKS = (
    Check(
        id="model.trainer_installed",
        layer="model",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Can the trainer be imported?",
        judge=trainer_installed,
        needs_gpu=False,
        action="Run: ansible-playbook site.yml --tags model,verify",
    ),
    Check(
        id="model.permissions",
        layer="model",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Can only root change what root and training runs execute?",
        judge=permissions,
        unit="files",
        needs_gpu=False,
        action="Run: chown -R root:root FILE ; chmod -R go-w FILE ; find out who changed the files that are named",
    ),
)
