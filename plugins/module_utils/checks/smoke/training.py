# SPDX-License-Identifier: Apache-2.0
"""The check of the smoke test: a short real training in full and in mixed precision on every GPU."""

import functools
from typing import Optional, Sequence

from ...gpu import floors
from ...host.patterns import lazily
from ...verdict.by_hand import FAST, MACHINE, NODE, Hand
from ...verdict.check import (
    DRAIN,
    FAIL,
    STANDARD,
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
from ...verdict.evidence import (
    Evidence,
    Unreadable,
)
from ...verdict.expectations import shown_cards
from ...verdict.report import Record, age_words

BUSY = "the smoke test was not run, since the GPUs were in use: {}"
CHECK_MODE = "check mode runs no smoke test"
# What the trainer and training/smoke.py say of a problem; a record of an earlier release says nothing.
CODE = lazily(r"[a-z0-9]+(?:-[a-z0-9]+)*")
FAILED, WRONG, NO_GPU = "failed", "wrong-result", "no-gpu"
SERVICE = lazily(r"[A-Za-z0-9@:._-]+\.service")


def smoke_record(result: Optional[Record]) -> Record:
    """The record of the smoke test in a result of amp_smoke_test, or one that says why there is none.

    None and a skipped task are no answer. The module gives a message if it failed, with or without a record, and then
    the message is a problem. A record itself is returned as it is.
    """
    if result is None:
        return {"unreadable": "no smoke test was run"}
    if {"busy", "check_mode", "devices", "unreadable"} & set(result):
        return result
    lines = str(result.get("msg") or "").splitlines()
    if result.get("skipped"):
        return {"unreadable": f"the smoke test was skipped: {lines[0] if lines else 'no reason given'}"}
    record, code = result.get("smoke"), str(result.get("code") or FAILED)
    if not isinstance(record, dict):
        problems = lines[:1] or ["the smoke test left no record and no reason"]
        return {"device": None, "devices": [], "problems": problems, "problem_codes": [code]}
    return record if record.get("problems") or not lines else dict(record, problems=lines[:1], problem_codes=[code])


def why_not_run(readings: Evidence) -> str:
    """Why no smoke test was run: somebody was working on the GPUs, or check mode; "" if one was, or none was wanted."""
    smoke = readings.at("smoke").value
    if isinstance(smoke, dict) and "check_mode" in smoke:
        return CHECK_MODE
    return BUSY.format(readings.text("smoke", "busy")) if isinstance(smoke, dict) and "busy" in smoke else ""


def why_not_code(readings: Evidence) -> str:
    """The code of `why_not_run`."""
    smoke = readings.at("smoke").value
    return "check-mode" if isinstance(smoke, dict) and "check_mode" in smoke else "busy"


def problem_code(smoke: Evidence) -> str:
    """The code of the problems: that of all, "wrong-result" if one is that, "several"; "failed" if it is not told."""
    codes = smoke.value.get("problem_codes")
    if not isinstance(codes, list) or len(codes) != len(smoke.each("problems")):
        return FAILED
    known = {code if isinstance(code, str) and CODE.fullmatch(code) else FAILED for code in codes}
    return WRONG if WRONG in known else known.pop() if len(known) == 1 else "several"


def where_run(judge: Judge) -> Judge:
    """Make a check SKIP if no test could be run; what an earlier one found wrong stays a failure.

    An earlier one that had to run elsewhere, such as on the CPU, answers a different question.
    """

    @functools.wraps(judge)
    def look(readings: Evidence, expected: Evidence) -> Outcome:
        reason = why_not_run(readings)
        if not reason:
            return judge(readings, expected)
        smoke = readings.at("smoke")
        try:
            last, when = judge(readings, expected), age_words(smoke.number("age_s"))
            if not smoke.each("problems") and smoke.text("device") != expected.text("smoke_device"):
                return skipped(why_not_code(readings), f"{reason}; the last one, {when}, was on {smoke.text('device')}")
        except Unreadable:
            return skipped(why_not_code(readings), reason)
        if last.status == FAIL:
            return last._replace(message=f"{last.message}, {when}; now {reason}")
        return skipped(why_not_code(readings), f"{reason}; the last one, {when}, ended with {last.status}")

    return look


@where_run
def amp(readings: Evidence, expected: Evidence) -> Outcome:
    """The test found no problem, ran where it was supposed to, on every GPU, and really trained in both precisions.

    The test itself judges losses, steps and memory; here its numbers must also bear it out: a scaler that skips every
    step, or a training that silently ran on the CPU, is not a pass.
    """
    wanted = expected.text("smoke_device")
    smoke = readings.at("smoke")
    problems = [problem.text() for problem in smoke.each("problems")]
    if problems:
        more = f" (+{len(problems) - 1} more)" if len(problems) > 1 else ""
        code = problem_code(smoke)
        lost = unnamed(expected.number("gpu_count")) if code == NO_GPU else ()
        return failed(code, "failed", wanted, problems[0] + more, items=lost)
    if smoke.text("device") != wanted:
        return failed("other-device", smoke.text("device"), wanted, f"it was asked to run on {smoke.text('device')}")
    devices = smoke.each("devices")
    for device in devices:
        name = device.text("device")
        if name.split(":")[0] != wanted:
            return failed("other-device", name, wanted, f"it ran on {name} instead of {wanted}")
        for precision in ("fp32", "amp"):
            if not device.number(precision, "steps_applied"):
                return failed("no-step", name, wanted, f"no training step was applied in {precision} on {name}")
            if not device.flag(precision, "parameters_changed"):
                return failed("no-change", name, wanted, f"training in {precision} on {name} changed nothing")
    needed = shown_cards(expected.number("gpu_count"), expected.value.get("mig")) if wanted == "cuda" else 1
    if len(devices) < max(needed, 1):
        return failed(
            "too-few",
            len(devices),
            needed,
            f"it ran on {len(devices)} of {needed} devices",
            items=unnamed(needed - len(devices)),
        )
    return passed(wanted, wanted, describe(wanted, devices) + age(smoke))


def describe(wanted: str, devices: Sequence[Evidence]) -> str:
    if wanted == "cpu":
        return "trained on the CPU, as requested; this says nothing about a GPU"
    names = ", ".join(device.text("device") for device in devices)
    return f"trained on {names} in float32 and {devices[0].text('amp_dtype')}"


def age(smoke: Evidence) -> str:
    """How long ago the test was, for a result that is read again later."""
    if "age_s" not in smoke.value:
        return ""
    return ", " + age_words(smoke.number("age_s"))


@where_run
def speed_ratio(readings: Evidence, expected: Evidence) -> Outcome:
    """Mixed precision gains at least 0.75 of what is published for a GAN on that architecture; WARN 5 % above that."""
    if expected.text("smoke_device") == "cpu":
        return skipped("on-cpu", "trained on the CPU, whose half precision says nothing about a GPU")
    architectures = sorted({gpu.text("architecture") for gpu in readings.each("probe", "gpus")})
    values = {gpu.device("device"): gpu.amount("speed_ratio") for gpu in readings.each("smoke", "devices")}
    if len(architectures) != 1 or not values:
        return unknown("no-device", f"at least one architecture and one GPU are needed, there are {len(architectures)}")
    slow = min(values, key=lambda name: values[name])
    limits = floors.amp_floor(architectures[0])
    words = f"{slow}: {values[slow]:g} times as fast as float32"
    if limits.floor is None:
        return skipped("no-floor", f"no published floor for {architectures[0]}; measured {words}")
    words += f"; floor {limits.floor:g} ({limits.source})"
    if values[slow] < limits.floor:
        return failed("too-slow", values[slow], limits.floor, words)
    if values[slow] < (limits.warn or limits.floor):
        return warned("slow", values[slow], limits.floor, words)
    return passed(values[slow], limits.floor, words)


@where_run
def parallel(readings: Evidence, expected: Evidence) -> Outcome:
    """A training run over all GPUs at once ended with the same gradients and parameters in every one of them.

    On a CPU two processes stand for the GPUs, so that the software is tried.
    """
    on_cpu = expected.text("smoke_device") == "cpu"
    wanted = 2 if on_cpu else shown_cards(expected.number("gpu_count"), expected.value.get("mig"))
    if wanted < 2:
        return skipped("one-gpu", "there is one GPU")
    if readings.absent("smoke", "parallel"):
        return unknown("not-run", "there was no training over all GPUs", expected=wanted, items=unnamed(wanted - 1))
    found = readings.at("smoke", "parallel")
    backend, ranks = found.one_of(("nccl", "gloo"), "backend"), found.number("ranks")
    if backend != ("gloo" if on_cpu else "nccl"):
        return failed("other-backend", backend, "nccl", f"it ran over {backend}")
    if ranks != wanted:
        return failed(
            "too-few", ranks, wanted, f"it ran over {ranks} of {wanted} devices", items=unnamed(wanted - ranks)
        )
    for what in ("gradients", "parameters"):
        if not found.flag(what + "_equal"):
            return failed("wrong-result", "different", "equal", f"the {what} differ between the devices")
    if not found.number("steps_applied") or not found.flag("parameters_changed"):
        return failed("no-step", 0, wanted, "it applied no step")
    return passed(ranks, wanted, f"{ranks} processes over {backend} ended with the same parameters")


@where_run
def sandbox(readings: Evidence, expected: Evidence) -> Outcome:
    """The smoke test ran in the sandbox of the training service, so its result holds for training runs as a service."""
    if readings.absent("smoke", "sandbox"):
        reason = readings.text("smoke", "sandbox_because")
        return warned("no-sandbox", "none", "a service's", f"run without the service's sandbox: {reason}")
    name = readings.matching(SERVICE, "a service", "smoke", "sandbox")
    return passed(name, "a service's", readings.text("smoke", "sandbox_because"))


CHECKS = (
    Check(
        id="smoke.amp",
        layer="framework",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Can this node train?",
        judge=amp,
        needs_gpu=False,
        action=(
            "Run it by hand: sudo -u trainer gpu-run -- /opt/gpuwright/venvs/current/bin/python -m gan_trainer.smoke"
        ),
    ),
    Check(
        id="smoke.speed_ratio",
        layer="framework",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Does mixed precision make training faster?",
        judge=speed_ratio,
        unit="x",
        action="Look for heat and power limits under load: nvidia-smi dmon ; compare with gpu-doctor --level deep",
        source="gpu/floors.py: 0.75 x published ratios of GANs",
    ),
    Check(
        id="smoke.parallel",
        layer="framework",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Can all GPUs train together?",
        judge=parallel,
        needs_gpu=False,
        action="Run it by hand with NCCL_DEBUG=INFO ; look at nvidia-smi topo -m and nvidia-smi nvlink -s",
    ),
    Check(
        id="smoke.sandbox",
        layer="model",
        level=STANDARD,
        severity=WARN,
        question="Did the smoke test run the way training runs do?",
        judge=sandbox,
        needs_gpu=False,
        action="Run: ansible-playbook site.yml --tags model,verify ; the test then finds the training service",
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "smoke.amp": Hand(NODE, "the command, run by hand, exits with 0"),
    "smoke.speed_ratio": FAST,
    "smoke.parallel": Hand(MACHINE, "NCCL_DEBUG=INFO shows that the run over all GPUs reaches its end"),
}
