# SPDX-License-Identifier: Apache-2.0
"""Checks of the cards themselves: number, model, and which driver they are bound to.

Readings are those of `checks.collect`. The rules are those of established checkers (DCGM, gpud, the health checks of
Azure and AWS), except that those let a value pass that cannot be read.
"""

from typing import List

from ...gpu.cards import card_of, could_be
from ...gpu.device_rows import Card
from ...verdict.by_hand import CONTROLLER, MACHINE, Hand
from ...verdict.check import (
    DRAIN,
    FAIL,
    POWER_CYCLE,
    QUICK,
    Check,
    Outcome,
    failed,
    passed,
    skipped,
    slots,
    unknown,
    unnamed,
    warned,
)
from ...verdict.evidence import Evidence
from ..confined import given_some
from .kept_plan import made_for

# What to do if the driver does not answer, so that the check knows nothing.
ASK_FIRST = "First do what driver.reachable says."


def count(readings: Evidence, expected: Evidence) -> Outcome:
    """The PCI bus and nvidia-smi must both show exactly as many GPUs as the inventory expects."""
    wanted = expected.number("gpu_count")
    on_bus = [gpu.pci_id("pci_id") for gpu in readings.each("probe", "gpus")]
    if wanted == 0 and on_bus:
        action = f"Set verify_expected_gpu_count to {len(on_bus)}, or take the card out: nothing here uses it."
        return warned(
            "unexpected", len(on_bus), 0, f"{len(on_bus)} on the PCI bus of a node that should have no GPUs", action
        )
    if len(on_bus) != wanted:
        return failed(
            "none" if not on_bus else "absent",
            len(on_bus),
            wanted,
            f"{len(on_bus)} of {wanted} expected on the PCI bus",
            items=unnamed(wanted - len(on_bus)),
        )
    if wanted == 0:
        return passed(0, 0, "no GPU, as expected")
    if not readings.flag("nvidia_smi", "reachable"):
        return unknown(
            "silent", f"{wanted} on the PCI bus, but the driver cannot be queried", wanted, wanted, ASK_FIRST
        )
    seen = [gpu.pci_id("pci_id") for gpu in readings.each("nvidia_smi", "gpus")]
    missing = sorted(set(on_bus) - set(seen))
    if missing:
        some = given_some(readings)
        if some and some[0] == len(missing):
            return unknown("given-some", f"{some[1]}: {len(seen)} of {wanted}", len(seen), wanted, some[2])
        action = f"Look for Xid lines of {missing[0]} in: dmesg | grep -i xid"
        return failed(
            "not-shown",
            len(seen),
            wanted,
            f"the driver does not show {', '.join(missing)}",
            action,
            items=slots(missing),
        )
    if len(seen) != wanted:
        return failed(
            "too-few",
            len(seen),
            wanted,
            f"nvidia-smi shows {len(seen)} of {wanted} expected",
            items=unnamed(wanted - len(seen)),
        )
    return passed(wanted, wanted, f"{wanted} of {wanted} expected")


FIRST_THE_GPUS = "First do what gpu.count says, then run: ansible-playbook site.yml ; it plans for all GPUs."


def plan_of_all(readings: Evidence, expected: Evidence) -> Outcome:
    """The node's recorded plan was made while all GPUs that the inventory expects were present."""
    wanted, found = expected.number("gpu_count"), made_for(expected.value)
    here = len([gpu.pci_id("pci_id") for gpu in readings.each("probe", "gpus")])
    if found < wanted:
        words = f"the plan was made for {found} of {wanted} GPUs, and this node has {here}"
        return failed(
            "not-all-here" if here < wanted else "other-number",
            found,
            wanted,
            words,
            FIRST_THE_GPUS if here < wanted else "",
            items=unnamed(wanted - found),
        )
    return passed(found, wanted, f"the plan was made for {found} GPUs")


def model(readings: Evidence, expected: Evidence) -> Outcome:
    """All GPUs are the model that the inventory names; different models in one node fail even if it names none."""
    names = sorted({gpu.text("name") for gpu in readings.each("probe", "gpus")})
    unnamed = [name for name in names if name.lower().startswith("unknown")]
    value = ", ".join(names)
    wanted = expected.wish("gpu_model")
    if not names:
        return failed("no-gpu", "none", wanted, "there is no GPU")
    if unnamed:
        return unknown("not-listed", f"the device table has no name for {value}", value, wanted)
    if len(names) > 1:
        return failed("mixed-models", value, wanted or "one model", "different models in one node")
    if not wanted:
        return skipped("not-asked", f"the inventory names no model; this node has {value}")._replace(value=value)
    if not could_be(value, wanted):
        return failed("other-model", value, wanted, f"{value} instead of {wanted}")
    return passed(value, wanted, value)


def bound_driver(readings: Evidence, expected: Evidence) -> Outcome:
    """Each GPU on the PCI bus is bound to the kernel driver `nvidia`."""
    gpus = readings.each("probe", "gpus")
    others, found = [], {}
    for gpu in gpus:
        driver = "none" if gpu.absent("bound_driver") else gpu.text("bound_driver")
        if driver != "nvidia":
            others.append(f"{gpu.pci_id('pci_id')} has {driver}")
            found[gpu.pci_id("pci_id")] = driver
    if not gpus:
        return unknown("no-gpu", "there is no GPU to check", expected="nvidia")
    if others:
        # One code for one reason: a card in other hands is not nouveau's.
        code = {"nouveau": "nouveau", "none": "unbound"}.get("".join(set(found.values())), "other-driver")
        return failed(
            code, "; ".join(others), "nvidia", f"not bound to nvidia: {'; '.join(others)}", items=slots(found)
        )
    return passed("nvidia", "nvidia", "bound to nvidia")


def card_row(gpu: Evidence) -> Card:
    """The `cards.Card` of a GPU of nvidia-smi's answer; `Unreadable` if neither its id nor its name can be read."""
    told = gpu.value if isinstance(gpu.value, dict) else {}
    name, device_id = told.get("name"), told.get("device_id")
    found = card_of(name if isinstance(name, str) else "", device_id if isinstance(device_id, str) else "")
    return found if found.listed else found._replace(name=gpu.text("name"))


def answering_gpus(readings: Evidence) -> List[Evidence]:
    """The GPUs of nvidia-smi's answer; none if it cannot be reached."""
    return readings.each("nvidia_smi", "gpus") if readings.flag("nvidia_smi", "reachable") else []


CHECKS = (
    Check(
        id="gpu.count",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=POWER_CYCLE,
        question="Does the node have as many GPUs as the inventory says?",
        judge=count,
        unit="GPUs",
        needs_gpu=False,
        firm_because="it detects a lost GPU; if a card was removed on purpose, correct the expected number",
        action=(
            "Compare lspci -d 10de: with what was ordered; power off and reseat a missing card, or correct the "
            "expected number."
        ),
    ),
    Check(
        id="gpu.plan",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Was the plan made for all GPUs of the node?",
        judge=plan_of_all,
        action="Run: ansible-playbook site.yml ; it plans for all GPUs that are here, installs and verifies.",
    ),
    Check(
        id="gpu.model",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Are they the GPUs that the inventory names?",
        judge=model,
        action="Correct the expected model in the inventory, or take the foreign card out: lspci -nn -d 10de:",
    ),
    Check(
        id="gpu.bound_driver",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Is every GPU bound to NVIDIA's kernel driver?",
        judge=bound_driver,
        firm_because="CUDA cannot use a GPU that is bound to another driver, or to none",
        action="See which driver it is bound to: lspci -k -d 10de: then run ansible-playbook site.yml --tags system",
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "gpu.count": Hand(MACHINE, "lspci -d 10de: and nvidia-smi -L list as many cards as the inventory expects"),
    "gpu.model": Hand(CONTROLLER, "lspci -nn -d 10de: lists only the model that the inventory names"),
}
