"""For each check: who follows its advice, how it is tried, or why not; docs/checks.md is written from it.

host      a made or recorded host is broken, the printed command is run as it stands, and the check passes
playbook  the printed playbook's tasks are run by the test that is named
look      the command shows; what is done then is decided by who reads it, and the page of the check says who
person    a cable, a part, the firmware, the vendor: nobody can type it
"""

from __future__ import annotations

import copy
import re

import healthy_node
import test_checks_sad_paths as sad_paths
from gpuwright import by_hand
from gpuwright.by_hand import who_acts
from gpuwright.checks import CHECKS, run_checks
from gpuwright.verdict import DEEP, FAIL, UNKNOWN, WARN

# Tried by test_advice.py: the printed command alone ends in PASS.
HOST = {
    "containers.device_links": 1,
    "containers.gpu": 1,
    "containers.one_specification": 1,
    "driver.device_nodes": 1,
    "driver.ecc": 1,
    "driver.fabric_manager": 1,
    "driver.initramfs": 1,
    "driver.module_for_next_kernel": 1,
    "driver.module_matches_user_space": 1,
    "driver.modules": 1,
    "driver.nouveau_absent": 1,
    "driver.parameters": 1,
    "driver.persistence": 1,
    "driver.reachable": 1,
    "driver.retired_pages": 1,
    "driver.uvm": 1,
    "gpu.channel_repair": 1,
    "gpu.clocks": 1,
    "gpu.compute_mode": 1,
    "gpu.ecc_pending": 1,
    "gpu.fabric": 1,
    "gpu.graphics": 1,
    "gpu.mig_mode": 1,
    "gpu.power_limit": 1,
    "gpu.recovery_action": 1,
    "gpu.strikes": 1,
    "gpu.tpc_repair": 1,
    "host.environment": 1,
    "host.services": 1,
    "model.permissions": 1,
    "reboot.pending": 1,
    "waivers.valid": 1,
}
# The playbook's own tasks repair it in these tests.
PLAYBOOK = {
    "framework.files": "test_environment_damage.py",
    "framework.imports": "test_environment_damage.py",
    "gpu.plan": "test_kept_plan.py",
}
COMMAND = re.compile(
    r"^(?:.*\b[Rr]un(?: on the node)?: |then )?(?:sudo )?"
    r"((?:ansible-playbook|apt-get|chmod|chown|dkms|dnf|dracut|gpu-doctor|modprobe|mount|mv|nvidia-ctk|nvidia-modprobe|"
    r"nvidia-smi|rm|sed|setpci|systemctl|usermod) .*)$"
)
CONTROLLER, NODE = by_hand.CONTROLLER, by_hand.NODE
LOOKS = re.compile(r"(?i)\b(look at|look for|read it|see |find |watch it|compare|check |run it by hand|display)")


def typed(action: str) -> list[tuple[str, str]]:
    """(who, command) of what the action says to type, in order: each part between " ; " that is a command of a repair.

    What begins with a word, as in "its log says why: journalctl -u x", is for reading.
    """
    found = (COMMAND.match(part.strip()) for part in re.split(r" ; |, then (?!run: )", action))
    lines = [match.group(1).rstrip(".") for match in found if match]
    return [(CONTROLLER if line.startswith("ansible-playbook") else NODE, line) for line in lines]


def commands(action: str) -> list[str]:
    """Those of them that are for the node."""
    return [line for who, line in typed(action) if who == NODE]


def printed() -> list[tuple[str, str, str]]:
    """(check, action, remedy) of everything bad that the broken nodes of the tests print, each action once."""
    by_id, found = {check.id: check for check in CHECKS}, {}
    for check_id, changes, asked, status, _words in sad_paths.CASES:
        if status not in (FAIL, WARN, UNKNOWN):
            continue
        record = {**healthy_node.readings(), "smoke": healthy_node.smoke()}
        expectations = healthy_node.expectations()
        for path, value in changes.items():
            healthy_node.put(record, path, copy.deepcopy(value))
        for name, value in asked.items():
            healthy_node.put(expectations["plan"] if "." in name else expectations, tuple(name.split(".")), value)
        smoke = record.pop("smoke")
        [said] = run_checks(record, expectations, smoke, (by_id[check_id],), DEEP)
        found[(check_id, said["action"])] = said["remedy"]
    return [(check_id, action, remedy) for (check_id, action), remedy in found.items()]


def kind_of(check_id: str, action: str, remedy: str) -> tuple[str, str]:
    """(kind, how or why) of one check."""
    if check_id in HOST:
        return "host", "test_advice.py: the printed command, then PASS"
    if check_id in PLAYBOOK:
        return "playbook", f"{PLAYBOOK[check_id]}: the playbook's tasks, then PASS"
    if "ansible-playbook" in action or "inventory" in action:
        return (
            "playbook",
            "not tried alone: needs a package manager; the molecule scenarios run the roles",
        )
    if LOOKS.search(action):
        return "look", "the command shows; who reads it decides"
    if who_acts(action, remedy, check_id).startswith("root"):
        return "look", "not tried: needs the card or a reboot"
    return "person", "done by hand at the machine"


def table() -> list[tuple[str, str, str, str]]:
    """(check, who acts, kind, how it is tried) of all checks."""
    return [
        (check.id, who_acts(check.action, check.remedy, check.id), *kind_of(check.id, check.action, check.remedy))
        for check in CHECKS
    ]
