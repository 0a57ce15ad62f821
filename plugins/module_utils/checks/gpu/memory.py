# SPDX-License-Identifier: Apache-2.0
"""Checks of each card's memory: errors, spare rows, what is in use, and access to it."""

from typing import Optional, Tuple, Union

from ...gpu.cards import architecture_named
from ...verdict.by_hand import MACHINE, NODE, OWNER, REPLACED, Hand
from ...verdict.check import (
    FAIL,
    PASS,
    QUICK,
    REBOOT,
    REPLACE,
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
from .each_card import DIAGNOSE, Judged, Limit, card, over_gpus
from .identity import is_vgpu

LIMITS = {
    "ecc_corrected": Limit(10000000, "errors", "gcm 50,000,000; sichek 10,000,000 (the stricter)"),
    "sram_uncorrected": Limit(4, "errors", "sichek: aggregate at most 4"),
    "retired_pages_full": Limit(60, "pages", "AWS 60, DCGM 63: the card can retire 64"),
    "retired_pages_double_bit": Limit(15, "pages", "DCGM: more than 15 is a soft limit"),
    "remapped_rows": Limit(512, "rows", "DCGM DCGM_LIMIT_MAX_ROW_REMAP_UNCORRECTABLE"),
    "memory_share": Limit(
        90, "%", "own: in-band ECC takes up to 6.25 % (nvidia-smi(1)), firmware and driver some more"
    ),
    "twin_share": Limit(99, "%", "own: two nodes whose cards of one model have 8116 and 8119 MiB, 6071 and 6072 MiB"),
    "idle_memory": Limit(100, "MiB", "gcm 15 MiB; persistence and reserved memory of newer drivers added"),
}


def limit(name: str) -> float:
    return LIMITS[name].value


def ecc_pending(gpu: Evidence) -> Judged:
    """The ECC mode after the next boot is the current one: otherwise a setting waits for an unplanned reboot."""
    if gpu.absent("ecc_mode"):
        return SKIP, "no-ecc", None, "no ECC"
    now, later = gpu.text("ecc_mode"), gpu.text("health", "ecc_pending")
    return (PASS if now == later else WARN, "changes-later", later, f"ECC is {now} and will be {later} after a reboot")


def ecc_corrected(gpu: Evidence) -> Judged:
    """Corrected memory errors since the driver was loaded stay below ten million."""
    if gpu.absent("ecc_mode") or gpu.one_of(("Enabled", "Disabled"), "ecc_mode") == "Disabled":
        return SKIP, "no-ecc", None, "no ECC, or it is off"
    if gpu.absent("health", "ecc_corrected_volatile"):
        return SKIP, "not-counted", None, "not counted in MIG mode"
    number = gpu.number("health", "ecc_corrected_volatile")
    return (PASS if number <= limit("ecc_corrected") else WARN, "many-corrected", number, f"{number} corrected errors")


def sram(gpu: Evidence) -> Judged:
    """At most four uncorrected errors of the chip's own memory over its life, and the driver's own limit not passed."""
    if gpu.absent("health", "sram_uncorrected_aggregate"):
        return SKIP, "not-counted", None, "this driver or card does not count errors of the chip's own memory"
    number = gpu.number("health", "sram_uncorrected_aggregate")
    if not gpu.absent("health", "sram_uncorrected_sources"):
        number = max(number, gpu.number("health", "sram_uncorrected_sources"))
    if not gpu.absent("health", "sram_threshold_exceeded") and gpu.flag("health", "sram_threshold_exceeded"):
        return FAIL, "over-limit", number, "the driver reports that the error limit was exceeded"
    return (
        PASS if number <= limit("sram_uncorrected") else FAIL,
        "uncorrected",
        number,
        f"{number} uncorrected errors",
    )


def retires_pages(gpu: Evidence) -> bool:
    return architecture_named(gpu.text("architecture")).memory_repair == "pages"


def retired_count(gpu: Evidence) -> Judged:
    """Fewer than 60 memory pages are retired (a card can retire 64), at most 15 of them for double-bit errors."""
    # Checked in this order: an unlisted card has no architecture that could be read.
    if gpu.absent("health", "retired_pages_single_bit") or not retires_pages(gpu):
        return SKIP, "not-retired", None, "this card does not retire pages"
    double = gpu.number("health", "retired_pages_double_bit")
    number = double + gpu.number("health", "retired_pages_single_bit")
    words = f"{number} pages retired, {double} of them for double-bit errors"
    if number >= limit("retired_pages_full"):
        return FAIL, "too-many", number, words
    return (PASS if double <= limit("retired_pages_double_bit") else WARN, "some-retired", number, words)


def remapped_count(gpu: Evidence) -> Judged:
    """Fewer than 512 memory rows are remapped, the most a card can remap; any for uncorrected errors is a warning."""
    if gpu.absent("health", "remapped_rows_uncorrected"):
        return SKIP, "not-remapped", None, "this card does not remap rows, or does not report it in this mode"
    number, corrected = gpu.number("health", "remapped_rows_uncorrected"), 0
    if not gpu.absent("health", "remapped_rows_corrected"):
        corrected = gpu.number("health", "remapped_rows_corrected")
    words = f"{number} rows remapped for uncorrected errors, {corrected} for corrected ones"
    if number + corrected >= limit("remapped_rows"):
        return FAIL, "too-many", number, words
    return (WARN if number else PASS, "some-remapped", number, words)


def expected_memory_mib(gpu: Evidence) -> Optional[int]:
    """MiB that this model was made with; None if its row does not say, and for a vGPU, which has a part of it."""
    if is_vgpu(gpu):
        return None
    gib = card_row(gpu).memory_gib
    return gib and gib * 1024


def memory_size(readings: Evidence, expected: Evidence) -> Outcome:
    """Each card shows memory, as much as its model was made with, and as much as the node's other cards of its model.

    Memory in use is not deducted: total is what the card has. One tenth is allowed for ECC and for what firmware
    reserves; cards of one model with the firmware of different makers differ by some MiB, which is not missing memory.
    """
    gpus = answering_gpus(readings)
    if not gpus:
        return unknown("silent", "the driver cannot be queried", action=ASK_FIRST)
    sizes = [gpu.number("memory_total_mib") for gpu in gpus]
    small, bad = [], []
    for place, gpu in enumerate(gpus):
        size = sizes[place]
        made_with = expected_memory_mib(gpu)
        short_of = [made_with] if made_with is not None and size * 100 < made_with * limit("memory_share") else []
        larger = [
            sizes[n]
            for n, twin in enumerate(gpus)
            if sizes[n] * limit("twin_share") > size * 100 and is_twin(gpu, twin)
        ]
        if not size or short_of or larger:
            wanted: Union[int, str] = max(larger + short_of, default="some")
            small.append(f"{gpu.pci_id('pci_id')} has {size} MiB of {wanted}")
            bad.append(gpu.pci_id("pci_id"))
    if small:
        return failed("too-small", min(sizes), max(sizes), f"memory is missing: {'; '.join(small)}", items=slots(bad))
    return passed(min(sizes), max(sizes), "the same on each card of a model")


def is_twin(gpu: Evidence, other: Evidence) -> bool:
    """Whether two cards should show the same memory: ECC takes a part of it on some models."""
    modes = [None if card.absent("ecc_mode") else card.text("ecc_mode") for card in (gpu, other)]
    return gpu.text("name") == other.text("name") and modes[0] == modes[1]


def bar1(readings: Evidence, expected: Evidence) -> Outcome:
    """The window through which the processor reaches the card's memory exists, as large as on others of its model.

    Without it peer access cannot work, and with a small one it is slow. How large it should be differs by model,
    firmware and mode, so only the node's other cards can tell.
    """
    return over_gpus(lambda gpu: window(gpu, readings), "there", "the window is present")(readings, expected)


def window(gpu: Evidence, readings: Evidence) -> Judged:
    twins = [other for other in answering_gpus(readings) if same_kind(gpu) == same_kind(other)]
    seen = [twin for twin in twins if not twin.absent("health", "bar1_total_mib")]
    if gpu.absent("health", "bar1_total_mib"):
        if seen:
            size = seen[0].number("health", "bar1_total_mib")
            return WARN, "not-reported", None, f"BAR1 is not reported, others have {size} MiB"
        return SKIP, "not-needed", None, "the processor beside this card reaches its memory without a window (C2C)"
    size, words = gpu.number("health", "bar1_total_mib"), "BAR1 has {} MiB"
    most = max([size] + [twin.number("health", "bar1_total_mib") for twin in seen])
    if most > size > 0:
        return WARN, "smaller", size, (words + ", others have {}").format(size, most)
    return (PASS if size else FAIL, "missing", size, words.format(size))


def same_kind(gpu: Evidence) -> Tuple[str, Optional[str]]:
    """Model and MIG mode, on which the size of the window may depend."""
    return gpu.text("name"), None if gpu.absent("mig_mode") else gpu.text("mig_mode")


def idle_memory(gpu: Evidence) -> Judged:
    """The memory of a card that nobody uses is empty; what is left belongs to a program that nvidia-smi hides."""
    processes = gpu.each("processes")
    if processes:
        return SKIP, "busy", None, f"in use by {len(processes)} programs"
    used = gpu.number("memory_used_mib")
    return (PASS if used <= limit("idle_memory") else WARN, "in-use", used, f"{used} MiB in use by no visible program")


def source(name: str) -> str:
    return LIMITS[name].source


CHECKS = (
    Check(
        id="gpu.memory_size",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=REPLACE,
        question="Does every card have all of its memory?",
        judge=memory_size,
        unit="MiB",
        action="Power the node off and on; a card that still shows less has to be examined by the vendor.",
        source="the other cards of the node, and the table of cards",
    ),
    card(
        name="ecc_pending",
        severity=WARN,
        question="Is a change of ECC waiting for a reboot?",
        rule=ecc_pending,
        expected_value="the same as now",
        fine="no change of ECC is pending",
        action="When nobody works on the node, run: systemctl reboot ; or keep the mode: nvidia-smi -e 1 (on), -e 0",
    ),
    card(
        name="ecc_corrected",
        severity=WARN,
        question="Does the card correct many memory errors?",
        rule=ecc_corrected,
        expected_value=limit("ecc_corrected"),
        fine="few corrected errors since the driver was loaded",
        unit="errors",
        action="Watch it: nvidia-smi -q -d ECC ; a fast-growing count precedes uncorrected errors.",
        source=source("ecc_corrected"),
    ),
    card(
        name="sram",
        severity=FAIL,
        remedy=REPLACE,
        question="Is the chip's own memory healthy?",
        rule=sram,
        expected_value=limit("sram_uncorrected"),
        fine="few errors over the chip's life",
        unit="errors",
        action=DIAGNOSE,
        source=source("sram_uncorrected"),
    ),
    card(
        name="retired_pages_count",
        severity=FAIL,
        remedy=REPLACE,
        question="Does the card have spare memory pages left?",
        rule=retired_count,
        expected_value=limit("retired_pages_full"),
        fine="enough spare pages",
        unit="pages",
        action=DIAGNOSE,
        source=source("retired_pages_full"),
    ),
    card(
        name="remapped_rows_count",
        severity=FAIL,
        remedy=REPLACE,
        question="Does the card have spare memory rows left?",
        rule=remapped_count,
        expected_value=limit("remapped_rows"),
        fine="no row was remapped for an uncorrected error",
        unit="rows",
        action=DIAGNOSE,
        source=source("remapped_rows"),
    ),
    Check(
        id="gpu.bar1",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=REBOOT,
        question="Can the processor reach the card's memory?",
        judge=bar1,
        unit="MiB",
        action="Switch on 'above 4G decoding' in the firmware; dmesg | grep -i 'BAR 1'",
    ),
    card(
        name="idle_memory",
        severity=WARN,
        question="Is the memory of an idle card empty?",
        rule=idle_memory,
        expected_value=limit("idle_memory"),
        fine="empty",
        unit="MiB",
        action="Find what holds it: fuser -v /dev/nvidia* ; a container may hide its programs.",
        source=source("idle_memory"),
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "gpu.memory_size": Hand(MACHINE, "nvidia-smi -q -d MEMORY shows the size that the model is sold with"),
    "gpu.ecc_corrected": Hand(NODE, "nvidia-smi -q -d ECC shows no growing count after the next boot"),
    "gpu.sram": REPLACED,
    "gpu.retired_pages_count": REPLACED,
    "gpu.remapped_rows_count": REPLACED,
    "gpu.bar1": Hand(MACHINE, "nvidia-smi -q -d MEMORY shows a BAR1 as large as the other cards'"),
    "gpu.idle_memory": Hand(OWNER, "nvidia-smi shows no memory in use without a program that uses it"),
}
