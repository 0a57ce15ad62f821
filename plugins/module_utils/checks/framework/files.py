# SPDX-License-Identifier: Apache-2.0
"""Check that the environment's files are as their packages installed them, by the same rules as the role's."""

from typing import List, Tuple

from ...verdict.check import DRAIN, FAIL, STANDARD, Check, Outcome, failed, passed, unknown
from ...verdict.evidence import Evidence

# The package that the model layer installs into the environment.
TRAINER = "gan-trainer"
REBUILD = (
    "Run: ansible-playbook site.yml --tags framework,model,verify ; it rebuilds a damaged environment, and the trainer "
    "in it."
)
OPEN = "Run: ansible-playbook site.yml --tags framework,model,verify ; it opens what is closed."


def damage(readings: Evidence) -> Tuple[List[str], str]:
    """Names of the damaged packages, and the first problem in words."""
    damaged = [name.text() for name in readings.each("environment", "damaged")]
    problems = readings.each("environment", "problems")
    words = "files are damaged"
    if problems:
        words = "{} {} ({})".format(*(problems[0].text(name) for name in ("path", "problem", "distribution")))
    return damaged, words


def files(readings: Evidence, expected: Evidence) -> Outcome:
    """Every file of the environment exists with the size that its package recorded and, if it was changed after the
    environment was complete, with the recorded hash; every package has the locked version. Level deep compares every
    hash. Everybody can use each file and each folder on the way to it.
    """
    if readings.absent("environment"):
        return failed("no-environment", "no venv", 0, f"there is no venv at {expected.wish('venv')}")
    damaged, words = damage(readings)
    number = readings.number("environment", "problem_count")
    looked_at = readings.number("environment", "files")
    if [name for name in damaged if name != TRAINER] or (number and not damaged):
        begin = "one problem" if number == 1 else f"{number} problems, such as"
        return failed("damaged", number, 0, f"{begin}: {words}", items=[name for name in damaged if name != TRAINER])
    closed = [path.text() for path in readings.each("environment", "closed")]
    if closed:
        number = readings.number("environment", "closed_count")
        more = f" and {number - 1} more" if number > 1 else ""
        words = f"{closed[0]}{more} cannot be used by others than root: a mode or umask has closed it"
        return failed("closed", number, 0, words, OPEN, items=closed)
    if not looked_at:
        return unknown("nothing-checked", "no file of the environment was checked", None, 0, REBUILD)
    packages = readings.number("environment", "distributions")
    return passed(0, 0, f"{looked_at} files of {packages} packages are as installed")


CHECKS = (
    Check(
        id="framework.files",
        layer="framework",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Are the files of the environment intact?",
        judge=files,
        unit="files",
        needs_gpu=False,
        action=(REBUILD + " If only level deep found it, add: -e framework_pytorch_check_hashes=true"),
        source="packaging.python.org, recording installed projects: RECORD has size and hash of each file",
    ),
)
