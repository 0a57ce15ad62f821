# SPDX-License-Identifier: Apache-2.0
"""Questions to the planner from people who have no host at hand: a card's name in, a table out."""

import difflib
import re
import textwrap

from .devices import NAMES, describe_device, find_devices, without_maker
from .plan_candidates import PINS
from .plan_choices import plan_choices

BECAUSE_WIDTH = 90
CHOICE_WIDTH = 34
# Columns of the table with reasons beside the choices.
WIDE = 16 + CHOICE_WIDTH + BECAUSE_WIDTH + 2
MOST_HINTS = 3


def imagined_host(cards, system, ansible_core=""):
    """What gpu_probe would say of a host with these cards and nothing installed. Raises ValueError with a sentence.

    cards   "Tesla V100-PCIE-16GB", "10de:1db4", "2x T4, RTX 4090"; "" is a host without GPUs
    system  "rhel 8.8", as os-release spells it
    """
    words = re.findall(r"[a-z]+|[0-9.]+", system.lower())
    if len(words) != 2:
        raise ValueError('{!r} is no system: write its id and version, such as "rhel 8.8"'.format(system))
    gpus = []
    for card in [part.strip() for part in cards.split(",") if part.strip()]:
        match = re.match(r"([0-9]{1,2}) ?[xX] +(.+)$", card)
        count, name = (int(match.group(1)), match.group(2)) if match else (1, card)
        device_id = find_card(name)
        device = describe_device(device_id)
        for _number in range(count):
            gpus.append(
                {
                    "pci_id": "0000:{:02x}:00.0".format(len(gpus) + 1),
                    "device_id": device_id,
                    "name": device.name,
                    "architecture": device.architecture,
                    "compute_capability": device.compute_capability,
                }
            )
    kernel = "<running kernel>"
    return {
        "hostname": "",
        "machine": "x86_64",
        "os": {"id": words[0], "version": words[1]},
        "kernel": {"running": kernel, "next_boot": kernel},
        "gpus": gpus,
        "nvidia": {"loaded": None, "modules": {}, "user_space": None},
        "ansible_core": ansible_core,
    }


def find_card(name):
    """The PCI id of a card. Part of a name will do where all cards with it have the same chip."""
    found = find_devices(name)
    if not found:
        wanted = without_maker(name).split()
        found = [
            key for key in sorted(NAMES) if wanted and all(word in without_maker(NAMES[key]).split() for word in wanted)
        ]
    kinds = {describe_device(key)[1:] for key in found}
    if len(kinds) == 1:
        return found[0]
    if kinds:
        raise ValueError("{!r} could be {}. Which?".format(name, ", ".join(sorted({NAMES[key] for key in found})[:6])))
    plain = {without_maker(known): known for known in NAMES.values()}
    for known in sorted(NAMES.values()):
        for word in without_maker(known).split():
            if re.search(r"[0-9]{2}", word) and not word.endswith("gb"):
                plain.setdefault(word, known)
    near = [plain[match] for match in difflib.get_close_matches(without_maker(name), sorted(plain), MOST_HINTS, 0.5)]
    hint = " Did you mean {}?".format(" or ".join(near)) if near else ""
    text = "No card {!r} is known.{} A PCI id such as 10de:1db4 will do, too (`lspci -nn -d 10de:`)."
    raise ValueError(text.format(name, hint))


def plan_table(plan, host, columns=WIDE):
    """The plan as text: what was chosen for each part, and why.

    columns  of the terminal; where reasons would not fit beside the choices they stand below
    """
    names = sorted({gpu["name"] for gpu in host["gpus"]}) or ["no NVIDIA GPU"]
    title = "{} on {id} {version}, profile {}".format(", ".join(names), plan["profile"], **host["os"])
    because = plan["because"]
    reasons = {
        "driver": because.get("driver"),
        "CUDA toolkit": because.get("cuda"),
        "cuDNN": because.get("cudnn"),
        "NCCL": because.get("nccl"),
        "DCGM": "serves these GPUs under this driver",
        "Python": because.get("python"),
        "PyTorch": because.get("pytorch"),
        "TensorFlow": because.get("tensorflow"),
        "AMP type": plan["amp"]["because"],
        "lock file": plan["pytorch"]["index_url"] or "every package is on PyPI",
    }
    rows = [(part, choice, reasons[part]) for part, choice in plan_choices(plan).items()]
    rows.insert(1, guards_row(plan))
    indent = 16 + CHOICE_WIDTH if columns >= WIDE else 4
    lines = [title, ""] if columns >= WIDE else textwrap.wrap(title, columns - 2)
    for part, choice, because in rows:
        if not choice:
            continue
        found = textwrap.wrap(because or "", min(BECAUSE_WIDTH, columns - indent - 2))
        start = "{:<13} {:<{}}  ".format(part, choice, CHOICE_WIDTH)
        lines.append((start + found.pop(0) if found and columns >= WIDE else start).rstrip())
        lines += [" " * indent + reason for reason in found]
    if plan["warnings"]:
        lines += ([""] if columns >= WIDE else []) + ["Warnings"]
        for warning in plan["warnings"]:
            lines += textwrap.wrap(
                "  - " + warning, max(columns - 2, WIDE * (columns >= WIDE)), subsequent_indent="    "
            )
    return "\n".join(lines)


def guards_row(plan):
    """What becomes of the driver when it is right, as a row of the table; no choice where there is no driver."""
    driver, guards = plan["driver"], plan["guards"]["driver"]
    if not driver["branch"]:
        return ("guards", "", "")
    state = "kept as it is" if driver["present"] else "installed"
    if not guards:
        return ("guards", "driver: {}, not guarded".format(state), "system_driver_guards is never")
    return ("guards", "driver: {}, guarded by".format(state), ", ".join(guards))


def pins_from(variables):
    """Pins from inventory variables: `{"system_cuda_version": "12.9"}`. Raises ValueError for one that is none."""
    by_variable = {variable: pin for pin, variable in PINS.items()}
    for name in variables:
        if name not in by_variable:
            near = difflib.get_close_matches(name, sorted(by_variable), 1)
            hint = " Did you mean {}?".format(near[0]) if near else ""
            raise ValueError("{} pins nothing.{} Known: {}.".format(name, hint, ", ".join(PINS.values())))
    return {by_variable[name]: value for name, value in variables.items()}
