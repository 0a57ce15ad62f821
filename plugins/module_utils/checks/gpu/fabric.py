# SPDX-License-Identifier: Apache-2.0
"""Checks of each card's place in the NVSwitch fabric: joined, complete, in one domain, and healthy by its own report.

One check for each kind of problem, since each needs a different action. A card without a fabric, or a driver that does
not report it, gives N/A and is left out; an unknown word is UNKNOWN.
"""

import re
from typing import Dict, List, Tuple

from ...host.patterns import lazily
from ...verdict.by_hand import FABRIC, Hand
from ...verdict.check import (
    CONTACT_SUPPORT,
    DRAIN,
    FAIL,
    PASS,
    QUICK,
    RESET,
    SKIP,
    Check,
    Outcome,
    failed,
    passed,
    skipped,
    unknown,
)
from ...verdict.evidence import Evidence
from .cards import ASK_FIRST, answering_gpus
from .each_card import Judged, Rule, card

CLUSTER = lazily(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
CLIQUE = lazily(r"[0-9]{1,10}")
DONE = "completed"
FINE = "success"
SOURCE = "nvml.h NVML_GPU_FABRIC_HEALTH_MASK_*; NVIDIA's fabric-degraded sample keeps Completed, Success"
# What the health says about a card without a problem, and the words that say that it has one.
BANDWIDTH, SUMMARY, CONFIGURATION = "fabric_bandwidth", "fabric_summary", "fabric_configuration"
GOOD_WORDS = {BANDWIDTH: "Full", SUMMARY: "Healthy", CONFIGURATION: "None"}
FLAGS = {
    "fabric_route_unhealthy": "a route through the fabric is unhealthy",
    "fabric_route_recovery": "a route through the fabric is being recovered",
    "fabric_access_timeout": "the fabric is recovering from an access that timed out",
}
WORDS = {
    BANDWIDTH: "bandwidth into the fabric is {}",
    SUMMARY: "the fabric's own summary is {}",
    CONFIGURATION: "the fabric's configuration is wrong: {}",
}


def trouble(gpu: Evidence, name: str) -> Tuple[bool, str]:
    """(known, words): whether this card's fabric reports `name` at all, and the problem in words, "" for none."""
    if gpu.absent("health", name):
        return False, ""
    if name in FLAGS:
        return True, FLAGS[name] if gpu.flag("health", name) else ""
    word = gpu.text("health", name)
    return True, "" if word.lower() == GOOD_WORDS[name].lower() else WORDS[name].format(word)


def health_of(name: str) -> Rule:
    """The rule for one field of the health."""

    def rule(gpu: Evidence) -> Judged:
        known, words = trouble(gpu, name)
        if not known:
            return SKIP, "no-fabric", None, "no fabric, or this driver does not report it"
        return (FAIL if words else PASS, "unhealthy", words or "none", words)

    rule.__doc__ = (
        "The fabric's own health shows no problem of this kind; joined (Completed, Success) does not rule one out."
    )
    return rule


def fabric(gpu: Evidence) -> Judged:
    """The card has joined the NVSwitch fabric and the fabric's health names no trouble; others are left out."""
    if gpu.absent("health", "fabric_state"):
        return SKIP, "no-fabric", None, "no fabric"
    state, status = gpu.text("health", "fabric_state"), gpu.text("health", "fabric_status")
    if state.lower() != DONE or status.lower() != FINE:
        return FAIL, "not-joined", f"{state}, {status}", f"fabric: {state}, {status}"
    found = [trouble(gpu, name)[1] for name in list(GOOD_WORDS) + list(FLAGS)]
    words = "; ".join(word for word in found if word)
    return (FAIL if words else PASS, "unhealthy", f"{state}, {status}", f"joined, but {words}")


def partition(gpu: Evidence) -> Judged:
    """The fabric manager has put the card into a partition; drivers from 590 on tell where partitions are in use."""
    if gpu.absent("health", "fabric_partition"):
        return SKIP, "not-reported", None, "no partitions, or this driver does not report them"
    inside = gpu.flag("health", "fabric_partition")
    return (
        PASS if inside else FAIL,
        "no-partition",
        "yes" if inside else "no",
        "no partition of the fabric is assigned",
    )


def domain(readings: Evidence, expected: Evidence) -> Outcome:
    """All cards of a node that joined a fabric are in one domain: one cluster and one clique."""
    gpus = answering_gpus(readings)
    if not gpus:
        return unknown("silent", "the driver cannot be queried", action=ASK_FIRST)
    found: Dict[str, List[str]] = {}
    for gpu in gpus:
        if not gpu.absent("health", "fabric_cluster") and not gpu.absent("health", "fabric_clique"):
            cluster = gpu.matching(CLUSTER, "a UUID", "health", "fabric_cluster")
            place = f"cluster {cluster} clique {gpu.matching(CLIQUE, 'a number', 'health', 'fabric_clique')}"
            found.setdefault(place, []).append(gpu.pci_id("pci_id"))
    if not found:
        return skipped("no-fabric", "no fabric")
    value = "; ".join(sorted(found))
    if len(found) > 1:
        return failed("two-domains", value, "one domain", f"the cards of this node are in different domains: {value}")
    outside = len(gpus) - len(found[value])
    if outside:
        return failed("outside", value, "one domain", f"{outside} of {len(gpus)} cards are in no domain of the fabric")
    return passed(value, "one domain", value)


RESTART = "Run: systemctl restart nvidia-fabricmanager ; its log says why: journalctl -u nvidia-fabricmanager"
ROUTES = (
    "Drain the node; look at nvidia-smi nvlink -s and at the log of the fabric manager; reset the card if the fault "
    "persists."
)


def health_check(name: str, question: str, fine: str, remedy: str, action: str) -> Check:
    return card(
        name=name,
        severity=FAIL,
        remedy=remedy,
        question=question,
        rule=health_of(name),
        expected_value="none",
        fine=fine,
        action=action,
        source=SOURCE,
    )


CHECKS = (
    card(
        name="fabric",
        severity=FAIL,
        remedy=RESET,
        question="Has the card joined the NVSwitch fabric?",
        rule=fabric,
        expected_value="Completed, Success",
        fine="joined",
        action=RESTART,
        source="DCGM LogAndSetFMError",
    ),
    health_check(SUMMARY, "Does the fabric report this card's part of it as healthy?", "healthy", DRAIN, ROUTES),
    health_check(BANDWIDTH, "Does the card have its full bandwidth into the fabric?", "full bandwidth", RESET, ROUTES),
    health_check("fabric_route_unhealthy", "Are the routes through the fabric healthy?", "all well", RESET, ROUTES),
    health_check(
        "fabric_route_recovery",
        "Has the fabric finished recovering its routes?",
        "no recovery is going on",
        DRAIN,
        "Wait a few minutes and look again: nvidia-smi -q | grep -A 9 Fabric ; if the recovery does not end, reset "
        "the card.",
    ),
    health_check("fabric_access_timeout", "Does the fabric answer in time?", "no access timed out", RESET, ROUTES),
    health_check(
        CONFIGURATION,
        "Is the fabric configured as this tray and chassis require?",
        "as it should be",
        CONTACT_SUPPORT,
        "Compare the tray, chassis and topology of the rack with the plan; journalctl -u nvidia-fabricmanager",
    ),
    card(
        name="fabric_partition",
        severity=FAIL,
        remedy=DRAIN,
        question="Is the card in a partition of the fabric?",
        rule=partition,
        expected_value="yes",
        fine="a partition is assigned",
        action="Assign one in the fabric manager (NMX-C); journalctl -u nvidia-fabricmanager",
        source="nvidia-smi --help-query-gpu of driver 595: fabric.health.partition_assigned",
    ),
    Check(
        id="gpu.fabric_domain",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Are all cards of the node in one domain of the fabric?",
        judge=domain,
        action=RESTART,
        source="nvml.h nvmlGpuFabricInfoV_t: cluster and clique say which GPUs reach each other",
    ),
)

# By hand: who acts, and what is seen afterwards.
REROUTED = Hand(FABRIC, "nvidia-smi -q | grep -A 12 Fabric shows Completed, Success and Healthy")
BY_HAND = {
    "gpu.fabric_summary": REROUTED,
    "gpu.fabric_bandwidth": REROUTED,
    "gpu.fabric_route_unhealthy": REROUTED,
    "gpu.fabric_route_recovery": REROUTED,
    "gpu.fabric_access_timeout": REROUTED,
    "gpu.fabric_configuration": REROUTED,
    "gpu.fabric_partition": Hand(FABRIC, "nvidia-smi -q | grep -A 12 Fabric shows the partition as assigned"),
}
