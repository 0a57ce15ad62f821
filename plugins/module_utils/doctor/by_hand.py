# SPDX-License-Identifier: Apache-2.0
"""Who carries out an action that cannot be typed (cables, parts, vendors), and how to tell that it is done.

An action that can be typed has its command after "Run: ", or is a run of ansible-playbook. Every other one has a row in
the `BY_HAND` of its check's module, which covers each of the check's actions that cannot be typed.
"""

from typing import Dict, List, Sequence

from ..checks.all import BY_HAND, CHECKS
from ..host.patterns import lazily
from ..verdict.by_hand import CLUSTER, CONTROLLER, MACHINE, NODE
from ..verdict.check import DEEP, POWER_CYCLE, REPLACE

PROGRAM = "gpu-doctor"

TYPED = lazily(r"\b[Rr]un(?: on the node)?: |\bansible-playbook ")
# The action of another check comes first, and that check itself shows when it is done.
ELSEWHERE = lazily(r"^(?:First do what|See) [a-z_]+\.?[a-z_]* ?(?:says\.?)?$")
INVENTORY = lazily(r"\b(inventory|verify_\w+|framework_\w+|system_\w+)\b")
AT_THE_MACHINE = lazily(
    r"(?i)\b(reseat|cable|riser|firmware|bios|vendor|field diagnostic|power the node|exchange|swap|card out)\b"
)
GIVEN = lazily(r"\b(allocation|pod|container) with |^Give the pod|^Start the container")
ROWS = {check.id: check for check in CHECKS}


def is_typed(action: str) -> bool:
    """Whether an action is a command, not something done by hand."""
    return TYPED.search(action) is not None


def who_acts(action: str, remedy: str = "", check_id: str = "") -> str:
    """Who can carry out an action; a playbook comes first, since running it can do no harm."""
    row = ROWS.get(check_id)
    hand = BY_HAND.get(check_id)
    if GIVEN.search(action):
        return CLUSTER
    first = TYPED.search(action)
    if first is not None:
        return CONTROLLER if "ansible-playbook" in action[first.start() : first.end() + 20] else NODE
    if hand is not None and row is not None and action == row.action:
        return hand.who
    if INVENTORY.search(action):
        return CONTROLLER
    if remedy in (REPLACE, POWER_CYCLE) or AT_THE_MACHINE.search(action):
        return MACHINE
    return hand.who if hand is not None else NODE


def proof(check_id: str, program: str = PROGRAM) -> str:
    """What finally shows that a finding is gone."""
    row = ROWS.get(check_id)
    if check_id.startswith("smoke.") or check_id == "model.limits":
        command = "ansible-playbook site.yml --tags verify"
    else:
        command = f"sudo {program}" + (" --level deep" if row is not None and row.level == DEEP else "")
    return f"{command} says PASS for {check_id}"


def done_by(check_id: str, action: str, remedy: str = "", program: str = PROGRAM) -> List[str]:
    """Parts of a sentence: who acts and, if the action cannot be typed, how to tell that it is done. A finding that
    another check explains is done when that one is."""
    parts = [f"to be done by {who_acts(action, remedy, check_id)}"]
    if not is_typed(action) and not ELSEWHERE.match(action):
        hand = BY_HAND.get(check_id)
        parts += [f"done when {', and '.join(([hand.seen] if hand else []) + [proof(check_id, program)])}"]
    return parts


def hand_note(record: Dict, program: str = PROGRAM) -> str:
    """The sentence below an action that is not a command; "" for a command, which the reader can type."""
    action = record["action"]
    if not action or is_typed(action) or ELSEWHERE.match(action):
        return ""
    return sentence_of(done_by(record["id"], action, record.get("remedy", ""), program))


def sentence_of(parts: Sequence[str]) -> str:
    """The parts as one sentence."""
    text = "; ".join(parts)
    return text[0].upper() + text[1:] + "."
