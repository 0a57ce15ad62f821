# SPDX-License-Identifier: Apache-2.0
"""Checks of what the system layer puts on top of the driver: CUDA, cuDNN, NCCL, allocators, and gpu-run."""

from ...verdict.check import DRAIN, FAIL, STANDARD, Check, failed, passed, skipped, unknown
from ..host.system import bad_program
from ..reinstall import reinstall

CUDNN = {"header": "/usr/include/cudnn_version.h", "library": "/usr/lib64/libcudnn.so.{}"}
NCCL = "/usr/lib64/libnccl.so.2"


def release(version, parts):
    """The first `parts` numbers of a dotted version."""
    return ".".join(version.split(".")[:parts])


def compare_version(what, found, wanted):
    """PASS when `found`, cut to the precision of `wanted` or the reverse, is `wanted`."""
    parts = min(len(found.split(".")), len(wanted.split(".")))
    # One number says too little to be compared.
    if parts >= 2 and release(found, parts) == release(wanted, parts):
        return passed(found, wanted, "{} {}".format(what, found))
    return failed(found, wanted, "{} {} instead of {}".format(what, found, wanted))


def cuda_version(readings, expected):
    """Both the toolkit's version.json and its compiler state the planned version.

    The distribution's toolkit lies in the system's own folders, without a version.json; its compiler speaks for it.
    """
    wanted = expected.wish("plan", "cuda", "version")
    if not wanted:
        return skipped("the plan installs no CUDA toolkit")
    if readings.absent("cuda", "version_file") and readings.absent("cuda", "nvcc"):
        return failed("none", wanted, "no toolkit in {}".format(expected.wish("plan", "cuda", "prefix")))
    own_folder = bool(expected.wish("plan", "cuda", "link"))
    for name, what in (("version_file", "version.json"), ("nvcc", "nvcc"))[not own_folder :]:
        if readings.absent("cuda", name):
            path = "{}/{}".format(expected.wish("plan", "cuda", "prefix"), {"nvcc": "bin/nvcc"}.get(what, what))
            return failed(
                "none", wanted, "the toolkit has no {}".format(what), reinstall(readings, path, "system_cuda")
            )
        outcome = compare_version(what, readings.version("cuda", name), wanted)
        if outcome.status != "PASS":
            return outcome
    if not own_folder:
        return passed(readings.version("cuda", "nvcc"), wanted, "the compiler says so")
    return passed(readings.version("cuda", "version_file"), wanted, "toolkit and compiler agree")


def cuda_link(readings, expected):
    """/usr/local/cuda leads to the planned toolkit, so that builds and scripts find the same one."""
    if not expected.wish("plan", "cuda", "version"):
        return skipped("the plan installs no CUDA toolkit")
    if not expected.wish("plan", "cuda", "link"):
        return skipped("the distribution's toolkit is in the system's own folders, which need no link")
    wanted = expected.text("plan", "cuda", "prefix")
    if readings.absent("cuda", "prefix"):
        return failed("none", wanted, "there is no {}".format(wanted))
    if readings.absent("cuda", "link"):
        return failed("none", wanted, "/usr/local/cuda leads nowhere")
    target = readings.text("cuda", "link")
    # Compared where both end, since the prefix may itself be a link of the alternatives system.
    if target != readings.text("cuda", "prefix"):
        return failed(target, wanted, "/usr/local/cuda leads to {}".format(target))
    return passed(target, wanted, "/usr/local/cuda leads to {}".format(target))


def cudnn_version(readings, expected):
    """Header and library are both of the planned version: an old one left beside a new one breaks builds silently."""
    wanted = expected.wish("plan", "cudnn", "version")
    if not wanted:
        return skipped("the plan installs no cuDNN")
    for name in ("header", "library"):
        if readings.absent("cudnn", name):
            action = reinstall(readings, CUDNN[name].format(release(wanted, 1)), "system_cuda")
            return failed(
                "none",
                wanted,
                "the {} of cuDNN is not there".format(name),
                action,
            )
        outcome = compare_version("cuDNN " + name, readings.version("cudnn", name), wanted)
        if outcome.status != "PASS":
            return outcome
    return passed(readings.version("cudnn", "library"), wanted, "header and library agree")


def nccl_version(readings, expected):
    """The library that programs load is of the planned version."""
    wanted = expected.wish("plan", "nccl", "version")
    if not wanted:
        return skipped("the plan installs no NCCL beside the one in PyTorch")
    if readings.absent("nccl", "library"):
        return failed("none", wanted, "the library of NCCL is not there", reinstall(readings, NCCL, "system_cuda"))
    return compare_version("NCCL", readings.version("nccl", "library"), wanted)


def allocator(readings, expected):
    """Each planned allocator library passes the launcher's own test: there, loadable, and changed by root only."""
    names = [name for name in ("jemalloc", "tcmalloc") if expected.wish("plan", "runtime", name)]
    if not names:
        return skipped("the plan installs no allocator library")
    for name in names:
        path = readings.text("allocators", name, "path")
        problem = readings.text("allocators", name, "problem")
        if path != expected.wish("plan", "runtime", name):
            return unknown("another library was looked at than the planned one: {}".format(path))
        if problem != "none":
            return failed("unusable", path, problem)
    return passed(", ".join(names), ", ".join(names), "{} can be preloaded".format(" and ".join(names)))


def launcher(readings, expected):
    """gpu-run is a program that everybody may run and only root may change, and it can read its policy."""
    if readings.absent("launcher", "file"):
        return failed("missing", "runnable", "/usr/local/bin/gpu-run is not there")
    bad = bad_program(readings.at("launcher", "file"), "gpu-run", "0755")
    if bad:
        return bad
    policy = readings.text("launcher", "policy")
    if policy != "ok":
        return failed("bad policy", "runnable", policy)
    name, why = readings.text("launcher", "allocator", "name"), readings.text("launcher", "allocator", "why")
    if name not in ("malloc", "jemalloc", "tcmalloc"):
        return unknown("gpu-run takes an allocator that nobody knows: {}".format(name))
    return passed("runnable", "runnable", "gpu-run reads its policy; allocator {}: {}".format(name, why))


CHECKS = (
    Check(
        id="cuda.version",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Is the planned CUDA toolkit installed?",
        judge=cuda_version,
        needs_gpu=False,
        action="Run: ansible-playbook site.yml --tags system_cuda",
    ),
    Check(
        id="cuda.link",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Does /usr/local/cuda lead to it?",
        judge=cuda_link,
        needs_gpu=False,
        action=("Run: ansible-playbook site.yml --tags system_cuda ; who changed it: alternatives --display cuda"),
    ),
    Check(
        id="cudnn.version",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Is the planned cuDNN installed, for builds and for programs?",
        judge=cudnn_version,
        needs_gpu=False,
        action=(
            "Run: ansible-playbook site.yml --tags system_cuda; remove what was copied into the include folder by hand."
        ),
    ),
    Check(
        id="nccl.version",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Is the planned NCCL installed?",
        judge=nccl_version,
        needs_gpu=False,
        action="Run: ansible-playbook site.yml --tags system_cuda",
    ),
    Check(
        id="runtime.allocator",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Can the planned memory allocators be preloaded?",
        judge=allocator,
        needs_gpu=False,
        action="Run: ansible-playbook site.yml --tags system_runtime",
    ),
    Check(
        id="runtime.launcher",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Can trainings be started through gpu-run?",
        judge=launcher,
        needs_gpu=False,
        action="Run: ansible-playbook site.yml --tags system_runtime",
    ),
)
