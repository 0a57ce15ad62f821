# SPDX-License-Identifier: Apache-2.0
"""Checks of the cards themselves: number, model, who holds them, memory errors.

Readings are those of `checks.collect`. The rules are those of the field's trusted checkers (DCGM, gpud, the health
checks of Azure and AWS), without their habit of passing a value that cannot be read.
"""

from ...gpu.cards import card_of, could_be, is_strict, may_lack_ecc, needs_ecc
from ...gpu.nvidia_smi.absent import VGPU
from ...verdict.check import DRAIN, FAIL, POWER_CYCLE, QUICK, REBOOT, Check, failed, passed, skipped, unknown, warned
from ..confined import given_some
from .kept_plan import made_for

# What helps where the driver is silent and the check therefore knows nothing.
ASK_FIRST = "First do what driver.reachable says."
RETIREMENT = ("retired_pages_pending", "remapped_rows_pending", "remapped_rows_failure")


def count(readings, expected):
    """The PCI bus and nvidia-smi must both show exactly as many GPUs as the inventory expects."""
    wanted = expected.number("gpu_count")
    on_bus = [gpu.pci_id("pci_id") for gpu in readings.each("probe", "gpus")]
    if wanted == 0 and on_bus:
        action = "Set verify_expected_gpu_count to {}, or take the card out: nothing here uses it.".format(len(on_bus))
        return warned(len(on_bus), 0, "{} on the PCI bus of a node without GPUs".format(len(on_bus)), action)
    if len(on_bus) != wanted:
        return failed(len(on_bus), wanted, "{} of {} expected on the PCI bus".format(len(on_bus), wanted))
    if wanted == 0:
        return passed(0, 0, "no GPU, as expected")
    if not readings.flag("nvidia_smi", "reachable"):
        return unknown("{} on the PCI bus, but the driver cannot be asked".format(wanted), wanted, wanted, ASK_FIRST)
    seen = [gpu.pci_id("pci_id") for gpu in readings.each("nvidia_smi", "gpus")]
    missing = sorted(set(on_bus) - set(seen))
    if missing:
        some = given_some(readings)
        if some and some[0] == len(missing):
            return unknown("{}: {} of {}".format(some[1], len(seen), wanted), len(seen), wanted, some[2])
        action = "Look for Xid lines of {} in: dmesg | grep -i xid".format(missing[0])
        return failed(len(seen), wanted, "the driver does not show {}".format(", ".join(missing)), action)
    if len(seen) != wanted:
        return failed(len(seen), wanted, "nvidia-smi shows {} of {} expected".format(len(seen), wanted))
    return passed(wanted, wanted, "{} of {} expected".format(wanted, wanted))


FIRST_THE_GPUS = "First do what gpu.count says, then run: ansible-playbook site.yml ; it plans for all GPUs."


def plan_of_all(readings, expected):
    """The plan that the node is held to was made while all GPUs that the inventory expects were there."""
    wanted, found = expected.number("gpu_count"), made_for(expected.value)
    here = len([gpu.pci_id("pci_id") for gpu in readings.each("probe", "gpus")])
    if found < wanted:
        words = "the plan was made for {} of {} GPUs, and {} are here".format(found, wanted, here)
        return failed(found, wanted, words, FIRST_THE_GPUS if here < wanted else "")
    return passed(found, wanted, "the plan was made for {} GPUs".format(found))


def model(readings, expected):
    """All GPUs are the model that the inventory names; different models in one node fail even when it names none."""
    names = sorted({gpu.text("name") for gpu in readings.each("probe", "gpus")})
    unnamed = [name for name in names if name.lower().startswith("unknown")]
    value = ", ".join(names)
    wanted = expected.wish("gpu_model")
    if not names:
        return failed("none", wanted, "there is no GPU")
    if unnamed:
        return unknown("the device table has no name for {}".format(value), value, wanted)
    if len(names) > 1:
        return failed(value, wanted or "one model", "different models in one node")
    if not wanted:
        return skipped("the inventory names no model; this node has {}".format(value))
    if not could_be(value, wanted):
        return failed(value, wanted, "{} instead of {}".format(value, wanted))
    return passed(value, wanted, value)


def bound_driver(readings, expected):
    """Each GPU on the PCI bus is bound to the kernel driver `nvidia`."""
    gpus = readings.each("probe", "gpus")
    others = []
    for gpu in gpus:
        driver = "none" if gpu.absent("bound_driver") else gpu.text("bound_driver")
        if driver != "nvidia":
            others.append("{} has {}".format(gpu.pci_id("pci_id"), driver))
    if not gpus:
        return unknown("there is no GPU to look at", expected="nvidia")
    if others:
        return failed("; ".join(others), "nvidia", "not bound to nvidia: {}".format("; ".join(others)))
    return passed("nvidia", "nvidia", "bound to nvidia")


def ecc(readings, expected):
    """ECC is on, and no uncorrected error was counted since boot; only cards that have no ECC are left out.

    Whether a card may say N/A is decided where its answer is read; here null means that the card has none.
    """
    gpus = answering_gpus(readings)
    if not gpus:
        return unknown("the driver cannot be asked", expected="Enabled", action=ASK_FIRST)
    errors, off, without = [], [], []
    for gpu in gpus:
        pci_id = gpu.pci_id("pci_id")
        mode = None if gpu.absent("ecc_mode") else gpu.text("ecc_mode")
        # Some drivers count in the slices alone while MIG is on; where the answer is read decides which may.
        in_slices = mode == "Enabled" and gpu.absent("ecc_uncorrected_volatile")
        if in_slices and gpu.absent("health", "mig_uncorrected_volatile"):
            without.append(pci_id)
        elif mode == "Enabled":
            place = ("health", "mig_uncorrected_volatile") if in_slices else ("ecc_uncorrected_volatile",)
            number = gpu.number(*place)
            errors += ["{} on {}".format(number, pci_id)] if number else []
        elif mode == "Disabled" and needs_ecc(card_row(gpu)):
            off.append(pci_id)
        elif mode == "Disabled" or (mode is None and (may_lack_ecc(card_row(gpu)) or is_vgpu(gpu))):
            # Workstation cards are delivered with ECC off, and whoever leaves it so gives nothing away.
            without.append(pci_id)
        else:
            return unknown("the ECC mode of {} reads {!r}".format(pci_id, mode), mode, "Enabled")
    if errors:
        action = "Stop using the card, run NVIDIA's field diagnostic, and have it replaced if errors come back."
        return failed(", ".join(errors), 0, "uncorrected memory errors: {}".format(", ".join(errors)), action)
    if off:
        return failed("off", "Enabled", "ECC is off on {}".format(", ".join(off)))
    if without:
        return skipped("no ECC, delivered with it off, or not counted in MIG mode: {}".format(", ".join(without)))
    return passed("Enabled", "Enabled", "ECC is on, no uncorrected error since boot")


def retired_pages(readings, expected):
    """No broken memory waits to be taken out of use, and none could not be: pages up to Turing, rows from Ampere on."""
    gpus = answering_gpus(readings)
    if not gpus:
        return unknown("the driver cannot be asked", expected="none", action=ASK_FIRST)
    pending, broken, without = [], [], []
    for gpu in gpus:
        pci_id = gpu.pci_id("pci_id")
        answers = [name for name in RETIREMENT if not gpu.absent(name)]
        if not answers:
            # A card cut into MIG slices does not say, nor a vGPU or one without ECC; any other data-centre card must.
            mig = None if gpu.absent("mig_mode") else gpu.text("mig_mode")
            may_be_silent = mig == "Enabled" or is_vgpu(gpu) or gpu.absent("ecc_mode")
            if is_strict(card_row(gpu)) and not may_be_silent:
                return unknown("{} says nothing about broken memory".format(pci_id), expected="none")
            without.append(pci_id)
        if gpu.absent("remapped_rows_pending") != gpu.absent("remapped_rows_failure"):
            return unknown("{} tells one half of its row remapping".format(pci_id), expected="none")
        states = {name: gpu.flag(name) for name in answers}
        if states.get("remapped_rows_failure"):
            broken.append(pci_id)
        elif any(states.values()):
            pending.append(pci_id)
    if broken:
        action = "Stop using the card, run NVIDIA's field diagnostic, and have it replaced."
        return failed("failed", "none", "no spare memory left on {}".format(", ".join(broken)), action)
    if pending:
        return failed("pending", "none", "broken memory waits to be retired on {}".format(", ".join(pending)))
    if without:
        return skipped("no page retirement and no row remapping: {}".format(", ".join(without)))
    return passed("none", "none", "no broken memory waits to be retired")


def card_row(gpu):
    """The `cards.Card` of a GPU of nvidia-smi's answer; `Unreadable` where neither its id nor its name is one."""
    told = gpu.value if isinstance(gpu.value, dict) else {}
    name, device_id = told.get("name"), told.get("device_id")
    found = card_of(name if isinstance(name, str) else "", device_id if isinstance(device_id, str) else "")
    return found if found.listed else found._replace(name=gpu.text("name"))


def is_vgpu(gpu):
    """Whether this is a part of a card, given to a virtual machine: the host keeps to itself what is of the whole."""
    told = not gpu.absent("health", "virtualization")
    return told and gpu.text("health", "virtualization").lower() in VGPU


def answering_gpus(readings):
    """The GPUs of nvidia-smi's answer; none when it cannot be reached."""
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
        firm_because="it is what tells a lost GPU; who gives a card away corrects the expected number",
        action=(
            "Compare lspci -d 10de: with the order; power off and reseat a missing card, or correct the expected "
            "number."
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
        question="Does NVIDIA's kernel driver hold every GPU?",
        judge=bound_driver,
        firm_because="a GPU that another driver holds, or none, is lost to CUDA",
        action="See who holds it: lspci -k -d 10de: then run ansible-playbook site.yml --tags system",
    ),
    Check(
        id="driver.ecc",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=REBOOT,
        question="Is the GPU's memory protected and free of errors?",
        judge=ecc,
        action="When nobody works on the node, run: nvidia-smi -e 1 ; systemctl reboot",
    ),
    Check(
        id="driver.retired_pages",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=REBOOT,
        question="Does broken GPU memory wait to be taken out of use?",
        judge=retired_pages,
        action="When nobody works on the node, run: systemctl reboot ; if pages wait again, it is for the vendor.",
    ),
)
