# SPDX-License-Identifier: Apache-2.0
"""Check of the resource limits of a training process."""

import re

from ...verdict.check import (
    STANDARD,
    WARN,
    Check,
    Outcome,
    passed,
    skipped,
    warned,
)
from ...verdict.evidence import (
    Evidence,
    Unreadable,
)
from ..host.system import in_container
from ..smoke.training import why_not_code, why_not_run

NO_LIMIT = "infinity"
MEMLOCK_MIB = 16384
FILES = 1048576


def limits(readings: Evidence, expected: Evidence) -> Outcome:
    """A training run may pin 16 GiB of memory or more, and open 1048576 files, since data workers pass files on.

    The limits of the smoke test count, since it runs as training runs do; a container cannot have more than its host
    gives it.
    """
    if in_container(readings):
        return skipped("in-container", in_container(readings))
    busy = why_not_run(readings)
    if busy and "limits" not in readings.at("smoke").value:
        return skipped(why_not_code(readings), busy)
    memory, files = (readings.text("smoke", "limits", name) for name in ("memlock", "files"))
    low = []
    if memory != NO_LIMIT and count(memory) < MEMLOCK_MIB * 1048576:
        low.append(f"{memory} bytes of pinned memory")
    if files != NO_LIMIT and count(files) < FILES:
        low.append(f"{files} open files")
    if low:
        return warned("limited", ", ".join(low), "no limit", f"training runs are limited to {' and '.join(low)}")
    return passed(memory, "no limit", f"pinned memory: {memory}, open files: {files}")


def count(text: str) -> int:
    if not re.match("[0-9]{1,20}$", text):
        raise Unreadable(f"a limit is neither a number nor {NO_LIMIT}: {text!r}", "readings.smoke")
    return int(text)


CHECKS = (
    Check(
        id="model.limits",
        layer="model",
        level=STANDARD,
        severity=WARN,
        question="Can training runs pin enough memory and open enough files?",
        judge=limits,
        needs_gpu=False,
        action="Run: ansible-playbook site.yml --tags model ; look for a drop-in: systemctl cat train-gan@x",
        source="linux-system-roles hpc test-tuning; AWS warns below 16 GiB",
    ),
)
