# SPDX-License-Identifier: Apache-2.0
"""The check of a card over many boots: one that fails again and again is worn, whatever it reports now."""

import os
import shlex
from typing import Dict, Mapping, NamedTuple

from ...verdict.by_hand import VENDOR, Hand
from ...verdict.check import (
    QUICK,
    WARN,
    Check,
    Outcome,
    passed,
    unknown,
    warned,
)
from ...verdict.evidence import Evidence
from ...verdict.report import Record, age_seconds
from .strikes_kept import PATH, identities, label, parse_strikes, same_card, time_of_aside

STRIKES = "gpu.strikes"


class Limit(NamedTuple):
    """A limit of this check, and its source."""

    value: int
    unit: str
    source: str


BOOTS = Limit(3, "boots", "gpud DefaultRebootThreshold: 2 reboots that did not help, then hardware inspection")
DAYS = Limit(30, "days", "the toolkit's own: long enough for rare faults, short enough for a repaired slot to count")
DAY_S = 86400


def strikes(readings: Evidence, expected: Evidence) -> Outcome:
    """No card of this node had a failure in three boots or more of the last 30 days, the present one included.

    Strikes count by serial number (UUID where a card has none), whichever slot, driver or boot. After two reboots that
    did not help, a third boot with a failure asks for an inspection. Source: gpud's reboot threshold. A damaged record
    of strikes is a WARN: it says nothing against the cards.
    """
    record = readings.at("strikes").value
    if isinstance(record, dict) and isinstance(record.get("unreadable"), str):
        action = f"Run: mv {PATH} {PATH}.damaged ; a warranty claim needs that file; counting starts again"
        return warned(
            "record-damaged", "damaged", BOOTS.value, f"strikes are not counted: {record['unreadable']}", action
        )
    try:
        cards = parse_strikes(record)["cards"]
    except ValueError as error:
        return unknown("record-damaged", f"the record of strikes is damaged: {error}", expected=BOOTS.value)
    aside = str(record.get("set_aside", ""))
    if not cards and not aside:
        return passed(0, BOOTS.value, "no card has a strike")
    now = readings.text("moment", "time")
    here = identities(readings.value)
    found = [(card, _recent(card, now)) for card in cards if _may_be_here(card, here)]
    worn = [(card, boots) for card, boots in found if boots >= BOOTS.value]
    if worn:
        words = "; ".join(_sentence(card, boots) for card, boots in worn)
        items = [card["pci_id"] for card, _boots in worn]
        return warned("fails-again", worn[0][1], BOOTS.value, words, items=items)
    if aside and _days_ago(time_of_aside(aside), now) <= DAYS.value:
        file = f"{os.path.dirname(PATH)}/{aside}"
        words = f"{PATH} was damaged, and is set aside as {aside}: earlier strikes are not counted"
        action = f"Run: mv {shlex.quote(file)} /root/ ; a warranty claim needs that file"
        return warned("record-damaged", "damaged", BOOTS.value, words, action)
    most = max([boots for _card, boots in found] or [0])
    return passed(most, BOOTS.value, f"no card failed in {BOOTS.value} boots of the last {DAYS.value} days")


def _may_be_here(card: Record, here: Mapping[str, Dict[str, str]]) -> bool:
    """Whether the card is in the node. Only if all cards report their identity can this be ruled out."""
    silent = [identity for identity in here.values() if not (identity["serial"] or identity["uuid"])]
    return not here or bool(silent) or any(same_card(card, dict(who, pci_id=slot)) for slot, who in here.items())


def _recent(card: Record, now: str) -> int:
    """In how many boots of the last days it failed; a time that is unreadable, or in the future, counts as recent."""
    return sum(_days_ago(boot["time"], now) <= DAYS.value for boot in card["boots"])


def _days_ago(time: str, now: str) -> float:
    try:
        return age_seconds(time, now) / float(DAY_S)
    except ValueError:
        return 0


def _sentence(card: Record, boots: int) -> str:
    faults = ", ".join(f"{name} ({card['counts'][name]})" for name in sorted(card["counts"]))
    return "{} ({} at {}) failed in {} boots of the last {} days, in {} boots altogether since {}: {}".format(
        label(card), card["name"] or "unknown model", card["pci_id"], boots, DAYS.value, card["boots_total"],
        card["first"], faults,
    )  # fmt: skip


CHECKS = (
    Check(
        id=STRIKES,
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Does a card fail repeatedly?",
        judge=strikes,
        unit="boots",
        action=(
            "Run NVIDIA's field diagnostic on the card and claim its replacement; gpu-doctor --strikes shows what a "
            "claim needs"
        ),
        source=BOOTS.source,
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "gpu.strikes": Hand(VENDOR, "the card is replaced: gpu-doctor --strikes counts by serial number"),
}
