# SPDX-License-Identifier: Apache-2.0
"""What a node should be: the record of the role `verify`, with which gpu_verify and gpu-doctor compare it."""

import re
from typing import Any, Dict, List, Mapping

from ..host.patterns import lazily
from ..host.written.state_file import ANY, MOST_BYTES, parsed
from .evidence import Evidence

EXPECTATIONS_PATH = "/etc/gpuwright/expectations.json"
SCHEMA = 1
# The repositories that a node relies on, and the reading of them.
REPOSITORIES = "repositories"
# Optional expectations of an inventory, and their values for a record of an older release: nothing is expected.
OPTIONAL = (
    ("modules", list, "a list"),
    ("services", list, "a list"),
    ("host", dict, "a record"),
    ("slowdowns", list, "a list of clock event reasons"),
    # card: names of the MIG devices into which it is cut.
    ("mig", dict, "a record"),
    # id of a check: why it is switched off. An entry that cannot be applied is a WARN of waivers.valid, not an error
    # here.
    ("skip_checks", dict, "a record"),
    # How the toolkit was started, for the commands in messages: checkout or collection.
    ("started_as", str, "a string"),
    # The node's name in the inventory, for the limit of a playbook in messages.
    ("inventory_name", str, "a string"),
)
# Clock event reasons as nvidia-smi names them; the idle one is never a fault.
SLOWDOWNS = (
    "applications_clocks_setting",
    "display_clocks_setting",
    "hw_power_brake_slowdown",
    "hw_slowdown",
    "hw_thermal_slowdown",
    "sw_power_cap",
    "sw_thermal_slowdown",
    "sync_boost",
)
MOST_LANES = 32
ALL_CARDS = "all"
# As nvidia-smi numbers the cards, a PCI address, a UUID, or all that are not named; profiles as `nvidia-smi mig -lgip`
# names them.
MIG_CARD = lazily(
    ALL_CARDS + r"|[0-9]{1,2}|[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?|GPU-[0-9a-fA-F-]{36}"
)
MIG_PROFILE = lazily(r"[1-7]g\.[0-9]{1,3}gb(?:[+-][a-z]+(?:\.[a-z]+)?)?")
MOST_MIG = 7
PLAN_PARTS = ("driver", "cuda", "cudnn", "nccl", "pytorch", "runtime")

# name: (pattern of its text, what was expected in words). The user name is what useradd accepts.
RULES = (
    ("schema", r"[0-9]+", "a whole number"),
    ("gpu_count", r"[0-9]+", "a whole number, 0 or more"),
    ("gpu_model", r"[^\0-\x1f]*", 'a name that nvidia-smi prints, such as "Tesla V100-PCIE-16GB", or "" for any'),
    ("venv", r"/[^\0]*", "an absolute path"),
    ("smoke_device", r"cuda|cpu", "cuda or cpu"),
    ("training_user", r"[a-z_][a-z0-9_-]*", "the name of a user"),
)


def parse_expectations(record: Any) -> Dict[str, Any]:
    """A copy of `record` with numbers as numbers; ValueError says which value is wrong and what was expected.

    A number may come as digits in a text, since that is what Ansible's templates produce.
    """
    if not isinstance(record, dict):
        raise ValueError(f"expectations: expected a record, found {record!r}")
    parsed = dict(record)
    for name, pattern, words in RULES:
        value = record.get(name)
        if not isinstance(value, (int, str)) or isinstance(value, bool) or not re.fullmatch(pattern, str(value)):
            raise ValueError(f"expectations: {name} is {value!r}; expected {words}")
        parsed[name] = int(value) if words.startswith("a whole number") else str(value)
    if parsed["schema"] != SCHEMA:
        raise ValueError(f"expectations: schema is {parsed['schema']}; this program knows {SCHEMA}")
    for name, kind, words in OPTIONAL:
        parsed.setdefault(name, kind())
        if not isinstance(parsed[name], kind):
            raise ValueError(f"expectations: {name} is {parsed[name]!r}; expected {words}")
    parsed["link_width"] = parse_lanes(record.get("link_width", 0))
    parsed["dcgm_level"] = parse_dcgm_level(record.get("dcgm_level", 0))
    strange = [reason for reason in parsed["slowdowns"] if reason not in SLOWDOWNS]
    if strange:
        raise ValueError(f"expectations: slowdowns contains {strange[0]!r}; expected some of {', '.join(SLOWDOWNS)}")
    parsed["mig"] = parse_mig(parsed["mig"])
    parsed["host"] = {name: parse_size(name, value) for name, value in parsed["host"].items()}
    plan = record.get("plan")
    missing = [part for part in PLAN_PARTS if not (isinstance(plan, dict) and isinstance(plan.get(part), dict))]
    if missing:
        raise ValueError(f"expectations: plan has no {', '.join(missing)}; expected what gpu_plan returned")
    return parsed


def shown_cards(gpu_count: int, mig: Any) -> int:
    """How many devices CUDA shows to a program that names none, of a node with these cards.

    mig  the declared layouts, {card: [profiles]}: beside a MIG device, CUDA shows no other one (MIG user guide, "CUDA
         device enumeration")
    """
    return 1 if isinstance(mig, dict) and any(mig.values()) else gpu_count


def read_own(path: str = EXPECTATIONS_PATH) -> Any:
    """The node's own expectations, still to be parsed; ValueError says why they cannot be read."""
    try:
        with open(path, "rb") as file:
            return parsed(file.read(MOST_BYTES), ANY, path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}; expected what the role verify wrote")


def parse_size(name: str, value: Any) -> int:
    """A count for the host, which may also come as digits in a text."""
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,9}", str(value)):
        raise ValueError(f"expectations: host.{name} is {value!r}; expected a whole number, 0 or more")
    return int(value)


def parse_mig(value: Mapping[Any, Any]) -> Dict[str, List[str]]:
    """The MIG devices of each card, by the card's name in small letters; ValueError says what is wrong.

    An empty list is a whole card. For example {"all": ["3g.20gb", "3g.20gb"], "3": []}.
    """
    found = {}
    for card, profiles in value.items():
        if not MIG_CARD.fullmatch(str(card)):
            raise ValueError(
                f"expectations: mig names the card {card!r}; expected all, nvidia-smi's number, a PCI address or a UUID"
            )
        if not isinstance(profiles, list) or len(profiles) > MOST_MIG:
            count = f" has {len(profiles)} names" if isinstance(profiles, list) else f" is {profiles!r}"
            raise ValueError(
                f"expectations: mig.{card}{count}; expected a list of at most {MOST_MIG}, such as [3g.20gb, 3g.20gb],"
                " or [] for a whole card"
            )
        strange = [repr(name) for name in profiles if not (isinstance(name, str) and MIG_PROFILE.fullmatch(name))]
        if strange:
            raise ValueError(
                f"expectations: mig.{card} has {', '.join(sorted(set(strange)))}; expected names as nvidia-smi mig"
                " -lgip prints them, such as 3g.20gb"
            )
        found[str(card).lower()] = [str(name) for name in profiles]
    return found


def parse_lanes(value: Any) -> int:
    """Lanes of a PCIe link, 0 for as many as card and slot have."""
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,2}", str(value)) or int(value) > MOST_LANES:
        raise ValueError(f"expectations: link_width is {value!r}; expected lanes, 0 to {MOST_LANES}")
    return int(value)


def parse_dcgm_level(value: Any) -> int:
    """Level of `dcgmi diag` that level deep runs besides, 0 for none."""
    if isinstance(value, bool) or not re.fullmatch(r"[0-4]", str(value)):
        raise ValueError(f"expectations: dcgm_level is {value!r}; expected 1 to 4, or 0 for no diagnostic")
    return int(value)


def wanted_dcgm_level(expected: Evidence) -> int:
    """Level of `dcgmi diag` that the inventory asks for, 0 for none; a record of an older release asks for none."""
    return expected.number("dcgm_level") if "dcgm_level" in expected.names() else 0


def wanted_lanes(expected: Evidence) -> int:
    """Lanes that the inventory states, 0 for none; `expected` is the `Evidence` of a record, also of an older one."""
    return expected.number("link_width") if "link_width" in expected.names() else 0


def wanted_slowdowns(expected: Evidence) -> List[str]:
    """Clock event reasons that the inventory calls by design on this host."""
    found = expected.each("slowdowns") if "slowdowns" in expected.names() else []
    return sorted(reason.one_of(SLOWDOWNS) for reason in found)
