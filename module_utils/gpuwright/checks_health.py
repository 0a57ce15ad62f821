# SPDX-License-Identifier: Apache-2.0
"""Checks of how each card is: memory, clocks, heat, power, links; one rule for one card, applied to all.

The limits are data with their sources, those of the field's trusted checkers.
"""

import collections
import re

from .checks_gpu import ASK_FIRST, answering_gpus
from .nvidia_smi_absent import RETIRES_PAGES
from .verdict import FAIL, PASS, QUICK, SKIP, WARN, Check, Outcome, failed, passed, skipped, unknown, warned

Limit = collections.namedtuple("Limit", "value unit source")

LIMITS = {
    "ecc_corrected": Limit(10000000, "errors", "gcm 50,000,000; sichek 10,000,000 (the stricter)"),
    "sram_uncorrected": Limit(4, "errors", "sichek: aggregate at most 4"),
    "retired_pages_full": Limit(60, "pages", "AWS 60, DCGM 63: the card can retire 64"),
    "retired_pages_double_bit": Limit(15, "pages", "DCGM: more than 15 is a soft limit"),
    "remapped_rows": Limit(512, "rows", "DCGM DCGM_LIMIT_MAX_ROW_REMAP_UNCORRECTABLE"),
    "temperature_band": Limit(5, "C", "own: warn this near to the card's slowdown temperature"),
    "power_tolerance": Limit(1, "W", "own: readings are rounded"),
    "pcie_replays": Limit(80, "replays", "DCGM Pcie.cpp; counted since the driver was loaded"),
    "idle_memory": Limit(100, "MiB", "gcm 15 MiB; persistence and reserved memory of newer drivers added"),
}
UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
FIRMWARE = re.compile(r"[0-9A-F]{2}(\.[0-9A-F]{2})+", re.IGNORECASE)
CPU_LIST = re.compile(r"[0-9]+([,-][0-9]+)*")
BAD_CLOCKS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
FABRIC_DONE = "completed"
FABRIC_FINE = "success"


def limit(name):
    return LIMITS[name].value


def over_gpus(rule, expected_value, fine):
    """A check that asks `rule(gpu) -> (status, value, words)` of every card that answers; the worst card counts.

    One card for which the question makes no sense (SKIP) skips the check: what is left out must be seen.
    """

    def look(readings, expected):
        gpus = answering_gpus(readings)
        if not gpus:
            return unknown("the driver cannot be asked", expected=expected_value, action=ASK_FIRST)
        found = [(gpu.pci_id("pci_id"),) + rule(gpu) for gpu in gpus]
        for status in (FAIL, WARN, SKIP):
            hits = [(pci_id, value, words) for pci_id, state, value, words in found if state == status]
            if hits:
                message = "; ".join("{}: {}".format(pci_id, words) for pci_id, _value, words in hits)
                return skipped(message) if status == SKIP else Outcome(status, hits[0][1], expected_value, message)
        values = sorted({str(value) for _pci_id, _state, value, _words in found})
        return passed(", ".join(values), expected_value, fine)

    look.__doc__ = rule.__doc__
    return look


def compute_mode(gpu):
    """Compute mode is Default, so that several programs may use the card one after another and side by side."""
    mode = gpu.text("health", "compute_mode")
    return (PASS if mode == "Default" else FAIL, mode, "compute mode is {}".format(mode))


def mig_mode(gpu):
    """The card is not cut into MIG slices: trainings here use whole cards."""
    if gpu.absent("mig_mode"):
        return PASS, "none", "no MIG"
    mode = gpu.text("mig_mode")
    return (PASS if mode == "Disabled" else WARN, mode, "MIG is {}".format(mode))


def ecc_pending(gpu):
    """The ECC mode of the next boot is the one of now: otherwise a setting waits for a reboot that nobody planned."""
    if gpu.absent("ecc_mode"):
        return SKIP, None, "no ECC"
    now, later = gpu.text("ecc_mode"), gpu.text("health", "ecc_pending")
    return (PASS if now == later else WARN, later, "ECC is {} and will be {} after a reboot".format(now, later))


def ecc_corrected(gpu):
    """Corrected memory errors since the driver was loaded stay below ten million."""
    if gpu.absent("ecc_mode") or gpu.one_of(("Enabled", "Disabled"), "ecc_mode") == "Disabled":
        return SKIP, None, "no ECC, or it is off"
    number = gpu.number("health", "ecc_corrected_volatile")
    return (PASS if number <= limit("ecc_corrected") else WARN, number, "{} corrected errors".format(number))


def sram(gpu):
    """At most four uncorrected errors of the chip's own memory over its life, and the driver's own limit not passed."""
    if gpu.absent("health", "sram_uncorrected_aggregate"):
        return SKIP, None, "this driver or card does not count errors of the chip's own memory"
    number = gpu.number("health", "sram_uncorrected_aggregate")
    if not gpu.absent("health", "sram_threshold_exceeded") and gpu.flag("health", "sram_threshold_exceeded"):
        return FAIL, number, "the driver says that the limit of errors is passed"
    return (PASS if number <= limit("sram_uncorrected") else FAIL, number, "{} uncorrected errors".format(number))


def retired_count(gpu):
    """Fewer than 60 memory pages are retired (a card can retire 64), at most 15 of them for double bit errors."""
    if gpu.text("architecture") not in RETIRES_PAGES or gpu.absent("health", "retired_pages_single_bit"):
        return SKIP, None, "this card does not retire pages"
    double = gpu.number("health", "retired_pages_double_bit")
    number = double + gpu.number("health", "retired_pages_single_bit")
    words = "{} pages retired, {} of them for double bit errors".format(number, double)
    if number >= limit("retired_pages_full"):
        return FAIL, number, words
    return (PASS if double <= limit("retired_pages_double_bit") else WARN, number, words)


def remapped_count(gpu):
    """Fewer than 512 memory rows are remapped for uncorrected errors, which is all that a card can."""
    if gpu.absent("health", "remapped_rows_uncorrected"):
        return SKIP, None, "this card does not remap rows, or does not say in this mode"
    number = gpu.number("health", "remapped_rows_uncorrected")
    words = "{} rows remapped for uncorrected errors".format(number)
    if number >= limit("remapped_rows"):
        return FAIL, number, words
    return (WARN if number else PASS, number, words)


def recovery_action(gpu):
    """The driver asks for no reset, reboot or drain: its own verdict on the card, which drivers from 535 on give."""
    if gpu.absent("recovery_action"):
        return SKIP, None, "the driver is too old to say"
    action = gpu.text("recovery_action")
    return (PASS if action == "none" else FAIL, action, "the driver asks for: {}".format(action))


def throttle(gpu):
    """Neither heat nor power supply holds the clocks down; idle and the ordinary power limit are no fault."""
    reasons = [reason.text() for reason in gpu.each("throttle_reasons")]
    bad = sorted(set(reasons).intersection(BAD_CLOCKS))
    return (FAIL if bad else PASS, ", ".join(bad) or "none", "clocks are held down by {}".format(", ".join(bad)))


def temperature(gpu):
    """The card is colder than the temperature at which it slows down; within 5 degrees of it is a warning."""
    now = gpu.number("temperature_c")
    if not gpu.absent("health", "temperature_slowdown_c"):
        margin = gpu.number("health", "temperature_slowdown_c") - now
    elif not gpu.absent("health", "temperature_margin_c"):
        margin = gpu.number("health", "temperature_margin_c")
    else:
        return SKIP, now, "{} C; the card names no limit".format(now)
    words = "{} C, {} C below its limit".format(now, margin)
    if margin <= 0:
        return FAIL, now, words
    return (PASS if margin > limit("temperature_band") else WARN, now, words)


def power_limit(gpu):
    """The power limit is the card's own: a lowered one costs speed that nobody looks for here."""
    if gpu.absent("health", "power_default_w"):
        return SKIP, None, "this card has no power limit"
    now, default = gpu.amount("power_limit_w"), gpu.amount("health", "power_default_w")
    fits = abs(now - default) <= limit("power_tolerance")
    return (PASS if fits else WARN, now, "limited to {:g} W, delivered with {:g} W".format(now, default))


def link_width(gpu):
    """The card has all the PCIe lanes that card and slot could have."""
    now, most = gpu.number("health", "link_width_now"), gpu.number("health", "link_width_max")
    return (PASS if now and now >= most else FAIL, now, "{} of {} lanes".format(now, most))


def pcie_replays(gpu):
    """At most 80 packets were sent again over the PCIe link since the driver was loaded."""
    number = gpu.number("health", "pcie_replays")
    return (PASS if number <= limit("pcie_replays") else WARN, number, "{} replays".format(number))


def bar1(gpu):
    """The window through which the processor reaches the card's memory is there; without it peer access cannot work."""
    size = gpu.number("health", "bar1_total_mib")
    return (PASS if size else FAIL, size, "BAR1 has {} MiB".format(size))


def idle_memory(gpu):
    """Memory of a card that nobody uses is empty; what stays behind is a program that nvidia-smi does not show."""
    processes = gpu.each("processes")
    if processes:
        return SKIP, None, "in use by {} programs".format(len(processes))
    used = gpu.number("memory_used_mib")
    return (PASS if used <= limit("idle_memory") else WARN, used, "{} MiB in use by no visible program".format(used))


def graphics(gpu):
    """No desktop or display server uses the card: it takes memory and time from trainings."""
    names = [process.text("name") for process in gpu.each("processes") if "G" in process.text("type")]
    return (WARN if names else PASS, ", ".join(names) or "none", "graphics programs: {}".format(", ".join(names)))


def fabric(gpu):
    """The card has joined the NVSwitch fabric; cards that have none are left out."""
    if gpu.absent("health", "fabric_state"):
        return SKIP, None, "no fabric"
    state, status = gpu.text("health", "fabric_state"), gpu.text("health", "fabric_status")
    fine = state.lower() == FABRIC_DONE and status.lower() == FABRIC_FINE
    return (PASS if fine else FAIL, "{}, {}".format(state, status), "fabric: {}, {}".format(state, status))


def identity(readings, expected):
    """Each card has a UUID of its own: two equal ones mean a card that answers for another."""
    gpus = answering_gpus(readings)
    if not gpus:
        return unknown("the driver cannot be asked", action=ASK_FIRST)
    names = [gpu.matching(UUID, "a UUID", "uuid") for gpu in gpus]
    if len(set(names)) != len(names):
        return failed(len(set(names)), len(names), "{} cards have {} UUIDs".format(len(names), len(set(names))))
    return passed(len(names), len(names), "all recorded: {}".format(", ".join(names)))


def vbios(readings, expected):
    """Cards of one model carry one firmware: different ones behave differently under one load."""
    versions = {}
    for gpu in answering_gpus(readings):
        versions.setdefault(gpu.text("name"), set()).add(
            gpu.matching(FIRMWARE, "a version of firmware", "health", "vbios")
        )
    if not versions:
        return unknown("the driver cannot be asked", action=ASK_FIRST)
    value = ", ".join(sorted(set().union(*versions.values())))
    mixed = sorted(name for name, found in versions.items() if len(found) > 1)
    if mixed:
        return warned(value, "one for each model", "different firmware on cards of {}".format(", ".join(mixed)))
    return passed(value, "one for each model", value)


def inforom(readings, expected):
    """nvidia-smi warns of nothing beside its answer, such as a corrupted InfoROM."""
    if not readings.flag("nvidia_smi", "reachable"):
        return unknown("the driver cannot be asked", action=ASK_FIRST)
    warnings = [warning.text() for warning in readings.each("nvidia_smi", "warnings")]
    if warnings:
        return failed(len(warnings), 0, "nvidia-smi warns: {}".format(warnings[0]))
    return passed(0, 0, "nvidia-smi warns of nothing")


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


DIAGNOSE = "Stop using the card, run NVIDIA's field diagnostic, and have it replaced if it confirms."


def card(name, question, action, rule, expected_value, fine, severity=FAIL, source="", unit=""):
    """A quick check of every card by one rule."""
    judge = over_gpus(rule, expected_value, fine)
    return Check("gpu." + name, "system", question, action, judge, unit, True, QUICK, severity, source)


def source(name):
    return LIMITS[name].source


CHECKS = (
    card(
        "compute_mode",
        "May trainings share the card?",
        "Run: nvidia-smi -c 0",
        compute_mode,
        "Default",
        "compute mode is Default",
    ),
    card(
        "mig_mode",
        "Is the card whole?",
        "Run when no program uses the card: nvidia-smi -mig 0",
        mig_mode,
        "Disabled",
        "no card is cut into slices",
        severity=WARN,
    ),
    card(
        "ecc_pending",
        "Does a change of ECC wait for a reboot?",
        "Reboot the node, or set the mode back: nvidia-smi -e 1",
        ecc_pending,
        "as now",
        "no change of ECC is pending",
        severity=WARN,
    ),
    card(
        "ecc_corrected",
        "Does the card correct many memory errors?",
        "Watch it: nvidia-smi -q -d ECC ; a fast growing count precedes uncorrected errors.",
        ecc_corrected,
        limit("ecc_corrected"),
        "few corrected errors since the driver was loaded",
        WARN,
        source("ecc_corrected"),
        "errors",
    ),
    card(
        "sram",
        "Is the chip's own memory sound?",
        DIAGNOSE,
        sram,
        limit("sram_uncorrected"),
        "few errors over the chip's life",
        FAIL,
        source("sram_uncorrected"),
        "errors",
    ),
    card(
        "retired_pages_count",
        "Has the card spare memory pages left?",
        DIAGNOSE,
        retired_count,
        limit("retired_pages_full"),
        "enough spare pages",
        FAIL,
        source("retired_pages_full"),
        "pages",
    ),
    card(
        "remapped_rows_count",
        "Has the card spare memory rows left?",
        DIAGNOSE,
        remapped_count,
        limit("remapped_rows"),
        "no row was remapped for an uncorrected error",
        FAIL,
        source("remapped_rows"),
        "rows",
    ),
    card(
        "recovery_action",
        "Does the driver ask for a reset?",
        "Do what it asks for: nvidia-smi --gpu-reset -i ID when no program uses the card, or systemctl reboot",
        recovery_action,
        "none",
        "the driver asks for nothing",
        source="DCGM checkGpuRecoveryState, nvidia-resiliency-ext",
    ),
    card(
        "throttle",
        "Do heat or power hold the clocks down?",
        "Look at nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER ; check fans, air flow and power cables.",
        throttle,
        "none",
        "neither heat nor power holds the clocks down",
        source="gpud, sichek; idle and SW power cap excluded as by Azure's checks",
    ),
    card(
        "temperature",
        "Is the card cool enough?",
        "Check fans, air flow and the room; nvidia-smi -q -d TEMPERATURE",
        temperature,
        "below its limit",
        "below the temperature at which it slows down",
        source=source("temperature_band"),
        unit="C",
    ),
    card(
        "power_limit",
        "May the card draw its full power?",
        "Set it back: nvidia-smi -pl WATTS with the default limit of nvidia-smi -q -d POWER",
        power_limit,
        "its default",
        "the card's own limit",
        WARN,
        source("power_tolerance"),
        "W",
    ),
    card(
        "link_width",
        "Has the card all its PCIe lanes?",
        "Power off and reseat the card and its riser; look for a slot with fewer lanes in the server's manual.",
        link_width,
        "all",
        "all lanes are in use",
        source="DCGM, sichek: width below the maximum fails",
        unit="lanes",
    ),
    card(
        "pcie_replays",
        "Is the PCIe link clean?",
        "Reseat the card and its riser; journalctl -k -b | grep -i aer",
        pcie_replays,
        limit("pcie_replays"),
        "few packets were sent again",
        WARN,
        source("pcie_replays"),
        "replays",
    ),
    card(
        "bar1",
        "Can the processor reach the card's memory?",
        "Switch on 'above 4G decoding' in the firmware; dmesg | grep -i 'BAR 1'",
        bar1,
        "there",
        "the window is there",
        unit="MiB",
    ),
    card(
        "idle_memory",
        "Is the memory of an idle card empty?",
        "Find who holds it: fuser -v /dev/nvidia* ; a container may hide its programs.",
        idle_memory,
        limit("idle_memory"),
        "empty",
        WARN,
        source("idle_memory"),
        "MiB",
    ),
    card(
        "graphics",
        "Is the card free of desktop programs?",
        "Run: systemctl set-default multi-user.target && systemctl isolate multi-user.target",
        graphics,
        "none",
        "no graphics program",
        severity=WARN,
        source="DCGM: graphics processes are a warning",
    ),
    card(
        "fabric",
        "Has the card joined the NVSwitch fabric?",
        "Run: systemctl restart nvidia-fabricmanager ; journalctl -u nvidia-fabricmanager",
        fabric,
        "Completed, Success",
        "joined",
        source="DCGM LogAndSetFMError",
    ),
    Check(
        "gpu.identity",
        "system",
        "Does each card answer for itself?",
        "Power the node off and on; then compare nvidia-smi -L with the labels on the cards.",
        identity,
        "cards",
        True,
        QUICK,
    ),
    Check(
        "gpu.vbios",
        "system",
        "Do cards of one model carry one firmware?",
        "Ask the vendor for the update of the older one; nvidia-smi -q | grep -i vbios",
        vbios,
        "",
        True,
        QUICK,
        WARN,
    ),
    Check(
        "gpu.inforom",
        "system",
        "Is the card's configuration memory intact?",
        "Run nvidia-smi; a card with a corrupted InfoROM has to be examined by the vendor.",
        inforom,
        "warnings",
        True,
        QUICK,
        FAIL,
        "DCGM, Azure NHC2008",
    ),
    Check(
        "gpu.numa",
        "system",
        "Is it known which processors are next to each card?",
        "Switch on NUMA in the firmware (not 'node interleaving'); lscpu | grep -i numa",
        numa,
        "",
        True,
        QUICK,
        WARN,
        "Azure: topology file",
    ),
)
