# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's Xid codes as data, and nothing else (SXid: `sxid_table`): what each means for a node and what it requires.

Sources, named in each row by a letter:
C  NVIDIA's Xid catalogue (Ampere and later), docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
V  the list for Volta and older, docs.nvidia.com/deploy/xid-errors and docs.nvidia.com/deploy/dynamic-page-retirement
N  the list of drivers from 595 on, open-gpu-kernel-modules src/common/sdk/nvidia/inc/nverror.h
A  errors of programs after which the GPU is healthy, k8s-device-plugin internal/rm/health.go

An administrator's /etc/gpuwright/xid.yml replaces class, action and remedy of a row (`overrides`).
"""

from typing import NamedTuple, Tuple

from ...verdict.check import CONTACT_SUPPORT, DRAIN, POWER_CYCLE, REBOOT, RESET

# FAIL: nobody may use the GPU until somebody has acted. WARN: a program failed, or somebody should know about it.
# HARMLESS: reported as a remark. COMPANION: written beside another Xid, which decides; on its own, a program was
# killed.
FAIL = "fail"
WARN = "warn"
HARMLESS = "harmless"
COMPANION = "companion"
CLASSES = (FAIL, WARN, HARMLESS)

# Xid 154, which shows that a reset has worked, was introduced with branch 570.
UNTOLD = " ; drivers before 570 do not log that it worked: reload the driver there, or reboot"
RESET_NOW = "Stop the GPU's programs (fuser -v /dev/nvidia*), then run: nvidia-smi --gpu-reset -i {gpu}" + UNTOLD
RESET_GPU = RESET_NOW + ". If it comes back: run nvidia-bug-report.sh and have the card examined."
POWER_OFF = (
    "Power the node off and on (a warm reboot may not bring the card back). If it comes back: reseat the card, run"
    " nvidia-bug-report.sh and have it examined."
)
CABLES = "Power the node off and check the auxiliary power cables and the seat of {gpu}."
MEMORY = (
    RESET_NOW + " ; look at nvidia-smi -q -i {gpu} -d ROW_REMAPPER,PAGE_RETIREMENT ; if it comes back, run NVIDIA's"
    " field diagnostic."
)
NVLINK = (
    "Run: nvidia-smi nvlink -s -i {gpu} ; stop all GPU programs and reset all GPUs of the node together"
    " (nvidia-smi --gpu-reset), or reboot."
)
C2C = (
    "Stop the GPU's programs and reboot the node. If it comes back: run nvidia-bug-report.sh and have the board"
    " examined."
)
GUEST = "Restart the virtual machine."
WATCH = "Look at the program that ran on {gpu}: journalctl -k -b | grep -i xid ; contact NVIDIA if it comes back."


class Variant(NamedTuple):
    """A different judgement if the line says more than the code: `words` is a pattern to search for in it."""

    words: str
    kind: str
    remedy: str
    meaning: str


class Row(NamedTuple):
    """One code. `repeat`: from this many occurrences on, a WARN becomes a FAIL; 0 means never."""

    kind: str
    meaning: str
    remedy: str = ""
    action: str = WATCH
    source: str = "C"
    variants: Tuple[Variant, ...] = ()
    repeat: int = 0


def _fails(
    meaning: str, remedy: str = RESET, action: str = RESET_GPU, source: str = "C", variants: Tuple[Variant, ...] = ()
) -> Row:
    return Row(FAIL, meaning, remedy, action, source, variants)


def _by_word(unit: str) -> Row:
    """Xid 144 to 150 of NVLink 5: the line says Fatal or Nonfatal; without the word, it counts as fatal.

    The last such word counts, since a program's name, which comes before it, may be any word.
    """
    nonfatal = Variant(
        r"\b[Nn]on-?[Ff]atal\b(?!.*\b(?:[Nn]on-?)?[Ff]atal\b)",
        WARN,
        "",
        f"NVLink {unit} error, not fatal: nothing to do",
    )
    return _fails(f"NVLink {unit} error", RESET, NVLINK, "C", (nonfatal,))


# Both report memory faults; Volta and older retire pages, later ones remap rows, and the line says which.
RETIRED = Variant(
    "[Pp]age [Rr]etire", WARN, "", "a page of memory was retired; it is taken out of use when the driver reloads"
)
NOT_RETIRED = Variant("[Pp]age [Rr]etire|retire page", FAIL, RESET, "a broken page of memory could not be retired")

XID = {
    8: Row(WARN, "a program's work on the GPU hung and was stopped"),
    11: Row(WARN, "a program sent an invalid command stream"),
    13: Row(WARN, "a program's kernel failed (graphics engine exception)", source="C, A"),
    14: Row(HARMLESS, "a test of the driver's error path"),
    16: Row(WARN, "the display engine hung", source="V"),
    18: Row(WARN, "bus mastering was switched off in PCI configuration space", source="V"),
    19: Row(WARN, "display engine error", source="V"),
    24: Row(WARN, "a semaphore of the GPU timed out", source="V"),
    25: Row(WARN, "a program sent an invalid command stream"),
    26: Row(WARN, "the frame buffer timed out", source="V"),
    31: Row(WARN, "a program used memory that it does not have (page fault)", source="C, A"),
    32: Row(WARN, "a program sent a corrupted command stream"),
    37: Row(WARN, "error in the driver's firmware"),
    38: Row(WARN, "error in the driver's firmware"),
    43: Row(WARN, "a program's work was stopped; the GPU is healthy", source="C, A"),
    44: Row(WARN, "fault in a context switch"),
    45: Row(COMPANION, "a program was killed, and what it ran was removed", source="C, A"),
    46: _fails("the GPU stopped processing"),
    48: _fails("double-bit memory error", RESET, MEMORY, "C, V"),
    51: Row(WARN, "the scheduler of the GPU encountered a bad group of channels"),
    54: _fails("auxiliary power is not connected to the card", POWER_CYCLE, CABLES),
    56: Row(WARN, "display engine error", source="V"),
    57: Row(WARN, "error while the memory interface was programmed", source="V"),
    58: Row(WARN, "the memory interface is unstable", source="V"),
    59: Row(WARN, "error of an internal micro-controller", source="V"),
    60: Row(WARN, "video processor exception"),
    61: Row(WARN, "internal micro-controller breakpoint or warning", source="V"),
    62: _fails("internal micro-controller halt"),
    63: Row(WARN, "a row of memory was remapped; it is taken out of use at the next reset", variants=(RETIRED,)),
    64: _fails("broken memory could not be remapped", RESET, MEMORY, "C, V", (NOT_RETIRED,)),
    65: Row(WARN, "video processor exception", source="V"),
    66: Row(WARN, "illegal access by the driver"),
    67: Row(WARN, "illegal access by the driver"),
    68: Row(WARN, "video decoder exception", source="C, A"),
    69: Row(WARN, "a program used the graphics engine wrongly"),
    74: _fails("NVLink error", RESET, NVLINK),
    78: Row(WARN, "a virtual GPU could not be started"),
    79: _fails("the GPU has fallen off the bus", POWER_CYCLE, POWER_OFF),
    80: Row(WARN, "corrupted data was sent to the GPU"),
    81: Row(WARN, "VGA subsystem error", source="V"),
    86: Row(WARN, "exception of the optical flow engine: the program that used it failed"),
    92: Row(WARN, "many single-bit memory errors"),
    93: Row(WARN, "the InfoROM is written too often"),
    94: Row(WARN, "contained memory error: the program that hit it was stopped"),
    95: _fails("uncontained memory error"),
    106: Row(HARMLESS, "a test message"),
    107: Row(HARMLESS, "a test message"),
    108: Row(WARN, "an NVLink peer could not translate an address; Xid 137 says more"),
    109: Row(WARN, "a context switch timed out: the program on the GPU hung", RESET, RESET_GPU, "C, A", repeat=2),
    110: _fails("security fault"),
    119: _fails("the GPU's system processor did not answer"),
    120: _fails("error of the GPU's system processor"),
    121: Row(WARN, "error of the link between processor and GPU (C2C)"),
    136: _fails("NVLink training failed"),
    137: Row(WARN, "NVLink privilege error: a program used memory of a peer that it may not use"),
    139: Row(WARN, "exception of the optical flow engine: the program that used it failed"),
    140: _fails("unrecovered memory error"),
    141: Row(WARN, "CUDA fast path error"),
    142: Row(WARN, "video encoder exception: the program that used it failed"),
    143: _fails("the GPU could not be initialised"),
    144: _by_word("SAW"),
    145: _by_word("RLW"),
    146: _by_word("TLW"),
    147: _by_word("TREX"),
    148: _by_word("NVLPW_CTRL"),
    149: _by_word("NETIR"),
    150: _by_word("MSE"),
    151: _fails("key rotation error", REBOOT, GUEST),
    152: Row(WARN, "the deep learning accelerator used memory that it does not have"),
    153: Row(WARN, "the deep learning accelerator timed out"),
    155: _fails("NVLink error defined by software"),
    156: _fails("a part of the GPU waits to be retired"),
    157: Row(WARN, "a part of the GPU could not be retired"),
    158: _fails("fatal timeout of the GPU"),
    159: Row(WARN, "error on the coherent link to the processor (CHI)"),
    160: Row(WARN, "a channel was retired"),
    161: Row(WARN, "a channel could not be retired"),
    162: Row(HARMLESS, "power smoothing is engaged again"),
    163: Row(WARN, "power smoothing was disengaged"),
    164: Row(WARN, "the power smoothing circuit is near the end of its life"),
    165: Row(WARN, "the power smoothing circuit has reached the end of its life"),
    166: Row(WARN, "NVLink traffic came before its encryption was set up (confidential computing)"),
    167: _fails("fatal timeout on PCIe"),
    168: Row(WARN, "errors in protected memory: the card offers less of it; check whether ECC is on"),
    169: _fails("internal micro-controller halt (SEC2)"),
    170: Row(WARN, "unexpected NVLink event in confidential computing"),
    171: Row(WARN, "the memory behind an Xid 48 was DRAM; 48 and 154 beside it decide"),
    172: Row(WARN, "the memory behind an Xid 48 was SRAM; 48 and 154 beside it decide"),
    173: _fails("the link between processor and GPU (C2C) has failed", REBOOT, C2C, "N"),
    174: Row(WARN, "a program's work was stopped and removed without a message of its own", source="N"),
    175: _fails("error of the memory system, or the GPU's system processor did not answer", source="N"),
    176: Row(WARN, "corrected errors on PCIe exceed what is counted as normal", source="N"),
}
# Each engine of a kind has its own code; the program that used the engine failed and has to be started again.
ENGINES = (
    ("copy engine", (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135)),
    ("video decoder", (83, 84, 88, 89, 96, 97, 98)),
    ("JPEG engine", (82, 99, 100, 101, 102, 103, 104, 105)),
)
XID.update(
    {
        code: Row(WARN, f"exception of a {name}: the program that used it failed")
        for name, codes in ENGINES
        for code in codes
    }
)
# The catalogue lists them as unused: a driver that writes one is newer or older than the catalogue.
HIGHEST_XID = 176
RECOVERY_ACTION_CHANGED = 154
GPU_LOST = 79
UNUSED = Row(WARN, "a code that NVIDIA's catalogue lists as unused", "", "Contact NVIDIA with nvidia-bug-report.sh.")
XID.update({n: UNUSED for n in range(1, HIGHEST_XID + 1) if n not in XID and n != RECOVERY_ACTION_CHANGED})

# What the driver asks for in an Xid 154, by words of the action: (pattern, class, remedy, what to do).
RECOVERY = (
    ("none", HARMLESS, "", ""),
    (
        "imex",
        FAIL,
        DRAIN,
        "Give the node no new work; end what runs across the nodes of its NVLink domain and restart nvidia-imex on all"
        " of them: systemctl restart nvidia-imex",
    ),
    (
        "bus",
        FAIL,
        REBOOT,
        "Stop the GPU's programs and reboot the node: a reset of the card does not reset its bus. If it comes back,"
        " power the node off and on.",
    ),
    ("drain p2p", FAIL, DRAIN, "Give the node no new work that uses NVLink; reset {gpu} when its programs have ended."),
    ("drain", FAIL, DRAIN, "Give the node no new work; when {gpu} is idle: nvidia-smi --gpu-reset -i {gpu}"),
    ("reboot", FAIL, REBOOT, "Stop the GPU's programs and reboot the node."),
    ("reset|flr", FAIL, RESET, RESET_GPU),
    ("", FAIL, CONTACT_SUPPORT, "Do what the driver asks for on {gpu}: nvidia-smi -q -i {gpu} | grep -i recovery"),
)
