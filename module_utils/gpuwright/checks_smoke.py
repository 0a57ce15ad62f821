# SPDX-License-Identifier: Apache-2.0
"""The check of the smoke test: a short real training in full and in mixed precision on every GPU."""

from .verdict import Check, failed, passed

# Seconds and name of the units in which an age is told; the largest of which there are two.
AGE_UNITS = ((86400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))


def smoke_record(result):
    """The record of the smoke test in a result of amp_smoke_test, or one that says why there is none.

    None and a skipped task are no answer. The module gives a message when it failed, with or without a record, and then
    the message is a problem. A record itself is returned as it is.
    """
    if result is None:
        return {"unreadable": "no smoke test was run"}
    if "devices" in result or "unreadable" in result:
        return result
    lines = str(result.get("msg") or "").splitlines()
    if result.get("skipped"):
        return {"unreadable": "the smoke test was skipped: {}".format(lines[0] if lines else "no reason given")}
    record = result.get("smoke")
    if not isinstance(record, dict):
        return {"device": None, "devices": [], "problems": lines[:1] or ["the smoke test gave no record and no reason"]}
    return record if record.get("problems") or not lines else dict(record, problems=lines[:1])


def amp(readings, expected):
    """The test found no problem, ran where it was told to, on every GPU, and really trained in both precisions.

    The test itself judges losses, steps and memory; here its numbers must also bear it out: a scaler that skips every
    step, or a training that silently ran on the CPU, is no pass.
    """
    wanted = expected.text("smoke_device")
    smoke = readings.at("smoke")
    problems = [problem.text() for problem in smoke.each("problems")]
    if problems:
        more = " (+{} more)".format(len(problems) - 1) if len(problems) > 1 else ""
        return failed("failed", wanted, problems[0] + more)
    if smoke.text("device") != wanted:
        return failed(smoke.text("device"), wanted, "it was asked to run on {}".format(smoke.text("device")))
    devices = smoke.each("devices")
    for device in devices:
        name = device.text("device")
        if name.split(":")[0] != wanted:
            return failed(name, wanted, "it ran on {} instead of {}".format(name, wanted))
        for precision in ("fp32", "amp"):
            if not device.number(precision, "steps_applied"):
                return failed(name, wanted, "no training step was applied in {} on {}".format(precision, name))
            if not device.flag(precision, "parameters_changed"):
                return failed(name, wanted, "training in {} on {} changed nothing".format(precision, name))
    needed = expected.number("gpu_count") if wanted == "cuda" else 1
    if len(devices) < max(needed, 1):
        return failed(len(devices), needed, "it ran on {} of {} devices".format(len(devices), needed))
    return passed(wanted, wanted, describe(wanted, devices) + age(smoke))


def describe(wanted, devices):
    if wanted == "cpu":
        return "trained on the CPU, as demanded; this says nothing about a GPU"
    names = ", ".join(device.text("device") for device in devices)
    return "trained on {} in float32 and {}".format(names, devices[0].text("amp_dtype"))


def age(smoke):
    """How long ago, for a result that is read again later."""
    if "age_s" not in smoke.value:
        return ""
    seconds = smoke.number("age_s")
    size, unit = next((size, unit) for size, unit in AGE_UNITS if seconds >= 2 * size or size == 1)
    return ", {} {} ago".format(seconds // size, unit)


CHECKS = (
    Check(
        "smoke.amp",
        "framework",
        "Can this node train?",
        "Run it by hand: sudo -u trainer gpu-run -- /opt/gpuwright/venvs/current/bin/python -m gan_trainer.smoke",
        amp,
        needs_gpu=False,
    ),
)
