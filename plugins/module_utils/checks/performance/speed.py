# SPDX-License-Identifier: Apache-2.0
"""Checks of how fast the GPUs move data and multiply: each number is compared with its model's published floor.

A model without a published floor is SKIP with the measured value, never PASS: what cannot be judged proves nothing.
"""

import functools
from typing import Callable, List, Optional, Tuple

from ...gpu import floors
from ...verdict.by_hand import FAST, MACHINE, RESEATED, Hand
from ...verdict.check import (
    CONTACT_SUPPORT,
    DEEP,
    FAIL,
    PASS,
    POWER_CYCLE,
    RESET,
    SKIP,
    UNKNOWN,
    WARN,
    Check,
    Judge,
    Outcome,
    failed,
    passed,
    skipped,
    unknown,
    unnamed,
    warned,
)
from ...verdict.evidence import Evidence

ON_CPU = "measured on the CPU, which says nothing about a GPU"
SLOW_LINK = "Reseat the card and its riser. The link under load: lspci -vv -d 10de: | grep -E '^[0-9a-f]|LnkSta:'"
SLOW_CARD = "Look for heat and power limits under load: nvidia-smi dmon ; then run NVIDIA's field diagnostic."
SLOW_FABRIC = "Look at nvidia-smi topo -m and nvidia-smi nvlink -s ; NCCL_DEBUG=INFO says which path NCCL takes."
# Good cards of one model differ by less.
SPREAD = 1.05
# Two measurements of one link differ by less.
NOISE = 1.1
WRONG_NODE = "Compare nvidia-smi topo -m with the server's manual; switch on ACPI's NUMA tables (SRAT) in the firmware."

# function(readings, devices): a check's result for GPUs that were measured.
Measured = Callable[[Evidence, List[Evidence]], Outcome]


def devices_of(readings: Evidence, expected: Evidence) -> Tuple[List[Evidence], Optional[Outcome]]:
    """(devices, outcome): the measured GPUs, or why there are none or too few."""
    performance = readings.at("performance")
    busy = [who.text() for who in performance.each("busy")]
    if busy:
        words = f"the GPUs are in use, and only idle ones are measured: {'; '.join(busy)}"
        return [], skipped("busy", words)
    devices = performance.each("devices")
    if [device for device in devices if device.device("device") == "cpu"]:
        return [], skipped("on-cpu", ON_CPU)
    wanted = expected.number("gpu_count")
    if len(devices) != wanted:
        doubt = f"{len(devices)} of {wanted} GPUs were measured{why_failed(readings, '')}"
        return [], unknown("too-few", doubt, items=unnamed(wanted - len(devices)))
    return devices, None


def on_measured(action: str, at_least: int = 1) -> Callable[[Measured], Judge]:
    """Make a check of `judge(readings, devices)`, used if all expected GPUs were measured, `at_least` this many."""

    def decorate(judge: Measured) -> Judge:
        @functools.wraps(judge)
        def look(readings: Evidence, expected: Evidence) -> Outcome:
            devices, none = devices_of(readings, expected)
            if none:
                return none._replace(action=action)
            if len(devices) < at_least:
                return skipped("one-gpu", "there is one GPU")
            return judge(readings, devices)

        return look

    return decorate


def against_floor(measure: str, action: str) -> Judge:
    """A check that compares a measure of every GPU with the floor of its model; the worst one counts."""

    @on_measured(action)
    def judge(readings: Evidence, devices: List[Evidence]) -> Outcome:
        """At least 0.75 of what was published for good cards of the model; WARN within 5 % above that floor."""
        found = [one_device(readings, device, measure) for device in devices]
        # A failed measurement is worse than a value that cannot be judged.
        order = (FAIL, UNKNOWN, WARN, SKIP, PASS)
        return min(found, key=lambda outcome: order.index(outcome.status))

    return judge


def one_device(readings: Evidence, device: Evidence, measure: str) -> Outcome:
    name, model = device.device("device"), device.text("name")
    if device.absent("measures", measure):
        if measure in device.names("left_out"):
            return skipped("left-out", f"{name}: {device.text('left_out', measure)}")
        return unknown(
            "not-measured", "{} could not be measured{}".format(name, why_failed(readings, f"{name} {measure}"))
        )
    value = device.amount("measures", measure, "value")
    return against(value, floors.floor_of(model, measure), f"{name} ({model})", model)


def against(value: float, limits: floors.Floor, name: str, model: str) -> Outcome:
    """The outcome of a value against a `Floor`."""
    words = f"{name}: {value:g} {limits.unit}"
    if limits.peak is not None:
        words += f", {100.0 * value / limits.peak:.0f} % of the published peak"
    if limits.floor is None:
        return skipped("no-floor", f"no published floor for {model}; {words}")
    words += f"; floor {limits.floor:g} ({limits.source})"
    if value < limits.floor:
        return failed("too-slow", value, limits.floor, words)
    if value < (limits.warn or limits.floor):
        return warned("slow", value, limits.floor, words)
    return passed(value, limits.floor, words)


def why_failed(readings: Evidence, begin: str) -> str:
    """The first problem of the measurement that begins with these words, for a message."""
    problems = [problem.text() for problem in readings.each("performance", "problems")]
    found = [problem for problem in problems if problem.startswith(begin)]
    return f": {found[0]}" if found else ""


@on_measured(SLOW_LINK)
def link(readings: Evidence, devices: List[Evidence]) -> Outcome:
    """Under load each card's PCIe link runs at the speed that card and slot could have; idle cards slow it down."""
    wanted = {gpu.pci_id("pci_id"): speed(gpu.text("link", "speed_max")) for gpu in readings.each("probe", "gpus")}
    for device in devices:
        name = device.pci_id("pci_id")
        if device.absent("measures", "link_gt_s") or name not in wanted:
            return unknown(
                "not-measured", f"{name} could not be measured{why_failed(readings, device.device('device'))}"
            )
        now = device.amount("measures", "link_gt_s", "value")
        if now < wanted[name]:
            return failed("too-slow", now, wanted[name], f"{name} runs at {now:g} of {wanted[name]:g} GT/s")
    best = max(wanted.values())
    return passed(best, best, "every link runs at its full speed")


def speed(text: str) -> float:
    """GT/s in sysfs' words, such as "8.0 GT/s PCIe"."""
    return float(text.split()[0])


@on_measured(SLOW_FABRIC, at_least=2)
def all_reduce(readings: Evidence, devices: List[Evidence]) -> Outcome:
    """Over eight GPUs behind NVLink at least 0.75 of the published bus bandwidth; WARN within 5 % above that floor."""
    if readings.absent("performance", "all_reduce"):
        return unknown("not-measured", f"all-reduce could not be measured{why_failed(readings, 'all_reduce')}")
    gpus = readings.number("performance", "all_reduce", "gpus")
    if gpus != len(devices):
        return unknown(
            "too-few", f"all-reduce ran over {gpus} of {len(devices)} GPUs", items=unnamed(len(devices) - gpus)
        )
    value = readings.amount("performance", "all_reduce", "value")
    models = sorted({device.text("name") for device in devices})
    if len(models) > 1:
        return skipped("mixed-models", f"the GPUs are of different models: {value:g} GB/s")
    name = f"{gpus} x {', '.join(models)}"
    return against(value, floors.reduce_floor(models[0], gpus), name, name)


@on_measured(SLOW_CARD, at_least=2)
def spread(readings: Evidence, devices: List[Evidence]) -> Outcome:
    """GPUs of one model on one node multiply equally fast, within 5 %: a slow one holds up a training run on all."""
    if len({device.text("name") for device in devices}) > 1:
        return skipped("mixed-models", "the GPUs are of different models")
    values = {device.device("device"): device.amount("measures", "matmul_fp32_tflops", "value") for device in devices}
    slow, fast = min(values, key=lambda name: values[name]), max(values, key=lambda name: values[name])
    words = f"{slow}: {values[slow]:g} TFLOP/s, {fast}: {values[fast]:g} TFLOP/s"
    if values[slow] * SPREAD < values[fast]:
        return warned("unequal", values[slow], values[fast], words)
    return passed(values[slow], values[fast], words)


@on_measured(WRONG_NODE)
def near_and_far(readings: Evidence, devices: List[Evidence]) -> Outcome:
    """From the processors that the host calls near, a GPU is reached at least as fast as from those of another node."""
    for device in devices:
        name = device.device("device")
        if device.absent("measures", "h2d_remote_gb_s"):
            if "h2d_remote_gb_s" in device.names("left_out"):
                return skipped("left-out", f"{name}: {device.text('left_out', 'h2d_remote_gb_s')}")
            return unknown("not-measured", f"{name} could not be measured{why_failed(readings, name)}")
        near = device.amount("measures", "h2d_gb_s", "value")
        far = device.amount("measures", "h2d_remote_gb_s", "value")
        words = f"{name}: {near:g} GB/s from near processors, {far:g} GB/s from far ones"
        if near * NOISE < far:
            return warned("far-is-faster", near, far, words)
    return passed(near, far, words)


QUESTIONS = {
    "h2d_gb_s": ("Does data reach the GPU fast enough?", SLOW_LINK, POWER_CYCLE),
    "d2h_gb_s": ("Does data come back from the GPU fast enough?", SLOW_LINK, POWER_CYCLE),
    "copy_gb_s": ("Is the GPU's memory fast enough?", SLOW_CARD, CONTACT_SUPPORT),
    "matmul_fp16_tflops": ("Does the GPU multiply fast enough in float16?", SLOW_CARD, CONTACT_SUPPORT),
    "matmul_bf16_tflops": ("Does the GPU multiply fast enough in bfloat16?", SLOW_CARD, CONTACT_SUPPORT),
    "matmul_tf32_tflops": ("Does the GPU multiply fast enough in TF32?", SLOW_CARD, CONTACT_SUPPORT),
    "matmul_fp32_tflops": ("Does the GPU multiply fast enough in float32?", SLOW_CARD, CONTACT_SUPPORT),
    "p2p_gb_s": ("Does data go from GPU to GPU fast enough, and intact?", SLOW_FABRIC, RESET),
}


def deep(
    name: str, question: str, action: str, judge: Judge, source: str, unit: str, severity: str = FAIL, remedy: str = ""
) -> Check:
    """A check of level deep."""
    return Check(
        id="performance." + name,
        layer="framework",
        level=DEEP,
        severity=severity,
        remedy=remedy,
        question=question,
        judge=judge,
        unit=unit,
        action=action,
        source=source,
    )


CHECKS = tuple(
    deep(
        measure.rsplit("_gb_s", 1)[0].rsplit("_tflops", 1)[0],
        question,
        action,
        against_floor(measure, action),
        source="gpu/floors.py: DCGM's rule of 0.75 x known good, and what Azure's health checks enforce",
        unit=floors.unit_of(measure),
        remedy=remedy,
    )
    for measure, (question, action, remedy) in QUESTIONS.items()
) + (
    deep(
        "link",
        "Does the PCIe link run at full speed under load?",
        SLOW_LINK,
        link,
        source="DCGM min_pci_generation",
        unit="GT/s",
        remedy=POWER_CYCLE,
    ),
    deep(
        "all_reduce",
        "Do the GPUs exchange data fast enough?",
        SLOW_FABRIC,
        all_reduce,
        source="gpu/floors.py",
        unit="GB/s",
        remedy=RESET,
    ),
    deep(
        "numa",
        "Does the host report correctly which processors are near?",
        WRONG_NODE,
        near_and_far,
        source="own: two measurements of one link differ by less than 10 %",
        unit="GB/s",
        severity=WARN,
    ),
    deep(
        "spread",
        "Are the GPUs equally fast?",
        SLOW_CARD,
        spread,
        source="ml-engineering: 5 % between good cards",
        unit="TFLOP/s",
        severity=WARN,
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "performance.h2d": RESEATED,
    "performance.d2h": RESEATED,
    "performance.copy": FAST,
    "performance.matmul_fp16": FAST,
    "performance.matmul_bf16": FAST,
    "performance.matmul_tf32": FAST,
    "performance.matmul_fp32": FAST,
    "performance.p2p": Hand(MACHINE, "nvidia-smi topo -m shows NV or PIX between the two"),
    "performance.link": RESEATED,
    "performance.all_reduce": Hand(MACHINE, "NCCL_DEBUG=INFO shows the path over NVLink"),
    "performance.numa": Hand(MACHINE, "nvidia-smi topo -m shows the card's NUMA node as the manual does"),
    "performance.spread": FAST,
}
