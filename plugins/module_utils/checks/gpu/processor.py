# SPDX-License-Identifier: Apache-2.0
"""Checks of each card's place beside a processor: the link to Grace, its page tables, NUMA."""

from ...host.patterns import lazily
from ...verdict.by_hand import MACHINE, NODE, Hand
from ...verdict.check import FAIL, PASS, POWER_CYCLE, QUICK, SKIP, WARN, Check, Outcome, passed, slots, unknown, warned
from ...verdict.evidence import Evidence
from .each_card import Judged, card

CPU_LIST = lazily(r"[0-9]+([,-][0-9]+)*")
GRACE = lazily(r"\bG[BH][23]00\b")


def c2c(gpu: Evidence) -> Judged:
    """The link between a Grace processor and its GPU (C2C) is up; other cards have no such link to the processor."""
    mode = None if gpu.absent("health", "c2c_mode") else gpu.text("health", "c2c_mode")
    if mode is None or not GRACE.search(gpu.text("name")):
        return SKIP, "no-grace", None, "no Grace processor, or this driver does not report it"
    return (PASS if mode == "Enabled" else FAIL, "off", mode, f"C2C is {mode}")


def addressing(gpu: Evidence) -> Judged:
    """A GPU beside a Grace processor shares the processor's page tables (ATS); elsewhere each mode is a setting."""
    mode = None if gpu.absent("health", "addressing_mode") else gpu.text("health", "addressing_mode")
    if mode is None or not GRACE.search(gpu.text("name")):
        return SKIP, "no-grace", None, "no Grace processor, or this driver does not report it"
    return (PASS if mode == "ATS" else WARN, "off", mode, f"addressing mode is {mode}, ATS is expected beside Grace")


def numa(readings: Evidence, expected: Evidence) -> Outcome:
    """The host knows which processors each card is next to, so that gpu-run can bind a training run to them."""
    nodes = readings.names("probe", "numa")
    lost, cards = [], []
    for gpu in readings.each("probe", "gpus"):
        node = gpu.at("numa_node").value
        if not isinstance(node, int) or isinstance(node, bool):
            return unknown("unreadable", f"the NUMA node of {gpu.pci_id('pci_id')} reads {node!r}")
        here = node if node >= 0 or len(nodes) != 1 else 0
        if str(here) not in nodes or not readings.matching(CPU_LIST, "CPUs", "probe", "numa", str(here), "cpus"):
            lost.append(f"{gpu.pci_id('pci_id')} says {node}")
            cards.append(gpu.pci_id("pci_id"))
    if not nodes or not readings.each("probe", "gpus"):
        return unknown("no-gpu", "sysfs shows no NUMA node or no GPU")
    if lost:
        return warned(
            "not-known",
            "unknown",
            "one of " + ", ".join(nodes),
            f"NUMA node not known: {'; '.join(lost)}",
            items=slots(cards),
        )
    return passed("known", "known", f"{len(nodes)} NUMA nodes, the place of each card is known")


CHECKS = (
    card(
        name="c2c",
        severity=FAIL,
        remedy=POWER_CYCLE,
        question="Is the link to the Grace processor up?",
        rule=c2c,
        expected_value="Enabled",
        fine="C2C is enabled",
        action="Look at nvidia-smi c2c -s and dmesg | grep -i c2c ; power the node off and on.",
        source="captures of GB200 and GB300; nvidia-smi(1): GPU C2C Mode",
    ),
    card(
        name="addressing_mode",
        severity=WARN,
        question="Does the GPU share the processor's page tables where it should?",
        rule=addressing,
        expected_value="ATS beside Grace",
        fine="as it should be for this card",
        action="Look at dmesg | grep -iE 'ats|smmu' ; the kernel needs ATS and SVA for Grace, and the open module.",
        source="captures of GB200 and GB300: ATS; nvidia-smi(1): Addressing Mode",
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

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "gpu.c2c": Hand(MACHINE, "nvidia-smi c2c -s shows every link with its speed"),
    "gpu.addressing_mode": Hand(NODE, "nvidia-smi -q | grep -i 'addressing mode' shows ATS"),
    "gpu.numa": Hand(MACHINE, "lscpu | grep -i numa shows a node for each socket"),
}
