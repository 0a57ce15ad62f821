# SPDX-License-Identifier: Apache-2.0
"""What an acknowledgement of a check covers: the finding as it was, and nothing worse."""

import re
from typing import Any, Dict, List, Set

from ...host.patterns import lazily
from ...verdict.check import REMEDIES
from ...verdict.report import Record, printable
from . import acknowledgements
from .acknowledgements import CARD, Entry, cards_in

# Units of measured values, which always vary a little. Everything else is counted, and one more makes a difference.
MEASURED = ("C", "W", "MHz", "MiB", "GB/s", "TFLOP/s", "GT/s", "x")
NOISE = 0.05
NUMBER = lazily(r"(?<![\w.:/-])[0-9]+(?:\.[0-9]+)?(?![\w:]|\.[0-9])")
# Numbers that are names: "GPU 3" and "link 2" are places, not amounts.
NUMBERED = lazily(r"\b(?:GPU|link|card|port|node|device|rank|slot)s?\s+[0-9]+", re.IGNORECASE)
WORD = lazily(r"[^\s,;:()'\"]*[A-Za-z][^\s,;:()'\"]*")


def why_not_covered(entry: Entry, record: Record) -> str:
    """Why an acknowledgement of a check does not cover this FAIL of it, "" if it does.

    It covers the finding as it was: no other card, no other words, no stronger remedy, and no number that is worse, by
    one for counts and by 5 % for measured values.
    """
    message = kept_message(record["message"])
    others = [card for card in cards_in(message) if card not in entry["cards"]]
    if others:
        return f"it was given before {', '.join(others)} failed"
    if words_in(message) - words_in(entry["message"]):
        return f"it was given for another finding: {entry['message']}"
    if _gravity(record["remedy"]) > _gravity(entry["remedy"]):
        return f"it was given when the remedy was {entry['remedy']}, now it is {record['remedy']}"
    if _is_worse(entry, record, message):
        return f"it was given when the finding was less severe: {entry['message']}"
    return ""


def kept_message(text: str) -> str:
    """A message as an acknowledgement keeps it: one line, of limited length."""
    return printable(text)[: acknowledgements.LONGEST_MESSAGE]


def words_in(message: str) -> Set[str]:
    """The words of a message, without addresses of cards and amounts."""
    text = CARD.sub(" ", message)
    names = NUMBERED.findall(text)
    return set(names) | set(WORD.findall(NUMBERED.sub(" ", text)))


def _gravity(remedy: str) -> int:
    return REMEDIES.index(remedy) if remedy in REMEDIES else -1


def _is_worse(entry: Entry, record: Record, message: str) -> bool:
    """Whether a number has moved away from what is expected, for any card or, if none is named, at all.

    If it is not known which direction is worse, as with 8 lanes of "all", every change counts.
    """
    value, wanted = record["value"], record["expected"]
    both = _is_number(value) and _is_number(wanted)
    directions = ([-1] if value < wanted else [1]) if both and value != wanted else [-1, 1]
    noise = NOISE if record["unit"] in MEASURED else 0
    now, then = _by_card(message), _by_card(entry["message"])
    pairs = [(then.get(card, []), numbers) for card, numbers in now.items()]
    # With several cards, the value is that of one of them, not always of the same one.
    if cards_in(message) == entry["cards"] and _is_number(value) and _is_number(entry["value"]):
        pairs.append(([entry["value"]], [value]))
    for before, after in pairs:
        if len(before) != len(after):
            return True
        for place, new in enumerate(after):
            old = before[place]
            if any((new - old) * direction > noise * abs(old) for direction in directions):
                return True
    return False


def _by_card(message: str) -> Dict[str, List[float]]:
    """`{card: its numbers}`; under "" those before the first card, which are all if none is named."""
    texts, cards = {"": ""}, [""]
    for part in re.split(r"[;,] ", message):
        cards = cards_in(part) or cards
        for card in cards:
            texts[card] = texts.get(card, "") + " " + NUMBERED.sub(" ", CARD.sub(" ", part))
    return {card: [float(number) for number in NUMBER.findall(text)] for card, text in texts.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
