# SPDX-License-Identifier: Apache-2.0
"""Waivers and strikes in a report, and as lines for people."""

from typing import Any, Dict, Iterable, List

from ...verdict.report import Record, printable
from ..all import CHECKS
from ..gpu.strikes_kept import counted, label
from .acknowledgements import Entry, why_not_now
from .rules import reported


def with_waivers(report: Record) -> Dict[str, Any]:
    """The report with `acknowledgements` (each with `counts` and `because`) and `strikes` (cards, or unreadable)."""
    strikes = counted(report["readings"], report["expectations"], report["checks"], CHECKS)
    return dict(
        report,
        acknowledgements=reported(report["readings"], report["checks"]),
        strikes=strikes.get("cards", strikes),
    )


def acknowledgement_lines(entries: Iterable[Entry], moment: Any) -> List[str]:
    """The lines that `gpu-doctor --acknowledgements` prints."""
    lines = []
    for entry in entries:
        why = why_not_now(entry, moment)
        lines.append(f"{entry['id']}: {'does not count: ' + why if why else 'in force'}")
        lines.append("  until {until}, by {user} (uid {uid}) at {when}: {reason}".format(**entry))
        lines.append(f"  the finding: {entry['message']}")
    return [printable(line) for line in lines] or ["Nothing is acknowledged on this node."]


def strike_lines(cards: Iterable[Record]) -> List[str]:
    """The lines that `gpu-doctor --strikes` prints: for a warranty claim, the card with the latest strike first."""
    lines = []
    for card in cards:
        name = card["name"] or "unknown model"
        lines.append(f"{label(card)}: {name}, UUID {card['uuid'] or '-'}, last seen at {card['pci_id']}")
        boots = f"{card['boots_total']} boot{'' if card['boots_total'] == 1 else 's'}"
        lines.append(f"  failed in {boots}, first {card['first']}, last {card['last']}")
        lines.append(f"  {faults_of(card)}")
        lines.append(f"  last: {card['message']}")
    return [printable(line) for line in lines] or ["No card of this node has a strike."]


def faults_of(card: Record) -> str:
    """For example "gpu.sram 3 times, kernel.xid:48 once"."""
    names = sorted(card["counts"], key=lambda name: (-card["counts"][name], name))
    return ", ".join(
        f"{name} {'once' if card['counts'][name] == 1 else '{} times'.format(card['counts'][name])}" for name in names
    )
