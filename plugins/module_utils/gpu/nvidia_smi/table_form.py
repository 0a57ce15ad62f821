# SPDX-License-Identifier: Apache-2.0
"""The table that nvidia-smi prints without arguments, as the elements of its XML (`other_forms`)."""

import re
from typing import List, Set
from xml.etree.ElementTree import Element, SubElement

from .other_forms import Form, lacking, put, settle

TABLE_HEAD = re.compile(r"\s*\| NVIDIA-SMI [0-9]")
VERSIONS = re.compile(r"(?:Driver|KMD) Version: ([0-9.]+)")
CARD_LINE = re.compile(
    r"\s*\|\s*([0-9]{1,3}|N/A)\s+(\S.*?)\s+(On|Off|N/A|ERR!|WDDM|TCC|MCDM)\s*\|\s*"
    r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s+(\S+)\s*\|\s*(\S+)\s*\|"
)
VALUE_LINE = re.compile(
    r"\s*\|\s*(\S+|\S+ \S+)\s+(\S+)\s+(\S+)\s+(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)\s+(\S.*?)\s*\|"
)
MIG_LINE = re.compile(r"\s*\|[^|]*\|[^|]*\|\s*(Enabled\*?|Disabled\*?)\s*\|")
COMPUTE = {"Default": "Default", "E. Process": "Exclusive_Process", "Prohibited": "Prohibited"}


def is_table(line: str) -> bool:
    """Whether nvidia-smi's table begins here."""
    return TABLE_HEAD.match(line) is not None


def belongs_to_table(line: str) -> bool:
    return line.strip()[:1] in ("|", "+")


def parse_table(lines: List[str]) -> Form:
    """The table that nvidia-smi prints without arguments. Its N/A says nothing of a card; ERR! is a failed reading."""
    root = Element("nvidia_smi_log")
    given: Set[str] = set()
    version = VERSIONS.search(lines[0])
    if version:
        SubElement(root, "driver_version").text = version.group(1)
    gpu = None
    for line in lines:
        card, values, mig = CARD_LINE.match(line), VALUE_LINE.match(line), MIG_LINE.match(line)
        if card:
            _index, name, persistence, address, _display, errors = card.groups()
            gpu = SubElement(root, "gpu", id=address)
            found = {"pci/pci_bus_id": address, "persistence_mode": _mode(persistence)}
            if not name.endswith("..."):
                found["product_name"] = name
            if errors not in ("On", "Off"):
                found["ecc_errors/volatile/double_bit/total"] = errors
            put(gpu, found, given)
        elif values and gpu is not None:
            fan, heat, state, draw, cap, used, total, _load, compute = values.groups()
            found = {
                "fan_speed": _with_unit(fan, "%"),
                "temperature/gpu_temp": _with_unit(heat, "C"),
                "performance_state": state,
                "gpu_power_readings/power_draw": _with_unit(draw, "W"),
                "gpu_power_readings/power_limit": _with_unit(cap, "W"),
                "fb_memory_usage/used": _with_unit(used, "MiB"),
                "fb_memory_usage/total": _with_unit(total, "MiB"),
                "compute_mode": COMPUTE.get(compute, compute),
            }
            put(gpu, found, given)
        elif mig and gpu is not None:
            put(gpu, {"mig_mode/current_mig": mig.group(1).rstrip("*")}, given)
    for found_gpu in root.iter("gpu"):
        settle(found_gpu, given)
    return Form(root, lacking(root, given))


def _mode(word: str) -> str:
    return {"On": "Enabled", "Off": "Disabled", "ERR!": word}.get(word, "N/A")


def _with_unit(word: str, unit: str) -> str:
    match = re.match(r"(-?[0-9.]+)(?:" + re.escape(unit) + ")?$", word)
    return f"{match.group(1)} {unit}" if match else word
