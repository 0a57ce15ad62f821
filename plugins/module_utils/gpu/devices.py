# SPDX-License-Identifier: Apache-2.0
"""What an NVIDIA PCI device id (vendor 10de) says about a GPU, before a driver is installed that could be asked.

NVIDIA numbers its devices in blocks, one chip to a block, so the architecture is known even for a card without a name.
The table and its sources are in roles/preflight/files/matrix/devices.yml; gpu/cards.py reads it.
"""

from typing import List, NamedTuple, Optional

from .cards import BY_ID, CHIPS, card_of, chip_of, name_of_id

NVIDIA_VENDOR = "10de"


class Device(NamedTuple):
    """What an id alone tells; compute_capability ("7.0") is None if the chip has none or is not known."""

    name: str
    architecture: str
    compute_capability: Optional[str]


NAMES = {device_id: name_of_id(device_id) for device_id in BY_ID}
ARCHITECTURES = {chip.architecture for chip in CHIPS.values()}


def describe_device(device_id: str) -> Device:
    """The `Device` of a PCI device id such as "1db4"; what is not in the tables is named unknown and never guessed.

    The name of an unlisted card is "unknown 10de:xxxx"; its architecture is still known if its block is.
    """
    device_id = device_id.lower()
    chip = chip_of(card_of(device_id=device_id))
    name = NAMES.get(device_id) or f"unknown {NVIDIA_VENDOR}:{device_id}"
    return Device(name, chip.architecture, chip.compute_capability or None)


def find_devices(text: str) -> List[str]:
    """PCI ids that a person may mean, sorted: by an id ("1db4", "10de:1DB4") or a name, with or without its maker.

    An empty list means that the tables have no such card.
    """
    wanted = text.strip().lower()
    device_id = wanted.split(":")[-1].replace("0x", "")
    if wanted.startswith(NVIDIA_VENDOR + ":") or device_id in NAMES:
        return [device_id] if describe_device(device_id).architecture != "unknown" else []
    spelled = [(key, name) for key, cards in BY_ID.items() for card in cards for name in (card.name,) + card.names]
    exact = {key for key, name in spelled if name.lower() == wanted}
    plain = {key for key, name in spelled if without_maker(name) == without_maker(wanted)}
    return sorted(exact or plain)


def without_maker(name: str) -> str:
    """ "NVIDIA GeForce RTX 4090" and "RTX 4090" are one card to a person."""
    words = [
        word for word in name.lower().replace("-", " ").split() if word not in ("nvidia", "geforce", "tesla", "quadro")
    ]
    return " ".join(words)
