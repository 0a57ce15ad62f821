# SPDX-License-Identifier: Apache-2.0
"""Shared by checks of single cards: a rule for one card, applied to all; limits are data with their sources."""

from typing import Any, Callable, Iterable, List, NamedTuple, Optional, Tuple, Union

from ...verdict.check import FAIL, QUICK, SKIP, WARN, Check, Judge, Outcome, passed, skipped, slots, unknown
from ...verdict.evidence import Evidence
from .cards import ASK_FIRST, answering_gpus

DIAGNOSE = "Stop using the card, run NVIDIA's field diagnostic, and have it replaced if that confirms the fault."
# Status, code, value and words: a rule's result for one card. Where it is PASS, the code does not matter.
Judged = Tuple[str, str, Any, str]
Rule = Callable[[Evidence], Judged]
# The action for the cards of a finding, if a command must name them.
Repair = Callable[[List[Evidence]], str]


class Limit(NamedTuple):
    """A limit for cards, and its source."""

    value: Union[int, float]
    unit: str
    source: str


def over_gpus(rule: Rule, expected_value: Any, fine: str, repair: Optional[Repair] = None) -> Judge:
    """A check that asks `rule(gpu) -> (status, code, value, words)` of every card that answers; the worst card counts.

    `repair(gpus)` is the action for the cards of the finding, if a command must name them.

    One card to which the question does not apply (SKIP) skips the check: an omission must be visible.
    """

    def look(readings: Evidence, expected: Evidence) -> Outcome:
        gpus = answering_gpus(readings)
        if not gpus:
            return unknown("silent", "the driver cannot be queried", expected=expected_value, action=ASK_FIRST)
        found = [(gpu, rule(gpu)) for gpu in gpus]
        for status in (FAIL, WARN, SKIP):
            hits = [(gpu, code, value, words) for gpu, (state, code, value, words) in found if state == status]
            if hits:
                message = "; ".join(f"{gpu.pci_id('pci_id')}: {words}" for gpu, _code, _value, words in hits)
                _gpu, code, value, _words = hits[0]
                if status == SKIP:
                    return skipped(code, message)
                bad = [gpu for gpu, _code, _value, _words in hits]
                items = slots(gpu.pci_id("pci_id") for gpu in bad)
                action = repair(bad) if repair else ""
                return Outcome(status, code, value, expected_value, message, action, items=items)
        values = sorted({str(value) for _gpu, (_state, _code, value, _words) in found})
        return passed(", ".join(values), expected_value, fine)

    look.__doc__ = rule.__doc__
    return look


def addresses(gpus: Iterable[Evidence]) -> str:
    """The cards in the form that nvidia-smi -i takes."""
    return ",".join(gpu.pci_id("pci_id") for gpu in gpus)


def card(
    name: str,
    question: str,
    action: str,
    rule: Rule,
    expected_value: Any,
    fine: str,
    severity: str,
    remedy: str = "",
    source: str = "",
    unit: str = "",
    firm_because: str = "",
    repair: Optional[Repair] = None,
) -> Check:
    """A quick check of every card by one rule."""
    return Check(
        id="gpu." + name,
        layer="system",
        level=QUICK,
        severity=severity,
        remedy=remedy,
        question=question,
        judge=over_gpus(rule, expected_value, fine, repair),
        unit=unit,
        firm_because=firm_because,
        action=action,
        source=source,
    )
