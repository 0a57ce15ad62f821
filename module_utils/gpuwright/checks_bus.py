# SPDX-License-Identifier: Apache-2.0
"""Checks of each card's way to the host and into the fabric: PCIe, NVSwitch, NUMA."""

import re

from .checks_card import Limit, card
from .verdict import FAIL, PASS, POWER_CYCLE, QUICK, RESET, SKIP, WARN, Check, passed, unknown, warned

LIMITS = {
    "pcie_replays": Limit(80, "replays", "DCGM Pcie.cpp; counted since the driver was loaded"),
}
CPU_LIST = re.compile(r"[0-9]+([,-][0-9]+)*")
FABRIC_DONE = "completed"
FABRIC_FINE = "success"


def limit(name):
    return LIMITS[name].value


def link_width(gpu):
    """The card has all the PCIe lanes that card and slot could have."""
    now, most = gpu.number("health", "link_width_now"), gpu.number("health", "link_width_max")
    return (PASS if now and now >= most else FAIL, now, "{} of {} lanes".format(now, most))


def pcie_replays(gpu):
    """At most 80 packets were sent again over the PCIe link since the driver was loaded."""
    number = gpu.number("health", "pcie_replays")
    return (PASS if number <= limit("pcie_replays") else WARN, number, "{} replays".format(number))


def fabric(gpu):
    """The card has joined the NVSwitch fabric; cards that have none are left out."""
    if gpu.absent("health", "fabric_state"):
        return SKIP, None, "no fabric"
    state, status = gpu.text("health", "fabric_state"), gpu.text("health", "fabric_status")
    fine = state.lower() == FABRIC_DONE and status.lower() == FABRIC_FINE
    return (PASS if fine else FAIL, "{}, {}".format(state, status), "fabric: {}, {}".format(state, status))


def numa(readings, expected):
    """The host knows next to which processors each card sits, so that gpu-run can bind a training there."""
    nodes = readings.names("probe", "numa")
    lost = []
    for gpu in readings.each("probe", "gpus"):
        node = gpu.at("numa_node").value
        if not isinstance(node, int) or isinstance(node, bool):
            return unknown("the NUMA node of {} reads {!r}".format(gpu.pci_id("pci_id"), node))
        here = node if node >= 0 or len(nodes) != 1 else 0
        if str(here) not in nodes or not readings.matching(CPU_LIST, "CPUs", "probe", "numa", str(here), "cpus"):
            lost.append("{} says {}".format(gpu.pci_id("pci_id"), node))
    if not nodes or not readings.each("probe", "gpus"):
        return unknown("sysfs shows no NUMA node or no GPU")
    if lost:
        return warned("unknown", "one of " + ", ".join(nodes), "NUMA node not known: {}".format("; ".join(lost)))
    return passed("known", "known", "{} NUMA nodes, the place of each card is known".format(len(nodes)))


def source(name):
    return LIMITS[name].source


CHECKS = (
    card(
        name="link_width",
        severity=FAIL,
        remedy=POWER_CYCLE,
        question="Has the card all its PCIe lanes?",
        rule=link_width,
        expected_value="all",
        fine="all lanes are in use",
        unit="lanes",
        action="Power off and reseat the card and its riser; look for a slot with fewer lanes in the server's manual.",
        source="DCGM, sichek: width below the maximum fails",
    ),
    card(
        name="pcie_replays",
        severity=WARN,
        question="Is the PCIe link clean?",
        rule=pcie_replays,
        expected_value=limit("pcie_replays"),
        fine="few packets were sent again",
        unit="replays",
        action="Reseat the card and its riser; journalctl -k -b | grep -i aer",
        source=source("pcie_replays"),
    ),
    card(
        name="fabric",
        severity=FAIL,
        remedy=RESET,
        question="Has the card joined the NVSwitch fabric?",
        rule=fabric,
        expected_value="Completed, Success",
        fine="joined",
        action="Run: systemctl restart nvidia-fabricmanager ; journalctl -u nvidia-fabricmanager",
        source="DCGM LogAndSetFMError",
    ),
    Check(
        id="gpu.numa",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Is it known which processors are next to each card?",
        judge=numa,
        action="Switch on NUMA in the firmware (not 'node interleaving'); lscpu | grep -i numa",
        source="Azure: topology file",
    ),
)
