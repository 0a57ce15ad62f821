# SPDX-License-Identifier: Apache-2.0
"""What an NVIDIA PCI device id (vendor 10de) says about a GPU, before any driver is there to be asked.

NVIDIA numbers its devices in blocks, one chip to a block, so a card without a name still has its architecture. The
table and its sources are roles/preflight/files/matrix/devices.yml; device_table.py is written from it.
"""

import collections

from .device_table import BLOCKS, CARDS, CHIPS

NVIDIA_VENDOR = "10de"

Device = collections.namedtuple("Device", "name architecture compute_capability")

NAMES = {device_id: name for device_id, (name, _chip_of_it) in CARDS.items()}


def describe_device(device_id):
    """The `Device` of a PCI device id such as "1db4"; what the tables do not know is named unknown and never guessed.

    The name of an unlisted card is "unknown 10de:xxxx"; its architecture is known all the same when its block is.
    """
    device_id = device_id.lower()
    name, chip = CARDS.get(device_id) or ("unknown {}:{}".format(NVIDIA_VENDOR, device_id), _chip(device_id))
    architecture, compute_capability = CHIPS.get(chip, ("unknown", None))
    return Device(name, architecture, compute_capability)


def _chip(device_id):
    try:
        number = int(device_id, 16)
    except ValueError:
        return None
    for first, last, chip in BLOCKS:
        if first <= number <= last:
            return chip
    return None


def find_devices(text):
    """PCI ids that a person may mean, sorted: by an id ("1db4", "10de:1DB4") or a name, with or without its maker.

    An empty list means that the tables know no such card.
    """
    wanted = text.strip().lower()
    device_id = wanted.split(":")[-1].replace("0x", "")
    if wanted.startswith(NVIDIA_VENDOR + ":") or device_id in NAMES:
        return [device_id] if describe_device(device_id).architecture != "unknown" else []
    exact = [key for key, name in NAMES.items() if name.lower() == wanted]
    plain = [key for key, name in NAMES.items() if without_maker(name) == without_maker(wanted)]
    return sorted(exact or plain)


def without_maker(name):
    """ "NVIDIA GeForce RTX 4090" and "RTX 4090" are one card to a person."""
    words = [
        word for word in name.lower().replace("-", " ").split() if word not in ("nvidia", "geforce", "tesla", "quadro")
    ]
    return " ".join(words)
