# SPDX-License-Identifier: Apache-2.0
"""The page's part on what people have decided about findings, and on cards that have failed: for a warranty claim."""

from ..verdict.report import BY_INVENTORY, BY_ROOT
from .markup import el, join, listed, table, word
from .values import as_list, in_words, is_number, look

WAIVED_HEAD = ("Check", "Status", "Decided by", "Until", "Reason", "The finding")
STRIKES_HEAD = ("Card", "What failed", "In boots", "First", "Last", "Last finding")
BY_THE_INVENTORY = "the inventory"
NO_END = "the inventory changes"


def waivers(report):
    """What is acknowledged or switched off, each with its reason; "" when nothing is."""
    rows = [row for check in report["checks"] for row in _rows(check)]
    idle = [
        "{} by {}: {}".format(in_words(look(entry, "id")), in_words(look(entry, "user")), in_words(because))
        for entry, because in _idle(report)
    ]
    parts = [table(WAIVED_HEAD, rows, "Findings that do not count, and who has decided so")] if rows else []
    parts += [el("p", "Acknowledgements that cover nothing now:"), listed(idle, "")] if idle else []
    return join(parts) if parts else ""


def _rows(check):
    status, waived = word(check["status"]), look(check, "waived")
    if look(waived, "by") == BY_INVENTORY:
        return [(check["id"], status, BY_THE_INVENTORY, NO_END, in_words(look(waived, "reason")), "not looked at")]
    if look(waived, "by") != BY_ROOT:
        return []
    finding = in_words(look(waived, "message"))
    return [
        (check["id"], status, *(in_words(look(entry, name)) for name in ("user", "until", "reason")), finding)
        for entry in as_list(look(waived, "acknowledgements"))
    ]


def _idle(report):
    """Acknowledgements that do not count, and why."""
    entries = as_list(look(report, "acknowledgements"))
    return [(entry, look(entry, "because")) for entry in entries if look(entry, "counts") is False]


def strikes(report):
    """The cards of this host that have failed, by serial number; "" when none has."""
    found = look(report, "strikes")
    if isinstance(found, str):
        return el("p", found)
    cards = [card for card in as_list(found) if isinstance(card, dict)]
    rows = [
        (
            _card(card),
            _faults(look(card, "counts")),
            in_words(look(card, "boots_total")),
            in_words(look(card, "first")),
            in_words(look(card, "last")),
            in_words(look(card, "message")),
        )
        for card in cards
    ]
    return table(STRIKES_HEAD, rows, "Failures of a card, counted once in a boot") if rows else ""


def _card(card):
    names = (("serial ", "serial"), ("UUID ", "uuid"), ("", "name"), ("last at ", "pci_id"))
    return ", ".join(title + in_words(look(card, name)) for title, name in names if look(card, name))


def _faults(counts):
    if not isinstance(counts, dict):
        return in_words(counts)
    ordered = sorted(counts, key=lambda name: (-counts[name] if is_number(counts[name]) else 0, str(name)))
    return ", ".join("{} ({})".format(name, in_words(counts[name])) for name in ordered) or "none"
