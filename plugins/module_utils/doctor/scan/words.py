# SPDX-License-Identifier: Apache-2.0
"""The checks' words for a scan: there is no inventory and, on other people's hosts, no playbook for repairs."""

import re
from typing import Dict, List, NamedTuple

from ...verdict.check import NEEDS_ROOT, NO_GPU_EXPECTED, OK, ONLY_ROOT
from ...verdict.commands import WORDS
from .scope import off_node

GUIDE = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"
INSTALL = "Install NVIDIA's driver with the packages of this system, or as its guide says: {}".format(GUIDE)
# By id and code, for messages about an inventory, which a scan does not have; {} is the finding's value.
MESSAGES = {
    ("", NO_GPU_EXPECTED): "this host has no NVIDIA GPU",
    ("gpu.model", "not-asked"): "no model is asked for; this host has {}",
}
# The end of a sentence that names a variable of the inventory.
STATE_THEM = re.compile(r": state them \(verify_\w+\)")
# Half sentences after which a playbook or the inventory would be named.
HALVES = (
    (re.compile(r"^Correct the expected model in the inventory, or take"), "Take"),
    (re.compile(r"; power off and reseat a missing card, or correct the expected number"), "; reseat a missing card"),
    (re.compile(r"(?:,| ;)? (?:and )?then (?:run )?:?ansible-playbook [^;#]*(?= ; | # |$)"), ""),
    (re.compile(r", or run: ansible-playbook [^;#]*(?= ; | # |$)"), ""),
    (re.compile(r", then run gpu-doctor again as root"), ", then scan again as root"),
)
UNKNOWN_CARD = "Judge the card by its data sheet, or take a newer gpu-doctor.pyz, which may know it."
# Between the commands of an action, and between its sentences.
BETWEEN = re.compile(r"( ; | # |(?<=[a-z)])\. (?=[A-Z]))")
OF_A_NODE = re.compile(
    r"ansible-playbook|roles/|\binventory\b|\b(?:verify|system|framework|model)_\w+|gpuwright|--acknowledge"
)
# Commands of the two families of systems that the checks know.
OF_A_FAMILY = re.compile(r"\b(?:dnf|apt-get|rpm|dpkg)\b")
# Builds a module from the sources of a driver that is installed.
BUILD = re.compile(r"\bdkms autoinstall\b")
PROGRAM = re.compile(r"\b(sudo )?gpu-doctor(?= --|$| \(|\))")


class Host(NamedTuple):
    """What decides the words: the family of the system (redhat, debian or unknown), and whether there is a driver."""

    family: str
    has_driver: bool


def host_of(readings: Dict) -> Host:
    """The host from the probe; if that could not be read, a driver is assumed."""
    host = readings.get("probe")
    system, nvidia = (host.get(name) if isinstance(host, dict) else None for name in ("os", "nvidia"))
    family = str(system.get("family", "unknown")) if isinstance(system, dict) else "unknown"
    if not isinstance(nvidia, dict) or not isinstance(nvidia.get("modules"), dict):
        return Host(family, True)
    traces = [nvidia.get(name) for name in ("loaded", "user_space", "dkms")]
    return Host(family, any(traces + list(nvidia["modules"].values())))


def reworded(record: Dict, expectations: Dict, host: Host, program: str) -> Dict:
    """The record in the words of a scan; `program` is what to type for the next one."""
    code = record["code"]
    words = MESSAGES.get((record["id"], code)) or MESSAGES.get(("", code))
    if (record["id"], code, record["value"]) == ("gpu.count", OK, 0):
        words = "no NVIDIA GPU is on the PCI bus"
    message = words.format(record["value"]) if words else STATE_THEM.sub("", record["message"])
    if code == NEEDS_ROOT:
        message = message.replace(ONLY_ROOT, "only root can see this: sudo " + program, 1)
    action = record["action"]
    if action and off_node(expectations):
        action = without_playbooks(action, host)
    return dict(record, message=message, action=PROGRAM.sub(lambda found: (found.group(1) or "") + program, action))


def without_playbooks(action: str, host: Host) -> str:
    """The action without repairs that only a node of the toolkit has, and without commands that this system lacks.

    If nothing else is left: how to install a driver.
    """
    if "devices.yml" in action:
        return UNKNOWN_CARD
    if not host.has_driver and BUILD.search(action):
        return INSTALL
    for pattern, words in HALVES:
        action = pattern.sub(words, action)
    parts = BETWEEN.split(action)
    kept: List[str] = []
    behind = read = False  # whether this part, and the first one that is kept, are words behind the commands
    for index in range(0, len(parts), 2):
        behind = behind or (index > 0 and parts[index - 1] == WORDS)
        foreign = host.family == "unknown" and OF_A_FAMILY.search(parts[index])
        if parts[index] and not foreign and not OF_A_NODE.search(parts[index]):
            read = behind if not kept else read
            kept += ([parts[index - 1]] if kept else []) + [parts[index]]
    if not kept:
        return INSTALL
    text = "".join(kept)
    return text if read or text.startswith(("Run", "http")) or not action.startswith("Run: ") else "Run: " + text
