# SPDX-License-Identifier: Apache-2.0
"""The page's part on what people have decided about findings, and on cards that have failed: for a warranty claim."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.verdict.report import BY_INVENTORY, BY_ROOT

from .cells import Cell, Table, badge
from .values import as_list, in_words, is_number, look

WAIVED_HEAD = ("Check", "Status", "Decided by", "Until", "Reason", "The finding")
STRIKES_HEAD = ("Card", "What failed", "In boots", "First", "Last", "Last finding")
BY_THE_INVENTORY = "the inventory"
NO_END = "the inventory changes"


def waivers(report: dict[str, Any]) -> Table | None:
    """What is acknowledged or switched off, each with its reason; None if nothing is."""
    rows = [row for check in report["checks"] for row in _rows(check)]
    return Table("Findings that do not count, and who decided that", WAIVED_HEAD, rows) if rows else None


def _rows(check: dict[str, Any]) -> Iterable[list[Cell]]:
    status, waived = badge(check["status"]), look(check, "waived")
    if look(waived, "by") == BY_INVENTORY:
        reason = in_words(look(waived, "reason"))
        return [[check["id"], status, BY_THE_INVENTORY, NO_END, reason, "not looked at"]]
    if look(waived, "by") != BY_ROOT:
        return []
    finding = in_words(look(waived, "message"))
    return [
        [check["id"], status, *(in_words(look(entry, name)) for name in ("user", "until", "reason")), finding]
        for entry in as_list(look(waived, "acknowledgements"))
    ]


def idle(report: dict[str, Any]) -> list[str]:
    """Acknowledgements that cover nothing now, each with the reason."""
    entries = as_list(look(report, "acknowledgements"))
    return [
        "{} by {}: {}".format(*(in_words(look(entry, name)) for name in ("id", "user", "because")))
        for entry in entries
        if look(entry, "counts") is False
    ]


def strikes(report: dict[str, Any]) -> Table | str:
    """The cards of this host that have failed, by serial number; "" if none has, words if that is not known."""
    found = look(report, "strikes")
    if isinstance(found, str):
        return found
    cards = [card for card in as_list(found) if isinstance(card, dict)]
    rows = [
        [
            _card(card),
            _faults(look(card, "counts")),
            *(in_words(look(card, name)) for name in ("boots_total", "first", "last", "message")),
        ]
        for card in cards
    ]
    return Table("Failures of a card, counted once in a boot", STRIKES_HEAD, rows) if rows else ""


def _card(card: dict[str, Any]) -> str:
    names = (("serial ", "serial"), ("UUID ", "uuid"), ("", "name"), ("last at ", "pci_id"))
    return ", ".join(title + in_words(look(card, name)) for title, name in names if look(card, name))


def _faults(counts: Any) -> str:
    if not isinstance(counts, dict):
        return in_words(counts)
    ordered = sorted(counts, key=lambda name: (-counts[name] if is_number(counts[name]) else 0, str(name)))
    return ", ".join(f"{name} ({in_words(counts[name])})" for name in ordered) or "none"
