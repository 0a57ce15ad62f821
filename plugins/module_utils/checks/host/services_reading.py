# SPDX-License-Identifier: Apache-2.0
"""What systemd says about the toolkit's own units on this node, and about services that the inventory names."""

from typing import Dict, Iterable, List, Sequence

from ...host.bounded import run_bounded
from ...host.files import exists
from ...tuning.file_texts import UNIT_NAME

SECONDS = 10
UNIT_FOLDER = "/etc/systemd/system"
# Written by system_driver, system_tuning, system_containers and system_monitor if they are on.
UNITS = (
    "gpuwright-devices.service",
    UNIT_NAME,
    "gpuwright-cdi.service",
    "gpuwright-cdi.path",
    "gpuwright-boot-check.service",
    "gpuwright-check.timer",
    "gpuwright-check.path",
)
PROPERTIES = ("Id", "ActiveState", "UnitFileState")


def read_services(root: str, names: Iterable[str]) -> Dict[str, List[Dict[str, str]]]:
    """`{toolkit: [{unit, active, enabled}], inventory: [...]}` in systemd's words; `names` are the inventory's."""
    own = [unit for unit in UNITS if exists(root, f"{UNIT_FOLDER}/{unit}")]
    asked = own + list(names)
    states = ask(asked) if asked else []
    return {"toolkit": states[: len(own)], "inventory": states[len(own) :]}


def ask(units: Sequence[str]) -> List[Dict[str, str]]:
    """One record for each unit; OSError if systemd cannot be asked, ValueError if its answer is something else."""
    # The end of the options: a unit's name comes from the inventory.
    done = run_bounded(["systemctl", "show", "--property=" + ",".join(PROPERTIES), "--", *units], SECONDS)
    if done.rc != 0:
        words = " ".join((done.stdout + done.stderr).split())[:200]
        raise OSError(done.problem or f"systemctl show ended with {done.rc}: {words}")
    blocks = [block.splitlines() for block in done.stdout.strip().split("\n\n")]
    found = [dict(line.split("=", 1) for line in lines if "=" in line) for lines in blocks]
    if len(found) != len(units) or [block for block in found if not set(PROPERTIES) <= set(block)]:
        raise ValueError(f"systemctl show says {done.stdout.strip()[:200]!r} of {len(units)} units")
    # systemd answers in the order of the request; Id is a different name if the unit is an alias.
    return [
        {"unit": units[number], "active": block["ActiveState"], "enabled": block["UnitFileState"]}
        for number, block in enumerate(found)
    ]
