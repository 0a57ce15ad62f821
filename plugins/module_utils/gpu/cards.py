# SPDX-License-Identifier: Apache-2.0
"""Which card a GPU is, and what may be expected of it: all code that depends on the kind of card asks here.

The rows are in roles/preflight/files/matrix/devices.yml. A card without a row is classified by NVIDIA's names for its
product lines; a card that these do not classify either must meet the rules for data-centre cards, the strictest.
"""

import re
from typing import Dict, List, Optional

from ..host.versions import major, version_key
from .device_rows import Architecture, Card, Chip
from .device_table import ARCHITECTURES, BLOCKS, CARDS, CHIPS, NAMING

DATA_CENTRE, WORKSTATION, CONSUMER = "data-centre", "workstation", "consumer"
# The class of a card that neither a row nor a naming rule classifies.
UNPLACED = "unknown"
NO_ECC = "none"
BOARD = "board"
NO_CHIP = Chip("unknown", "")
NO_ARCHITECTURE = Architecture("", False)


def _first_of_chips() -> Dict[str, str]:
    """For each chip, the oldest first driver of its cards, if each of them has one."""
    found: Dict[str, List[str]] = {}
    for card in CARDS:
        found.setdefault(card.chip or "", []).append(card.first_driver or "")
    return {chip: min(firsts, key=version_key) for chip, firsts in found.items() if all(firsts)}


FIRST_OF_CHIP = _first_of_chips()


def plain(name: str) -> str:
    """A name in one spelling: drivers before 450 print it without "NVIDIA "."""
    words = name.lower().split()
    return " ".join(words[1:] if words[:1] == ["nvidia"] else words)


def _spellings(card: Card) -> List[str]:
    return [plain(name) for name in (card.name,) + card.names]


# Cards of one name may have different chips (GeForce RTX 3060); the properties looked up by name are the same.
BY_NAME = {spelling: card for card in reversed(CARDS) for spelling in _spellings(card)}
BY_ID: Dict[str, List[Card]] = {}
for _card in CARDS:
    for _id in _card.ids:
        BY_ID.setdefault(_id, []).append(_card)


def card_of(name: str = "", device_id: str = "") -> Card:
    """The row of a card, by its PCI device id ("1db4") if that has one, else by its name as nvidia-smi prints it.

    Without a row: a card with what its id's block and its name say, `listed` False and nothing else known.
    """
    device_id = device_id.lower()
    sharing = BY_ID.get(device_id, [])
    if sharing:
        return next((card for card in sharing if plain(name) in _spellings(card)), sharing[0])
    found = BY_NAME.get(plain(name))
    if found:
        return found
    rule = next((rule for rule in NAMING if re.search(rule.pattern, plain(name), re.IGNORECASE)), None)
    return Card(
        name=name,
        chip=chip_at(device_id),
        card_class=rule.card_class if rule else UNPLACED,
        nvlink=rule.nvlink if rule else "",
        tensor_cores=rule.tensor_cores if rule else True,
        listed=False,
    )


def chip_at(device_id: str) -> Optional[str]:
    """The chip whose block of ids includes this one; None if no block does."""
    try:
        number = int(device_id, 16)
    except ValueError:
        return None
    return next((chip for first, last, chip in BLOCKS if first <= number <= last), None)


def could_be(name: str, model: str) -> bool:
    """Whether `model` is a spelling of the card that `name` (from `name_of_id`) means."""
    one_of = [cards for device_id, cards in BY_ID.items() if name_of_id(device_id).lower() == name.lower()]
    return plain(name) == plain(model) or any(plain(model) in _spellings(card) for cards in one_of for card in cards)


def name_of_id(device_id: str) -> str:
    """The name that the id alone gives: "NVIDIA A2 or A16" if cards share it, "" for an id without a row."""
    names = [card.name for card in BY_ID.get(device_id, [])]
    return " or ".join(names[:1] + [name.split(" ", 1)[1] for name in names[1:]])


def chip_of(card: Card) -> Chip:
    return CHIPS.get(card.chip or "", NO_CHIP)


def architecture_named(name: str) -> Architecture:
    """The row of an architecture, by its name in lower case; if there is none, a row that claims nothing."""
    return ARCHITECTURES.get(name, NO_ARCHITECTURE)


def first_driver(card: Card, branch: str) -> Optional[str]:
    """The first release of a driver branch ("570") that drives a card.

    "" if any of them does, None if none does. Source: the tables of NVIDIA's open kernel modules. A card without a
    row counts as being as old as the first card with its chip that has one.
    """
    first = card.first_driver or (None if card.listed else FIRST_OF_CHIP.get(card.chip or ""))
    if not first:
        return ""
    if branch in card.later_branches:
        return card.later_branches[branch] or None
    begun = int(branch) - int(major(first))
    return None if begun < 0 else "" if begun else first


def is_strict(card: Card) -> bool:
    """Whether "N/A" from this card is not believed: data-centre cards, and those that cannot be classified."""
    return card.card_class not in (WORKSTATION, CONSUMER)


def needs_ecc(card: Card) -> bool:
    """Whether ECC that is off is a fault; a workstation card left as it was delivered has no fault."""
    return is_strict(card) or card.ecc_delivered == "Enabled"


def may_lack_ecc(card: Card) -> bool:
    """Whether "N/A" for ECC can be true of such a card."""
    return card.ecc == NO_ECC or card.card_class == CONSUMER or (card.ecc is None and not is_strict(card))


def may_lack_mig(card: Card) -> bool:
    """Whether "N/A" for MIG can be true; workstation cards that have MIG hide it until the display is off."""
    return card.mig is False or not is_strict(card)


def is_wired(card: Card) -> bool:
    """Whether all of its NVLinks are wired on its board, so that a link that is down is a fault."""
    return card.nvlink == BOARD


def has_nvlink(card: Card) -> bool:
    """Whether the card has NVLink, or may have it as far as is known."""
    return card.nvlink != "" or not card.listed


def has_tensor_cores(card: Card, capability: str) -> bool:
    """Whether a card of this compute capability ("7.5") has Tensor Cores: all from 7.0 on except some marked ones."""
    return int(capability.split(".")[0]) >= 7 and card.tensor_cores


def examples() -> List[Card]:
    """One card for every compute capability, the oldest first."""
    chosen = [card for card in CARDS if card.example]
    return sorted(chosen, key=lambda card: [int(part) for part in chip_of(card).compute_capability.split(".")])
