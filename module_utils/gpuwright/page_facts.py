# SPDX-License-Identifier: Apache-2.0
"""What the page says of one report: the node as built, what changed since the one before, and bars with floors."""

from .verdict import SKIP

NOT_READ = "not read"
# Speed of mixed over single precision that a sound card reaches in a GAN: 0.75 x a published measurement.
SPEED_FLOORS = {
    "volta": (1.62, "0.75 x 2.16: HiFi-GAN on V100, NVIDIA DeepLearningExamples"),
    "ampere": (0.97, "0.75 x 1.29: HiFi-GAN on A100 against TF32, NVIDIA DeepLearningExamples"),
}


def look(record, *path):
    """The value at `path`; None where there is none, words where it could not be read."""
    for key in path:
        if isinstance(record, dict) and "unreadable" in record:
            return "{}: {}".format(NOT_READ, record["unreadable"])
        try:
            record = record[key]
        except (KeyError, IndexError, TypeError):
            return None
    if isinstance(record, dict) and "unreadable" in record:
        return "{}: {}".format(NOT_READ, record["unreadable"])
    return record


def as_list(value):
    return value if isinstance(value, list) else []


def in_words(value):
    """A value for people."""
    if value is None or value == "":
        return "none"
    if isinstance(value, list):
        return ", ".join(in_words(member) for member in value) or "none"
    return str(value)


def as_built(report):
    """Rows (name, value, why) of what the node consists of, from the hardware up."""
    probe, plan = look(report, "readings", "probe"), look(report, "expectations", "plan")
    venv = look(report, "readings", "venv")
    gpus = ["{} at {}".format(look(gpu, "name"), look(gpu, "pci_id")) for gpu in as_list(look(probe, "gpus"))]
    cpu = "{}, {} cores, {} threads".format(
        look(probe, "cpu", "model"), look(probe, "cpu", "physical_cores"), look(probe, "cpu", "logical_cpus")
    )
    allocators = look(report, "readings", "allocators")
    rows = (
        ("GPUs", gpus, ""),
        ("processor", cpu, ""),
        ("memory", "{} MiB".format(look(probe, "memory_mib")), ""),
        ("system", look(probe, "os", "name"), ""),
        ("kernel", look(probe, "kernel", "running"), ""),
        ("next kernel", look(probe, "kernel", "next_boot"), ""),
        ("driver", look(probe, "nvidia", "loaded", "version"), "driver"),
        ("module", look(probe, "nvidia", "loaded", "flavour"), ""),
        ("module stream", look(plan, "driver", "stream"), ""),
        ("CUDA toolkit", look(report, "readings", "cuda", "version_file"), "cuda"),
        ("cuDNN", look(report, "readings", "cudnn", "library"), "cudnn"),
        ("NCCL", look(report, "readings", "nccl", "library"), "nccl"),
        ("Python", look(venv, "python"), "python"),
        ("PyTorch", look(venv, "versions", "torch"), "pytorch"),
        ("trainer", look(venv, "versions", "gan_trainer"), ""),
        ("mixed precision", look(plan, "amp", "dtype"), "amp"),
        ("allocators", sorted(allocators) if isinstance(allocators, dict) else allocators, ""),
    )
    reasons = look(plan, "because")
    reasons = dict(reasons) if isinstance(reasons, dict) else {}
    reasons.setdefault("amp", look(plan, "amp", "because") or "")
    return [(name, in_words(value), reasons.get(why, "")) for name, value, why in rows]


def changes(before, now):
    """Sentences on what is another than in the report before; None when there is no report before."""
    if before is None:
        return None
    found = []
    old = {name: value for name, value, _why in as_built(before)}
    for name, value, _why in as_built(now):
        if old.get(name) != value:
            found.append("{}: {} → {}".format(name, old.get(name), value))
    old = {check.get("id"): check.get("status") for check in before["checks"]}
    for check in now["checks"]:
        then = old.pop(check["id"], None)
        if then is not None and then != check["status"]:
            found.append("{}: {} → {}".format(check["id"], then, check["status"]))
    for name in sorted(str(key) for key in old):
        found.append("{}: no longer checked".format(name))
    return found


def bars(report):
    """`(name, value, unit, floor or None, words)` of each measurement of the smoke test."""
    architectures = [look(gpu, "architecture") for gpu in as_list(look(report, "readings", "probe", "gpus"))]
    floor, source = SPEED_FLOORS.get(architectures[0] if architectures else None, (None, "no floor for this model"))
    found = []
    for device in as_list(look(report, "smoke", "devices")):
        name = in_words(look(device, "device"))
        ratio = look(device, "speed_ratio")
        if is_number(ratio):
            known = floor if name.startswith("cuda") else None
            found.append(("{}: mixed over single precision".format(name), ratio, "x", known, source))
        for precision in ("fp32", "amp"):
            seconds, memory = look(device, precision, "seconds"), look(device, precision, "peak_memory_mib")
            if is_number(seconds):
                steps = look(report, "smoke", "steps")
                found.append(("{}: {} steps in {}".format(name, steps, precision), seconds, "s", None, ""))
            if is_number(memory):
                found.append(("{}: peak memory in {}".format(name, precision), memory, "MiB", None, ""))
    return found


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")


def skipped(report):
    return [check for check in report["checks"] if check["status"] == SKIP]
