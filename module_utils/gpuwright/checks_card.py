# SPDX-License-Identifier: Apache-2.0
"""What checks of single cards share: one rule for one card, applied to all; limits are data with their sources."""

import collections

from .checks_gpu import ASK_FIRST, answering_gpus
from .verdict import FAIL, QUICK, SKIP, WARN, Check, Outcome, passed, skipped, unknown

Limit = collections.namedtuple("Limit", "value unit source")
DIAGNOSE = "Stop using the card, run NVIDIA's field diagnostic, and have it replaced if it confirms."


def over_gpus(rule, expected_value, fine):
    """A check that asks `rule(gpu) -> (status, value, words)` of every card that answers; the worst card counts.

    One card for which the question makes no sense (SKIP) skips the check: what is left out must be seen.
    """

    def look(readings, expected):
        gpus = answering_gpus(readings)
        if not gpus:
            return unknown("the driver cannot be asked", expected=expected_value, action=ASK_FIRST)
        found = [(gpu.pci_id("pci_id"),) + rule(gpu) for gpu in gpus]
        for status in (FAIL, WARN, SKIP):
            hits = [(pci_id, value, words) for pci_id, state, value, words in found if state == status]
            if hits:
                message = "; ".join("{}: {}".format(pci_id, words) for pci_id, _value, words in hits)
                return skipped(message) if status == SKIP else Outcome(status, hits[0][1], expected_value, message)
        values = sorted({str(value) for _pci_id, _state, value, _words in found})
        return passed(", ".join(values), expected_value, fine)

    look.__doc__ = rule.__doc__
    return look


def card(name, question, action, rule, expected_value, fine, severity, remedy="", source="", unit="", firm_because=""):
    """A quick check of every card by one rule."""
    return Check(
        id="gpu." + name,
        layer="system",
        level=QUICK,
        severity=severity,
        remedy=remedy,
        question=question,
        judge=over_gpus(rule, expected_value, fine),
        unit=unit,
        firm_because=firm_because,
        action=action,
        source=source,
    )
