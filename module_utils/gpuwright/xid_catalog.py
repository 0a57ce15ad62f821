# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's Xid codes as data: what each means for a node, and what to do about it.

Source: NVIDIA's Xid catalogue, docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html (Ampere and later; for
Volta the codes 48, 63 and 64 are those of docs.nvidia.com/deploy/dynamic-page-retirement). A code that stands in no
table here is unknown, and an unknown code is shown and warned of, never dropped.
"""

import re

RESET = (
    "Stop the GPU's programs, then: nvidia-smi --gpu-reset -i {gpu} ; or reboot the node. If it comes back: {support}"
)
REBOOT = "Power the node off and on (a warm reboot may not bring the card back). If it comes back: {support}"
CABLES = "Power the node off and check the auxiliary power cables and the seat of {gpu}."
MEMORY = "Stop the GPU's programs, then reboot the node; if it comes back, run NVIDIA's field diagnostic. {support}"
NVLINK = (
    "Run: nvidia-smi nvlink -s -i {gpu} ; reset all GPUs of the node together, or reboot. If it comes back: {support}"
)
FOLLOW = "Look for another Xid of {gpu} just before it and act on that; alone, restart nvidia-fabricmanager or reboot."
GUEST = "Restart the virtual machine."
SUPPORT = "run nvidia-bug-report.sh and have the card examined."

# Codes after which the GPU must not be used before somebody has acted: code: (meaning, what to do).
NEEDS_ACTION = {
    45: ("channels were removed after an earlier error", FOLLOW),
    46: ("the GPU stopped processing", RESET),
    48: ("double bit memory error", MEMORY),
    54: ("auxiliary power is not connected to the card", CABLES),
    62: ("internal micro-controller halt", RESET),
    64: ("memory could not be retired or remapped", MEMORY),
    74: ("NVLink error", NVLINK),
    79: ("the GPU has fallen off the bus", REBOOT),
    95: ("uncontained memory error", RESET),
    109: ("context switch timeout", RESET),
    110: ("security fault", RESET),
    119: ("the GPU's system processor did not answer", RESET),
    120: ("error of the GPU's system processor", RESET),
    136: ("NVLink training failed", RESET),
    140: ("unrecovered memory error", RESET),
    143: ("the GPU could not be initialised", RESET),
    144: ("NVLink SAW error", NVLINK),
    145: ("NVLink RLW error", NVLINK),
    146: ("NVLink TLW error", NVLINK),
    147: ("NVLink TREX error", NVLINK),
    148: ("NVLink NVLPW_CTRL error", NVLINK),
    149: ("NVLink NETIR error", NVLINK),
    150: ("NVLink MSE error", NVLINK),
    151: ("key rotation error", GUEST),
    155: ("NVLink error defined by software", RESET),
    156: ("a part of the GPU waits to be retired", RESET),
    158: ("fatal timeout of the GPU", RESET),
}
# The driver says in the text which action it wants from now on.
RECOVERY_ACTION_CHANGED = 154
RECOVERY_ACTION = re.compile(r"\bto (?:0x[0-9a-f]+ )?\(?([A-Za-z][A-Za-z0-9 ]*)\)?", re.IGNORECASE)

# The program that ran has failed, or something was recorded for later: the node may go on.
WORTH_KNOWING = {
    8: "the GPU stopped processing a program's work",
    11: "a program sent an invalid command stream",
    13: "a program's kernel failed (graphics engine exception)",
    25: "a program sent an invalid command stream",
    31: "a program used memory that it does not have (page fault)",
    32: "a program sent a corrupted command stream",
    37: "error in the driver's firmware",
    38: "error in the driver's firmware",
    43: "a program's work was stopped",
    44: "fault in a context switch",
    60: "video processor exception",
    63: "broken memory was recorded; it goes out of use at the next reboot or reset",
    66: "illegal access by the driver",
    67: "illegal access by the driver",
    68: "video decoder exception",
    69: "a program used the graphics engine wrongly",
    78: "a virtual GPU could not be started",
    80: "corrupted data was sent to the GPU",
    92: "many single bit memory errors",
    93: "the InfoROM is written too often",
    94: "contained memory error: the program that hit it was stopped",
    121: "C2C link error",
    137: "NVLink privilege error",
    141: "CUDA fast path error",
    157: "a part of the GPU could not be retired",
    159: "CHI error",
    160: "a channel was retired",
    161: "a channel could not be retired",
}
HARMLESS = {14: "a test message", 106: "a test message", 107: "a test message"}

FAIL_CLASS = "needs action"
WARN_CLASS = "worth knowing"
PASS_CLASS = "harmless"
UNKNOWN_CLASS = "unknown"


def classify(code, text):
    """(class, meaning, action with {gpu} in it or "") of one Xid; `text` is its line in the kernel log."""
    if code == RECOVERY_ACTION_CHANGED:
        return _recovery(text)
    if code in NEEDS_ACTION:
        meaning, action = NEEDS_ACTION[code]
        return FAIL_CLASS, meaning, action.replace("{support}", SUPPORT)
    if code in WORTH_KNOWING:
        return WARN_CLASS, WORTH_KNOWING[code], ""
    if code in HARMLESS:
        return PASS_CLASS, HARMLESS[code], ""
    return UNKNOWN_CLASS, "not in the catalogue of this version", ""


def _recovery(text):
    match = RECOVERY_ACTION.search(text)
    wanted = match.group(1).strip() if match else ""
    if wanted.lower() == "none":
        return PASS_CLASS, "the driver asks for no recovery any more", ""
    meaning = "the driver asks for: {}".format(wanted or "a recovery action that its text does not name")
    return FAIL_CLASS, meaning, "Do what the driver asks for on {gpu}; nvidia-smi -q -i {gpu} | grep -i recovery"
