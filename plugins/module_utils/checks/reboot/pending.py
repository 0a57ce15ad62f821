# SPDX-License-Identifier: Apache-2.0
"""Check of a reboot that is due."""

from ...verdict.check import (
    FAIL,
    QUICK,
    REBOOT,
    UNNAMED,
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
    # A probe of an earlier release has no codes: its reasons cannot be named.
    codes = "codes" in readings.names("probe", "reboot")
    items = [code.text() for code in readings.each("probe", "reboot", "codes")] if codes else [UNNAMED]
    words = f"reboot required: {'; '.join(reasons) or 'no reason given'}"
    return failed("pending", "yes", "no", words, items=items)


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
