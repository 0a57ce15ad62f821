# SPDX-License-Identifier: Apache-2.0
"""Checks of the cards' memory errors as the driver counts them: ECC, and memory that waits to be retired."""

from ...gpu.cards import is_strict, may_lack_ecc, needs_ecc
from ...verdict.by_hand import REPLACED
from ...verdict.check import FAIL, QUICK, REBOOT, Check, Outcome, failed, passed, skipped, slots, unknown
from ...verdict.evidence import Evidence
from ..gpu.cards import ASK_FIRST, answering_gpus, card_row
from ..gpu.identity import is_vgpu

RETIREMENT = ("retired_pages_pending", "remapped_rows_pending", "remapped_rows_failure")


def ecc(readings: Evidence, expected: Evidence) -> Outcome:
    """ECC is on, and no uncorrected error was counted since boot; only cards that have no ECC are left out.

    Whether a card may say N/A is decided where its answer is read; here null means that the card has none.
    """
    gpus = answering_gpus(readings)
    if not gpus:
        return unknown("silent", "the driver cannot be queried", expected="Enabled", action=ASK_FIRST)
    errors, faulty, off, without = [], [], [], []
    for gpu in gpus:
        pci_id = gpu.pci_id("pci_id")
        mode = None if gpu.absent("ecc_mode") else gpu.text("ecc_mode")
        # Some drivers count only in the slices while MIG is on; the reader of the answer decides which.
        in_slices = mode == "Enabled" and gpu.absent("ecc_uncorrected_volatile")
        if in_slices and gpu.absent("health", "mig_uncorrected_volatile"):
            without.append(pci_id)
        elif mode == "Enabled":
            place = ("health", "mig_uncorrected_volatile") if in_slices else ("ecc_uncorrected_volatile",)
            number = gpu.number(*place)
            errors += [f"{number} on {pci_id}"] if number else []
            faulty += [pci_id] if number else []
        elif mode == "Disabled" and needs_ecc(card_row(gpu)):
            off.append(pci_id)
        elif mode == "Disabled" or (mode is None and (may_lack_ecc(card_row(gpu)) or is_vgpu(gpu))):
            # Workstation cards are delivered with ECC off, and leaving it so is no fault.
            without.append(pci_id)
        else:
            return unknown(
                "unreadable", f"the ECC mode of {pci_id} reads {mode!r}", mode, "Enabled", items=slots([pci_id])
            )
    if errors:
        action = "Stop using the card, run NVIDIA's field diagnostic, and have it replaced if errors come back."
        return failed(
            "uncorrected",
            ", ".join(errors),
            0,
            f"uncorrected memory errors: {', '.join(errors)}",
            action,
            items=slots(faulty),
        )
    if off:
        return failed("off", "off", "Enabled", f"ECC is off on {', '.join(off)}", items=slots(off))
    if without:
        return skipped("not-counted", f"no ECC, ECC off as delivered, or not counted in MIG mode: {', '.join(without)}")
    return passed("Enabled", "Enabled", "ECC is on, no uncorrected error since boot")


def retired_pages(readings: Evidence, expected: Evidence) -> Outcome:
    """No broken memory (pages up to Turing, rows from Ampere on) is waiting to be retired, and no retirement failed."""
    gpus = answering_gpus(readings)
    if not gpus:
        return unknown("silent", "the driver cannot be queried", expected="none", action=ASK_FIRST)
    pending, broken, without = [], [], []
    for gpu in gpus:
        pci_id = gpu.pci_id("pci_id")
        answers = [name for name in RETIREMENT if not gpu.absent(name)]
        if not answers:
            # A card cut into MIG slices does not report this, nor a vGPU or one without ECC; any other data-centre card
            # must.
            mig = None if gpu.absent("mig_mode") else gpu.text("mig_mode")
            may_be_silent = mig == "Enabled" or is_vgpu(gpu) or gpu.absent("ecc_mode")
            if is_strict(card_row(gpu)) and not may_be_silent:
                return unknown(
                    "not-reported",
                    f"{pci_id} reports nothing about faulty memory",
                    expected="none",
                    items=slots([pci_id]),
                )
            without.append(pci_id)
        if gpu.absent("remapped_rows_pending") != gpu.absent("remapped_rows_failure"):
            return unknown(
                "half-reported",
                f"{pci_id} reports only half of its row remapping",
                expected="none",
                items=slots([pci_id]),
            )
        states = {name: gpu.flag(name) for name in answers}
        if states.get("remapped_rows_failure"):
            broken.append(pci_id)
        elif any(states.values()):
            pending.append(pci_id)
    if broken:
        action = "Stop using the card, run NVIDIA's field diagnostic, and have it replaced."
        return failed(
            "beyond-repair",
            "failed",
            "none",
            f"no spare memory left on {', '.join(broken)}",
            action,
            items=slots(broken),
        )
    if pending:
        return failed(
            "pending",
            "pending",
            "none",
            f"faulty memory is waiting to be retired on {', '.join(pending)}",
            items=slots(pending),
        )
    if without:
        return skipped("not-counted", f"no page retirement and no row remapping: {', '.join(without)}")
    return passed("none", "none", "no faulty memory is waiting to be retired")


CHECKS = (
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
        question="Is any faulty GPU memory waiting to be retired?",
        judge=retired_pages,
        action="When nobody works on the node, run: systemctl reboot ; if pages wait again, contact the vendor.",
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "driver.ecc": REPLACED,
    "driver.retired_pages": REPLACED,
}
