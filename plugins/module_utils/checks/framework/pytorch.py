# SPDX-License-Identifier: Apache-2.0
"""Checks of the framework: the venv and its PyTorch."""

from typing import Iterable

from ...host.patterns import lazily
from ...verdict.by_hand import CLUSTER, CONTROLLER, NODE, Hand
from ...verdict.check import (
    CONTACT_SUPPORT,
    DRAIN,
    FAIL,
    STANDARD,
    WARN,
    Check,
    Outcome,
    failed,
    passed,
    skipped,
    unknown,
    unnamed,
    warned,
)
from ...verdict.evidence import Evidence
from ...verdict.expectations import shown_cards
from ..confined import hidden_from_programs, kept_away
from .files import REBUILD

ARCHITECTURE = lazily(r"(sm|compute)_([0-9]+)([0-9])(a?)")


def imports(readings: Evidence, expected: Evidence) -> Outcome:
    """PyTorch and NumPy can be imported by the venv's Python."""
    if readings.absent("venv"):
        return failed("no-environment", "no venv", "ok", f"there is no venv at {expected.wish('venv')}")
    for name in ("torch", "numpy"):
        result = readings.text("venv", "imports", name)
        if result != "ok":
            return failed("cannot-import", result, "ok", f"import {name}: {result}", items=(name,))
    return passed("ok", "ok", "torch and numpy can be imported")


def pytorch_version(readings: Evidence, expected: Evidence) -> Outcome:
    """PyTorch is of exactly the planned version; the build after the plus sign is judged by framework.cuda_build."""
    wanted = expected.version("plan", "pytorch", "version")
    found = readings.text("venv", "versions", "torch")
    if found.split("+")[0] != wanted:
        return failed("other-version", found, wanted, f"PyTorch {found} instead of {wanted}")
    return passed(found, wanted, f"PyTorch {found}")


def cuda_build(readings: Evidence, expected: Evidence) -> Outcome:
    """PyTorch was built for the planned CUDA release (or for none), and finds a GPU when it was built for one."""
    wanted = expected.text("plan", "pytorch", "build")
    found = readings.text("venv", "torch", "build")
    if found != wanted:
        return failed("other-build", found, wanted, f"PyTorch is a {found} build, but {wanted} is planned")
    if wanted != "cpu" and not readings.flag("venv", "torch", "cuda_available"):
        away = kept_away(readings)
        if away:
            return unknown("kept-away", away[0], f"{found}, no GPU", wanted, away[1])
        if hidden_from_programs(readings):
            words = "CUDA_VISIBLE_DEVICES hides every GPU from PyTorch in this session"
            return unknown(
                "hidden", words, f"{found}, no GPU", wanted, "Run: unset CUDA_VISIBLE_DEVICES ; then run it again."
            )
        action = "Run on the node: /opt/gpuwright/venvs/current/bin/python -c 'import torch; torch.cuda.init()'"
        return failed(
            "no-gpu",
            f"{found}, no GPU",
            wanted,
            "PyTorch finds no GPU it can use",
            action,
            items=unnamed(expected.number("gpu_count")),
        )
    return passed(found, wanted, f"PyTorch is a {found} build")


def runs_on(built_for: Iterable[str], capability: str) -> bool:
    """Whether code in a PyTorch of these architectures runs on a card of this compute capability such as "7.0".

    Machine code (sm_) runs on the same major generation from its own minor number up; PTX (compute_) is translated for
    every later card. Source: CUDA C++ programming guide, application compatibility.
    """
    card = tuple(int(part) for part in capability.split("."))
    for name in built_for:
        match = ARCHITECTURE.fullmatch(name)
        if not match:
            continue
        code = (int(match.group(2)), int(match.group(3)))
        # The letter "a" restricts code to exactly this compute capability.
        later = not match.group(4) and (match.group(1) == "compute" or code[0] == card[0])
        if code == card or (later and code < card):
            return True
    return False


def architectures(readings: Evidence, expected: Evidence) -> Outcome:
    """PyTorch contains code for every GPU of the node: newer builds have none for Volta (sm_70)."""
    if expected.text("plan", "pytorch", "build") == "cpu":
        return skipped("for-cpu", "the planned PyTorch is a build for the CPU")
    wanted = sorted({gpu.version("compute_capability") for gpu in readings.each("probe", "gpus")})
    names = [name.text() for name in readings.each("venv", "torch", "architectures")]
    value, cards = " ".join(names), " ".join("sm_" + capability.replace(".", "") for capability in wanted)
    if not wanted:
        return unknown("no-gpu", "there is no GPU to compare with", value)
    if not readings.flag("venv", "torch", "cuda_available"):
        return unknown("not-listed", "PyTorch lists its architectures only where it finds a GPU", value, cards)
    missing = [capability for capability in wanted if not runs_on(names, capability)]
    if missing:
        return failed("no-code", value, cards, f"no code for compute capability {', '.join(missing)}")
    return passed(value, cards, f"has code for {cards}")


def lock(readings: Evidence, expected: Evidence) -> Outcome:
    """The environment was made from the planned lock file, with every hash checked, according to its stamp."""
    wanted = expected.text("plan", "pytorch", "lock")
    planned = expected.flag("plan", "pytorch", "locked")
    if readings.absent("stamp"):
        return unknown(
            "no-stamp", "the environment has no stamp, so it is not known what it was made from", None, wanted
        )
    made_from = readings.text("stamp", "pytorch", "lock")
    if not readings.flag("stamp", "pytorch", "locked"):
        return warned(
            "not-locked",
            "no lock",
            wanted,
            "installed without a lock file: the versions current on that day, hashes not checked",
        )
    if not planned:
        return warned(
            "no-lock-planned",
            made_from,
            wanted,
            "the plan has no lock file: the next environment is installed without hashes",
        )
    if made_from != wanted:
        return warned("other-lock", made_from, wanted, f"made from {made_from} instead of {wanted}")
    return passed(made_from, wanted, f"installed from {made_from}, every hash checked")


def matrix_product(readings: Evidence, expected: Evidence) -> Outcome:
    """PyTorch multiplies two matrices correctly on the processor and on every GPU of the node."""
    if readings.absent("venv"):
        return failed("no-environment", "no venv", "right", f"there is no venv at {expected.wish('venv')}")
    on_gpus = expected.text("plan", "pytorch", "build") != "cpu"
    wanted = shown_cards(expected.number("gpu_count"), expected.value.get("mig")) if on_gpus else 0
    devices = readings.each("venv", "torch", "devices")
    product = readings.text("venv", "torch", "product")
    names = ["cpu"] + [f"cuda:{device.number('index')}" for device in devices]
    right = product == "right on " + ", ".join(names)
    # First, since no lack of a GPU explains a wrong result.
    if not product.startswith("right on "):
        told = product.startswith("failed: ")
        code, items = ("failed", unnamed(wanted)) if told else ("wrong-result", ())
        return failed(code, product, "right", f"a matrix product: {product}", items=items)
    if len(devices) != wanted:
        words = f"PyTorch shows {len(devices)} of {wanted} GPUs"
        return failed("too-few", len(devices), wanted, words, items=unnamed(wanted - len(devices)))
    if not right and "busy" in readings.at("venv", "torch").value:
        who = readings.text("venv", "torch", "busy")
        return skipped("busy", f"right on cpu; not tried on the GPUs, which are in use: {who}")
    if not right:
        return failed("not-tried", product, "right", f"a matrix product: {product}")
    return passed("right", "right", product)


CHECKS = (
    Check(
        id="framework.imports",
        layer="framework",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Can PyTorch be imported?",
        judge=imports,
        needs_gpu=False,
        action=REBUILD,
    ),
    Check(
        id="framework.pytorch_version",
        layer="framework",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Is it the planned PyTorch?",
        judge=pytorch_version,
        needs_gpu=False,
        action="Run: ansible-playbook site.yml --tags framework",
    ),
    Check(
        id="framework.cuda_build",
        layer="framework",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Was it built for the planned CUDA release?",
        judge=cuda_build,
        needs_gpu=False,
        action="Run: ansible-playbook site.yml --tags framework",
    ),
    Check(
        id="framework.architectures",
        layer="framework",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Does it contain code for this node's GPUs?",
        judge=architectures,
        action=(
            "Choose an older PyTorch or another build (framework_pytorch_build): Volta needs cu126, or cu128 up to "
            "2.10."
        ),
    ),
    Check(
        id="framework.lock",
        layer="framework",
        level=STANDARD,
        severity=WARN,
        question="Was it installed from a lock file, with every hash checked?",
        judge=lock,
        needs_gpu=False,
        action=(
            "Pin versions that have a lock file (docs/compatibility.md) or make one (`make lock`); then run "
            "ansible-playbook site.yml --tags framework"
        ),
    ),
    Check(
        id="framework.matrix_product",
        layer="framework",
        level=STANDARD,
        severity=FAIL,
        remedy=CONTACT_SUPPORT,
        question="Does PyTorch compute correctly on every device?",
        judge=matrix_product,
        needs_gpu=False,
        action="Look at nvidia-smi, then test one GPU at a time: CUDA_VISIBLE_DEVICES=0 gpu-doctor --level standard",
        source="NVIDIA's and PyTorch's own instructions: a product on each device",
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "framework.cuda_build": Hand(CLUSTER, "nvidia-smi -L lists the GPUs inside the job or container"),
    "framework.architectures": Hand(CONTROLLER, "the run of site.yml with the changed inventory ends DONE or PASS"),
    "framework.matrix_product": Hand(NODE, "the product is correct on each GPU alone"),
}
