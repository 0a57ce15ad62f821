# SPDX-License-Identifier: Apache-2.0
"""Questions to the planner without a host: a card's name in, a table out."""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.gpu.devices import describe_device
from ansible_collections.gpuwright.node.plugins.module_utils.gpu.platforms import FULL_BOARD, assumed_platform
from ansible_collections.gpuwright.node.plugins.module_utils.probe.plan_choices import plan_choices

from .candidates import PINS
from .typed_names import board_twin, find_card, find_system, machine_of, split_cards

BECAUSE_WIDTH = 90
CHOICE_WIDTH = 34
# Columns of the table with reasons beside the choices.
WIDE = 16 + CHOICE_WIDTH + BECAUSE_WIDTH + 2


def imagined_host(
    cards: str, system: str, ansible_core: str = "", machine: str = "", releases: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """What gpu_probe would return for a host with these cards and nothing installed. Raises ValueError with a sentence.

    cards    "Tesla V100-PCIE-16GB", "10de:1db4", "8xH100", "2x T4, RTX 4090"; "" is a host without GPUs
    system   "rhel 8.8", "alma 8.10"; "" is the newest of `releases` (rows of os_releases), which "rhel 8" needs, too
    machine  of the processor, "x86_64"; "" is the one that goes with the cards
    """
    found = find_system(system, releases)
    gpus: list[dict[str, Any]] = []
    twins: list[str] = []
    for count, name in split_cards(cards):
        device_id = find_card(name)
        twins += [board_twin(name, device_id)] if count >= FULL_BOARD else []
        device = describe_device(device_id)
        for _number in range(count):
            gpus.append(
                {
                    "pci_id": f"0000:{len(gpus) + 1:02x}:00.0",
                    "device_id": device_id,
                    "name": device.name,
                    "architecture": device.architecture,
                    "compute_capability": device.compute_capability,
                }
            )
    kernel = "<running kernel>"
    machine = machine_of([gpu["device_id"] for gpu in gpus], machine)
    return {
        "hostname": "",
        "machine": machine,
        "os": found,
        "kernel": {"running": kernel, "next_boot": kernel},
        "gpus": gpus,
        "platform": assumed_platform(gpus, machine) or {"twin": next(filter(None, twins), "")},
        "nvidia": {"loaded": None, "modules": {}, "user_space": None},
        "ansible_core": ansible_core,
        # A host that does not exist: plans are possible even for systems on which nothing is installed.
        "imagined": True,
    }


def plan_table(plan: Mapping[str, Any], host: Mapping[str, Any], columns: int = WIDE, neighbours: bool = True) -> str:
    """The plan as text: what was chosen for each part, and why.

    columns     of the terminal; if reasons would not fit beside the choices, they are below them
    neighbours  whether to say what was not taken: the answer to a question has it, a run over a fleet has not
    """
    names = sorted({gpu["name"] for gpu in host["gpus"]}) or ["no NVIDIA GPU"]
    title = "{} on {id} {version}, profile {}".format(", ".join(names), plan["profile"], **host["os"])
    indent = 16 + CHOICE_WIDTH if columns >= WIDE else 4
    lines = [title, ""] if columns >= WIDE else textwrap.wrap(title, columns - 2)
    for part, choice, because in plan_rows(plan):
        if not choice:
            continue
        found = textwrap.wrap(because or "", min(BECAUSE_WIDTH, columns - indent - 2))
        start = "{:<13} {:<{}}  ".format(part, choice, CHOICE_WIDTH)
        lines.append((start + found.pop(0) if found and columns >= WIDE else start).rstrip())
        lines += [" " * indent + reason for reason in found]
    if neighbours and plan.get("neighbours"):
        lines += ([""] if columns >= WIDE else []) + ["Not taken"]
        for part, said in plan["neighbours"].items():
            text = f"  - {part}: {said}"
            lines += [text] if columns >= WIDE else textwrap.wrap(text, columns - 2, subsequent_indent="    ")
    if plan["warnings"]:
        lines += ([""] if columns >= WIDE else []) + ["Warnings"]
        for warning in plan["warnings"]:
            lines += textwrap.wrap(
                "  - " + warning, max(columns - 2, WIDE * (columns >= WIDE)), subsequent_indent="    "
            )
    return "\n".join(lines)


def plan_differences(plan: dict[str, Any], other: dict[str, Any]) -> str:
    """What another plan has that this one does not, as text: "CUDA toolkit: cuda-toolkit-12-9 -> cuda-toolkit-12-6"."""
    others = {part: choice for part, choice, _because in plan_rows(other)}
    found = [
        f"{part}: {choice or 'none'} -> {others[part] or 'none'}"
        for part, choice, _because in plan_rows(plan)
        if choice != others[part]
    ]
    return "\n".join(found) or "The plans are the same."


def why_package(plan: dict[str, Any], package: str) -> str:
    """Which part of the plan wants a package, and why, as text; "" if none does. Versions may be left out."""
    wanted, beside = package.lower(), plan["platform"]["packages"]
    with_version = re.compile(re.escape(wanted) + r"[-=\[<>][0-9=a-z]")
    parts = [
        ("driver", [name for name in plan["driver"]["packages"] if name not in beside], plan["because"].get("driver")),
        ("platform", beside, f"{plan['platform']['name']} computes nothing without it"),
        ("kernel module", plan["kernel"]["packages"] + plan["kernel"]["devel"], "the driver's module is built with it"),
        ("CUDA toolkit", [plan["cuda"]["package"]] + plan["cuda"]["compiler"], plan["because"].get("cuda")),
        ("cuDNN", plan["cudnn"]["packages"] + [plan["cudnn"]["wheel"]], plan["because"].get("cudnn")),
        ("NCCL", plan["nccl"]["packages"], plan["because"].get("nccl")),
        ("DCGM", plan["dcgm"]["packages"] + plan["dcgm"]["exporter"], "installed where system_monitor_dcgm is true"),
        ("Python", plan["python"]["packages"], plan["because"].get("python")),
        ("runtime", plan["runtime"]["packages"], "memory allocators and numactl for gpu-run"),
        ("environment", plan["requirements"], plan["because"].get(wanted.replace("torch", "pytorch"))),
    ]
    found = [
        f"{part}: {because or 'the profile or the trainer needs it'}"
        for part, names, because in parts
        if any(name.lower() == wanted or with_version.match(name.lower()) for name in names)
    ]
    return "\n".join(found)


def plan_rows(plan: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """`[(part, choice, because)]`; an empty choice for a part that the plan does not have."""
    because = plan["because"]
    reasons = {
        "driver": because.get("driver"),
        "platform": f"needs {', '.join(plan['platform']['packages'])}",
        "CUDA toolkit": because.get("cuda"),
        "cuDNN": because.get("cudnn"),
        "NCCL": because.get("nccl"),
        "DCGM": "supports these GPUs under this driver",
        "Python": because.get("python"),
        "PyTorch": because.get("pytorch"),
        "TensorFlow": because.get("tensorflow"),
        "AMP type": plan["amp"]["because"],
        "lock file": plan["pytorch"]["index_url"] or "every package is on PyPI",
    }
    rows = [(part, choice, reasons[part]) for part, choice in plan_choices(plan).items()]
    return rows[:1] + [guards_row(plan)] + rows[1:]


def guards_row(plan: Mapping[str, Any]) -> tuple[str, str, str]:
    """What happens to a correct driver, as a row of the table; no choice if there is no driver."""
    driver, guards = plan["driver"], plan["guards"]["driver"]
    if not driver["branch"]:
        return ("guards", "", "")
    state = "kept as it is" if driver["present"] else "installed"
    if not guards:
        return ("guards", f"driver: {state}, not guarded", "system_driver_guards is never")
    return ("guards", f"driver: {state}, guarded by", ", ".join(guards))


def split_pins(words: list[str]) -> dict[str, str]:
    """`{variable: value}` of "system_cuda_version=12.6". Raises ValueError for a word without a value."""
    for word in words:
        if "=" not in word:
            raise ValueError(f"{word} has no value: write {word}=VALUE, such as {PINS['cuda']}=12.6")
    return dict(word.split("=", 1) for word in words)


def pins_from(variables: dict[str, str]) -> dict[str, str]:
    """Pins from inventory variables: `{"system_cuda_version": "12.9"}`. ValueError if a variable is not a pin."""
    by_variable = {variable: pin for pin, variable in PINS.items()}
    for name in variables:
        if name not in by_variable:
            near = difflib.get_close_matches(name, sorted(by_variable), 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise ValueError(f"{name} pins nothing.{hint} Known: {', '.join(PINS.values())}.")
    return {by_variable[name]: value for name, value in variables.items()}
