"""For each check: who follows its advice, how it is tried, or why not; docs/checks.md is written from it.

host      a made or recorded host is broken, the printed command is run as it stands, and the check passes
fleet     the same on a host with systemd, dnf and pip that site.yml had brought to PASS, by root and by playbook
playbook  the printed playbook's tasks are run by the test that is named
look      a command that is not tried, with the reason
person    a cable, a part, the firmware, the vendor: nobody can type it
"""

from __future__ import annotations

import copy
import re

import healthy_node
import test_checks_sad_paths as sad_paths
from gpuwright.checks.all import BY_HAND, CHECKS, run_checks
from gpuwright.doctor.by_hand import is_typed, who_acts
from gpuwright.verdict.by_hand import CONTROLLER, NODE
from gpuwright.verdict.check import DEEP, FAIL, UNKNOWN, WARN
from gpuwright.verdict.commands import lines_of

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
# Tried by tests/faults/test_advice.py; a toolkit that is installed again needs a second step, for its link.
FLEET = {
    "cuda.link",
    "cuda.version",
    "cudnn.version",
    "driver.libraries",
    "driver.nvidia_smi_file",
    "gpu.strikes",
    "host.tuning",
    "host.writable",
    "model.trainer_installed",
    "host.training_user",
    "runtime.allocator",
    "runtime.launcher",
    "waivers.valid",
}
# The playbook's own tasks repair it in these tests.
PLAYBOOK = {
    "framework.files": "test_environment_damage.py",
    "framework.imports": "test_environment_damage.py",
    "gpu.plan": "test_kept_plan.py",
}
# Why a command is not followed to its end; a family may say it beside its healthy values, as `NOT_TRIED`.
NOT_ALONE = {
    "secure_boot": "tests/faults/test_secure_boot.py: up to the console, which a person confirms",
    "driver.packages": "not tried alone: two versions side by side need NVIDIA's repository of both",
    "driver.source": "not tried alone: NVIDIA's installer is not available in tests",
    "gpu.acs": "not tried: a bridge's register cannot be written in tests",
    "gpu.module_power": "not tried: as gpu.power_limit, of a module that tests have no answer of",
    "gpu.mig_errors": "not tried: as gpu.channel_repair, of a card with slices",
    "gpu.fabric_domain": "not tried: as gpu.fabric",
    "runtime.ranks": "not tried alone: it needs running ranks; tests/unit/launch/test_gpu_run_check.py simulates them",
    "smoke.compile": "not tried alone: trainer/tests/compiling takes the headers and the compiler away",
    "gpu.performance_state": "not tried: as gpu.clocks, of a card whose memory has one clock",
    **{check_id: why for part in healthy_node.PARTS for check_id, why in getattr(part, "NOT_TRIED", {}).items()},
}
COMMAND = re.compile(
    r"^(?:.*\b[Rr]un(?: on the node)?: |then |Then, on the controller: )?(?:sudo )?"
    r"((?:ansible-playbook|apt-get|chmod|chown|dkms|dnf|dracut|gpu-doctor|modprobe|mount|mv|nvidia-ctk|nvidia-modprobe|"
    r"nvidia-smi|rm|sed|setpci|systemctl|usermod) .*)$"
)


def typed(action: str) -> list[tuple[str, str]]:
    """(who, command) of what the action says to type, in order: each part between " ; " that is a command of a repair.

    What begins with a word, as in "its log says why: journalctl -u x", is for reading.
    """
    action, *words = lines_of(action)
    parts = [*re.split(r" ; |, then (?!run: )", action), *(word for word in words if word.startswith("Then, on the "))]
    found = (COMMAND.match(part.strip()) for part in parts)
    # The tests are root, on hosts that may have no sudo.
    lines = [match.group(1).rstrip(".").replace("sudo ", "") for match in found if match]
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
    if check_id in FLEET:
        return "fleet", "tests/faults/test_advice.py: the printed lines by root and on the controller, then PASS"
    if check_id in PLAYBOOK:
        return "playbook", f"{PLAYBOOK[check_id]}: the playbook's tasks, then PASS"
    if not is_typed(action):
        if check_id not in BY_HAND:
            raise KeyError(f"{check_id}: not typed, so it needs a row in BY_HAND of its check's module")
        return "person", f"by hand; done when {BY_HAND[check_id].seen}"
    if who_acts(action, remedy, check_id) == CONTROLLER:
        return "playbook", NOT_ALONE.get(check_id, "not tried alone: the roles' own tests and molecule run these tasks")
    if check_id not in NOT_ALONE:
        raise KeyError(f"{check_id}: NOT_TRIED of healthy_<family>.py says why no test follows its action")
    return "look", NOT_ALONE[check_id]


def table() -> list[tuple[str, str, str, str]]:
    """(check, who acts, kind, how it is tried) of all checks."""
    return [
        (check.id, who_acts(check.action, check.remedy, check.id), *kind_of(check.id, check.action, check.remedy))
        for check in CHECKS
    ]


def summary() -> list[str]:
    """What was followed, in how many steps, and what was not and why; printed at the end of the tests."""
    of_kind: dict[str, list[tuple[str, str]]] = {}
    for check_id, _who, kind, how in table():
        of_kind.setdefault(kind, []).append((check_id, how))
    kinds = ", ".join(f"{kind} {len(rows)}" for kind, rows in sorted(of_kind.items()))
    followed = sum(kind in ("host", "fleet") or check_id in PLAYBOOK for check_id, _who, kind, _how in table())
    lines = [
        f"{len(CHECKS)} checks ({kinds}): {followed} followed to PASS; host in 1 step, fleet and playbook in 1 or 2."
    ]
    lines += [
        f"not followed: {check_id}: {how.removeprefix('not tried: ')}"
        for kind in ("look", "playbook")
        for check_id, how in of_kind[kind]
        if check_id not in PLAYBOOK
    ]
    return [
        *lines,
        f"{len(of_kind['person'])} more are no command: each says who acts, and how to tell that it is done.",
    ]
