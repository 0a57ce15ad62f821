# SPDX-License-Identifier: Apache-2.0
"""Checks of each card's identity, its modes, and the driver's own verdict."""

import re
from typing import List, Sequence

from ...gpu.cards import DATA_CENTRE, UNPLACED
from ...gpu.nvidia_smi.absent import VGPU
from ...gpu.xid.policy import recovery_row
from ...host.patterns import lazily
from ...verdict.by_hand import GUESTS, MACHINE, NODE, Hand
from ...verdict.check import (
    DRAIN,
    FAIL,
    PASS,
    POWER_CYCLE,
    QUICK,
    REBOOT,
    REMEDIES,
    RESET,
    SKIP,
    WARN,
    Check,
    Outcome,
    failed,
    passed,
    slots,
    unknown,
)
from ...verdict.evidence import Evidence
from .cards import ASK_FIRST, answering_gpus, card_row
from .each_card import Judged, card, over_gpus
from .repair import RESET_IT

LICENSED = lazily(r"Licensed\b", re.IGNORECASE)
UUID = lazily(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
UNNAMED = "a program without a name"


def is_vgpu(gpu: Evidence) -> bool:
    """Whether this is a part of a card, given to a virtual machine: only the host sees values of the whole card."""
    told = not gpu.absent("health", "virtualization")
    return told and gpu.text("health", "virtualization").lower() in VGPU


NO_ID = "Find out which card it is: lspci -nn -d 10de: ; nvidia-smi -q | grep -i 'device id'"


def known_card(gpu: Evidence) -> Judged:
    """The card has a row in the table of known cards; without one the strictest rules apply."""
    row = card_row(gpu)
    if row.listed:
        return PASS, "ok", row.name, row.name
    judged_as = DATA_CENTRE if row.card_class == UNPLACED else row.card_class
    words = "no row for 10de:{}, which nvidia-smi calls {}; it is judged as a {} card"
    device_id = gpu.value.get("device_id") if isinstance(gpu.value, dict) else None
    words = words.format(device_id or UNPLACED, row.name, judged_as)
    return WARN, "not-listed", row.name, words


def row_to_add(gpus: List[Evidence]) -> str:
    """What to do, "" for the check's own action; no row can be added for a card whose device id is not known."""
    ids = [gpu.value.get("device_id") for gpu in gpus if isinstance(gpu.value, dict)]
    return NO_ID if all(device_id in (None, "", "unknown") for device_id in ids) else ""


def compute_mode(gpu: Evidence) -> Judged:
    """Compute mode is Default, so that several programs may use the card one after another and side by side."""
    mode = gpu.text("health", "compute_mode")
    return (PASS if mode == "Default" else FAIL, "not-default", mode, f"compute mode is {mode}")


def recovery_action(gpu: Evidence) -> Judged:
    """The driver asks for no reset, reboot or drain: its own verdict on the card, which drivers from 535 on give."""
    if gpu.absent("recovery_action"):
        return SKIP, "not-reported", None, "the driver is too old to report this"
    action = gpu.text("recovery_action")
    return (PASS if action == "none" else FAIL, "asked", action, f"the driver asks for: {action}")


def _strength(row: Sequence[str]) -> int:
    """Of the remedy in a row of the table; the row of words that ask for nothing has none."""
    remedy = row[2]
    return REMEDIES.index(remedy) if remedy in REMEDIES else -1


def asked_for(readings: Evidence, expected: Evidence) -> Outcome:
    """The driver asks for no reset, reboot or drain: its own verdict on the card, which drivers from 535 on give.

    What to do is the same as for an Xid 154 with these words; the strongest action is named for all cards.
    """
    gpus = answering_gpus(readings)
    silent = [gpu.pci_id("pci_id") for gpu in gpus if gpu.absent("recovery_action")]
    outcome = over_gpus(recovery_action, "none", "the driver asks for nothing")(readings, expected)
    if outcome.status == FAIL:
        wanted = [gpu for gpu in gpus if not gpu.absent("recovery_action") and gpu.text("recovery_action") != "none"]
        rows = [(recovery_row(gpu.text("recovery_action")), gpu.pci_id("pci_id")) for gpu in wanted]
        pattern, _kind, remedy, action = max((row for row, _card in rows), key=_strength)
        names = ",".join(card for row, card in rows if row[2] == remedy)
        if remedy == REBOOT:
            action = "When nobody works on the node, run: systemctl reboot" if "bus" not in pattern else action
        return outcome._replace(action=action.replace("{gpu}", names), remedy=remedy)
    if outcome.status == SKIP and len(silent) < len(gpus):
        words = f"the driver tells it of {len(gpus) - len(silent)} cards, but not of {', '.join(silent)}"
        return unknown("not-of-all", words, expected="none", action=ASK_FIRST, items=slots(silent))
    return outcome


def graphics(gpu: Evidence) -> Judged:
    """No desktop or display server uses the card: it takes memory and time from training runs."""
    found = [process for process in gpu.each("processes") if "G" in process.text("type")]
    # Programs of other users and containers may have no name; their kind shows that they use graphics.
    names = [UNNAMED if process.value.get("name") in (None, "unknown") else process.text("name") for process in found]
    return (WARN if names else PASS, "in-use", ", ".join(names) or "none", f"graphics programs: {', '.join(names)}")


def vgpu_license(gpu: Evidence) -> Judged:
    """A vGPU has its licence: without one the host limits what it computes."""
    if not is_vgpu(gpu) or gpu.absent("health", "vgpu_license"):
        return SKIP, "not-needed", None, "no vGPU, or none that needs a licence"
    state = gpu.text("health", "vgpu_license")
    words = f"the vGPU's licence: {state}"
    if LICENSED.match(state):
        return PASS, "ok", state, words
    return (WARN if "(unrestricted)" in state.lower() else FAIL, "unlicensed", state, words)


def identity(readings: Evidence, expected: Evidence) -> Outcome:
    """Each card has a UUID of its own: two equal ones mean that one card answers for another."""
    gpus = answering_gpus(readings)
    if not gpus:
        return unknown("silent", "the driver cannot be queried", action=ASK_FIRST)
    names = [gpu.matching(UUID, "a UUID", "uuid") for gpu in gpus]
    if len(set(names)) != len(names):
        return failed("same-uuid", len(set(names)), len(names), f"{len(names)} cards have {len(set(names))} UUIDs")
    return passed(len(names), len(names), f"all recorded: {', '.join(names)}")


CHECKS = (
    card(
        name="known_card",
        severity=WARN,
        question="Is this card's model known?",
        rule=known_card,
        expected_value="a known card",
        fine="what each card must have is known",
        repair=row_to_add,
        action=(
            "Add a row for it to roles/preflight/files/matrix/devices.yml, whose first lines say how; run make docs, "
            "and then ansible-playbook site.yml, which copies it to the node."
        ),
    ),
    card(
        name="compute_mode",
        severity=FAIL,
        remedy=DRAIN,
        question="Can training runs share the card?",
        rule=compute_mode,
        expected_value="Default",
        fine="compute mode is Default",
        action="Run: nvidia-smi -c 0",
    ),
    Check(
        id="gpu.recovery_action",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=RESET,
        question="Does the driver ask for a reset?",
        judge=asked_for,
        firm_because="a card that is waiting for a reset cannot compute, and doing what the driver asks clears this",
        action=RESET_IT.format("ADDRESS"),
        source="DCGM checkGpuRecoveryState, nvidia-resiliency-ext; nvml.h nvmlDeviceGpuRecoveryAction_t",
    ),
    card(
        name="graphics",
        severity=WARN,
        question="Is the card free of desktop programs?",
        rule=graphics,
        expected_value="none",
        fine="no graphics program",
        action="Run: systemctl set-default multi-user.target && systemctl isolate multi-user.target",
        source="DCGM: graphics processes are a warning",
    ),
    card(
        name="vgpu_license",
        severity=FAIL,
        remedy=DRAIN,
        question="Does the vGPU have its licence?",
        rule=vgpu_license,
        expected_value="Licensed",
        fine="licensed",
        action="Look at ServerAddress in /etc/nvidia/gridd.conf or at its token, and at journalctl -u nvidia-gridd",
        source="docs.nvidia.com/vgpu, Client Licensing User Guide: what an unlicensed client may do",
    ),
    Check(
        id="gpu.identity",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=POWER_CYCLE,
        question="Does each card report its own UUID?",
        judge=identity,
        firm_because="a card is lost if another one answers in its place",
        unit="cards",
        action="Power the node off and on; then compare nvidia-smi -L with the labels on the cards.",
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "gpu.known_card": Hand(NODE, "a newer version of the toolkit has a row for the card, and gpu-doctor names it"),
    "gpu.vgpu_license": Hand(GUESTS, "nvidia-smi -q | grep -i 'license status' shows Licensed"),
    "gpu.identity": Hand(MACHINE, "nvidia-smi -L lists as many different UUIDs as cards"),
}
