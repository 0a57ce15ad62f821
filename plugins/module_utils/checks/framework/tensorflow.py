# SPDX-License-Identifier: Apache-2.0
"""The check of TensorFlow, where it is planned beside PyTorch: it is imported and used, not only installed."""

from typing import Any

from ...host.patterns import lazily
from ...readings.software import who_computes
from ...readings.tensorflow import read_tensorflow
from ...verdict.check import (
    DRAIN,
    FAIL,
    STANDARD,
    Check,
    Outcome,
    failed,
    passed,
    skipped,
    unnamed,
)
from ...verdict.evidence import Evidence
from ...verdict.expectations import shown_cards
from ...verdict.reader import WITHOUT_CARDS, Reader, Seen
from ...verdict.reading_sources import by_hand
from ..standard_readings import LAUNCHER
from .files import REBUILD

PLACE = lazily(r"cpu:0|gpu:[0-9]+")
LIBRARIES = "Run: ansible-playbook site.yml --tags system_cuda,framework,verify"
BY_HAND_COMMAND = (
    "sudo -u trainer gpu-run -- /opt/gpuwright/venvs/current/bin/python -c "
    "'import tensorflow as tf; print(tf.config.list_physical_devices())'"
)


def read_planned_tensorflow(seen: Seen) -> Any:
    plan = seen.expectations["plan"]
    if not (plan.get("tensorflow") or {}).get("version"):
        return None
    busy = who_computes(seen.probe, seen.nvidia_smi)
    return read_tensorflow(seen.root, seen.expectations["venv"], LAUNCHER, seen.expectations["training_user"], busy)


def tensorflow(readings: Evidence, expected: Evidence) -> Outcome:
    """TensorFlow is the planned one, finds every GPU, multiplies right and learns in mixed precision on each device.

    With releases below 2.14, and with those whose wheel brings no CUDA, it is the node's own CUDA and cuDNN that are
    loaded here.
    """
    # Expectations of an earlier release do not speak of it.
    if "tensorflow" not in expected.at("plan").value or not expected.wish("plan", "tensorflow", "version"):
        return skipped("not-planned", "no TensorFlow is planned")
    wanted = expected.version("plan", "tensorflow", "version")
    if readings.absent("tensorflow"):
        return failed("no-environment", "no venv", wanted, f"there is no venv at {expected.wish('venv')}", REBUILD)
    found = readings.at("tensorflow")
    version = found.text("version")
    if version != wanted:
        return failed("other-version", version, wanted, f"TensorFlow {version} instead of {wanted}", REBUILD)
    for device in found.each("devices"):
        name = device.matching(PLACE, "a device of TensorFlow", "device")
        if "error" in device.value:
            return failed("failed", name, "right", f"TensorFlow fails on {name}: {device.text('error')}")
        for key, code, words in (
            ("there", "elsewhere", f"what was asked of {name} ran elsewhere"),
            ("product", "wrong-result", f"a matrix product is wrong on {name}"),
            ("learns", "wrong-result", f"mixed-precision steps do not lower the loss on {name}"),
        ):
            if not device.flag(key):
                return failed(code, name, "right", f"TensorFlow: {words}")
    return _on_cards(found, expected, version)


def _on_cards(found: Evidence, expected: Evidence, version: str) -> Outcome:
    """How many cards it finds, where those that it used gave right results."""
    on_gpus = expected.text("plan", "pytorch", "build") != "cpu"
    cards = shown_cards(expected.number("gpu_count"), expected.value.get("mig")) if on_gpus else 0
    shown = found.number("cards")
    names = ", ".join(device.text("device") for device in found.each("devices"))
    if shown < cards:
        lost = [name.text() for name in found.each("lost")]
        why = f": it does not find {', '.join(lost)}" if lost else ""
        if found.text("built_for") == "cpu":
            why = ": its wheel is built for processors alone"
        words = f"TensorFlow {version} shows {shown} of {cards} GPUs{why}"
        action = LIBRARIES if lost else ""
        return failed("too-few", shown, cards, words, action, items=unnamed(cards - shown))
    if "busy" in found.value and cards:
        who = found.text("busy")
        return skipped("busy", f"right on {names}; not tried on the GPUs, which are in use: {who}")
    used = len(found.each("devices"))
    if used != shown + 1:
        words = f"TensorFlow {version} was not tried on every GPU: {names} of {shown} GPUs and the processor"
        return failed("not-tried", used, shown + 1, words)
    return passed("right", "right", f"TensorFlow {version}: right on {names}, also in mixed precision")


CHECKS = (
    Check(
        id="framework.tensorflow",
        layer="framework",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Does the planned TensorFlow compute on every device?",
        judge=tensorflow,
        needs_gpu=False,
        action=f"Run: {BY_HAND_COMMAND}",
        source="TensorFlow's install guide: list the devices; a product and a convolution load cuBLAS and cuDNN",
        readers=(
            Reader(
                name="tensorflow",
                level=STANDARD,
                read=read_planned_tensorflow,
                source=by_hand("TensorFlow in /opt/gpuwright/venvs/current", BY_HAND_COMMAND),
                ahead=WITHOUT_CARDS,
                scanned=False,
            ),
        ),
    ),
)
