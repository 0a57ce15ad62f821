# SPDX-License-Identifier: Apache-2.0
"""The check of what silences other checks: a waiver that cannot be applied must not go unnoticed."""

from typing import Any, List

from ...verdict.check import (
    QUICK,
    WARN,
    Check,
    Outcome,
    passed,
    warned,
)
from ...verdict.evidence import Evidence
from .rules import asked_skips, parse_entries, problems_of_skips

# All checks there are, this one among them: `checks.all` fills it, which imports this file.
KNOWN: List[Check] = []
RESTORE = "Run: mv {0} {0}.damaged ; then acknowledge again what is still accepted"


def valid(readings: Evidence, expected: Evidence) -> Outcome:
    """The file of acknowledgements can be trusted, none of them is for a check that may not be waived, and every check
    that the inventory switches off exists and may be switched off. An invalid one has no effect and is a WARN.

    A damaged file does not close the gate by itself: without acknowledgements every finding counts.
    """
    record = readings.at("acknowledgements")
    problem = _damage(record.value)
    if problem:
        words = f"no acknowledgement counts: {problem}"
        return warned("damaged", "damaged", "valid", words, RESTORE.format("/var/lib/gpuwright/acknowledgements.json"))
    record.each()
    firm = {check.id: check.firm_because for check in KNOWN if not check.waivable}
    names = sorted(entry["id"] for entry in record.value if entry["id"] in firm)
    if names:
        withdraw = " ; ".join(f"sudo gpu-doctor --withdraw {name}" for name in names)
        words = "; ".join(f"{name} cannot be acknowledged: {firm[name]}" for name in names)
        return warned("firm", ", ".join(names), "valid", words, "Run: " + withdraw, items=names)
    # A record of an older release has none.
    if "skip_checks" in expected.value:
        expected.names("skip_checks")
    refused = problems_of_skips(expected.value, KNOWN)
    if refused:
        words = "; ".join(f"{name}: {refused[name]}" for name in sorted(refused))
        return warned(
            "refused",
            ", ".join(sorted(refused)),
            "valid",
            f"verify_skip_checks has no effect: {words}",
            items=sorted(refused),
        )
    numbers = len(record.value), len(asked_skips(expected.value))
    return passed("valid", "valid", "{} acknowledgements kept, {} checks switched off".format(*numbers))


def _damage(value: Any) -> str:
    """What is wrong with the reading, "" if nothing is or if it is not a reading at all."""
    if isinstance(value, dict) and isinstance(value.get("unreadable"), str):
        return value["unreadable"]
    try:
        parse_entries(value)
    except ValueError as error:
        return str(error) if isinstance(value, list) else ""
    return ""


CHECKS = (
    Check(
        id="waivers.valid",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Are all acknowledgements and all switched-off checks valid?",
        judge=valid,
        needs_gpu=False,
        firm_because="it shows that a waiver has no effect",
        action="Correct verify_skip_checks in the inventory, then run: ansible-playbook site.yml --tags verify",
    ),
)
