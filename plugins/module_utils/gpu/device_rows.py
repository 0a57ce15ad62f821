# SPDX-License-Identifier: Apache-2.0
"""The kinds of rows in device_table.py; roles/preflight/files/matrix/devices.yml explains each field."""

from typing import Dict, NamedTuple, Optional, Tuple


class Architecture(NamedTuple):
    """`memory_repair`: pages or rows. `application_clocks`: all its data-centre cards show them. `amp_ratio`: x.

    `needs_gsp`: its cards do not run without the driver's firmware. `mig_hides_ecc`: for a card in MIG mode, older
    drivers count memory errors only per slice.
    """

    memory_repair: str
    application_clocks: bool
    amp_ratio: Optional[float] = None
    amp_text: str = ""
    needs_gsp: bool = False
    mig_hides_ecc: bool = False


class Chip(NamedTuple):
    """A chip, known by its compute capability: "7.0" of the architecture "volta"."""

    architecture: str
    compute_capability: str


class Card(NamedTuple):
    """One card; None, "" or an empty collection means not known. `listed` is False for a card without a row."""

    name: str
    chip: Optional[str]
    card_class: str
    ids: Tuple[str, ...] = ()
    names: Tuple[str, ...] = ()
    memory_kind: Optional[str] = None
    memory_gib: Optional[int] = None
    mig: Optional[bool] = None
    ecc: Optional[str] = None
    ecc_delivered: Optional[str] = None
    pcie_generation: Optional[int] = None
    pcie_lanes: Optional[int] = None
    nvlink: str = ""
    direct_links: bool = False
    tensor_cores: bool = True
    fixed_memory_clock: bool = False
    first_driver: Optional[str] = None
    later_branches: Dict[str, str] = {}
    machine: str = ""
    example: bool = False
    peaks: Dict[str, float] = {}
    known_good: Tuple[str, ...] = ()
    listed: bool = True


class NamingRule(NamedTuple):
    """What the name of an unlisted card tells; `pattern` is searched for in the name without its maker."""

    pattern: str
    card_class: str
    nvlink: str = ""
    tensor_cores: bool = True


class KnownGood(NamedTuple):
    """Measurements on good cards in GB/s and TFLOP/s; `share` of them is the floor. `gpus`: only for this many GPUs."""

    measures: Dict[str, float]
    text: str
    share: float = 0.75
    gpus: Optional[int] = None


class Platform(NamedTuple):
    """A board with switches between its GPUs, and what its node needs beside the driver; platforms.yml has the rules.

    `switches`, `gpus`: first and last PCI device id of each range. `needs`: rows of platform_parts.
    `boards`: names of servers with it, each with the number and the name of its cards.
    """

    key: str
    name: str
    architectures: Tuple[str, ...]
    needs: Tuple[str, ...]
    switches: Tuple[Tuple[str, str], ...] = ()
    gpus: Tuple[Tuple[str, str], ...] = ()
    bridges: bool = False
    machine: str = ""
    boards: Tuple[Tuple[str, int, str], ...] = ()
