# SPDX-License-Identifier: Apache-2.0
"""Check of a reboot that is due."""

from ...verdict.check import (
    FAIL,
    QUICK,
    REBOOT,
    Check,
    Outcome,
    failed,
    passed,
)
from ...verdict.evidence import Evidence


def reboot_pending(readings: Evidence, expected: Evidence) -> Outcome:
    """Nothing that is installed waits for a reboot; computed from the state of the node, not from what a run did."""
    if not readings.flag("probe", "reboot", "required"):
        return passed("no", "no", "no reboot is needed")
    reasons = [str(reason.value) for reason in readings.each("probe", "reboot", "reasons")]
    return failed("yes", "no", f"reboot required: {'; '.join(reasons) or 'no reason given'}")


CHECKS = (
    Check(
        id="reboot.pending",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=REBOOT,
        question="Is everything that is installed also running?",
        judge=reboot_pending,
        needs_gpu=False,
        action=(
            "When nobody works on the node, run: systemctl reboot ; a playbook run does so with "
            "system_reboot_policy=allowed"
        ),
    ),
)
