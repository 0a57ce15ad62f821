# SPDX-License-Identifier: Apache-2.0
"""Who acts where no command can be typed, and what is seen afterwards: for the rows `BY_HAND` beside the checks."""

from typing import NamedTuple

CONTROLLER = "the person who runs the playbooks"
MACHINE = "a person with access to the machine, or its vendor"
VENDOR = "the vendor of the server or card"
NODE = "root on the node"
CLUSTER = "the administrator of the cluster"
FABRIC = "the administrator of the fabric manager"
NETWORK = "the administrator of the network"
STORAGE = "the administrator of the storage"
GUESTS = "the administrator of the virtual machine's host"
OWNER = "the person who runs the program, or root on the node"


class Hand(NamedTuple):
    """Who acts by hand, and what is seen afterwards; the check's own PASS is also needed and not repeated here."""

    who: str
    seen: str


# What checks of several modules share.
REPLACED = Hand(MACHINE, "the field diagnostic ends with PASS on the card, or another card is in its place")
COOL = Hand(MACHINE, "nvidia-smi -q -d TEMPERATURE,PERFORMANCE shows room below the limit under load")
RESEATED = Hand(MACHINE, "nvidia-smi -q | grep -A 12 'GPU Link Info' shows the slot's width and generation under load")
FAST = Hand(MACHINE, "the card is not held down under load: nvidia-smi -q -d PERFORMANCE")
ERRORS_END = "no new line of this kind appears after the next boot"
