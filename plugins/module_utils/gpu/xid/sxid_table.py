# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's SXid codes, errors of NVSwitches, as data and nothing else; the rows have the format of `table`.

Source (F): Fabric Manager user guide, chapter "NVSwitch SXid errors", docs.nvidia.com/datacenter/tesla.
"""

from ...verdict.check import RESET
from .table import FAIL, HARMLESS, WARN, Row

# No log line says that a reset of the switches worked, so the event stays open after it.
SWITCH = (
    "Stop all GPU programs and reboot the node. Without a reboot, run: nvidia-smi --gpu-reset ; systemctl restart"
    " nvidia-fabricmanager ; gpu-doctor --acknowledge {event} --reason 'all GPUs and switches were reset'"
)
NOT_FATAL = "Nothing to do now; if it comes back often: nvidia-smi nvlink -s ; journalctl -u nvidia-fabricmanager"

# SXids say Fatal or Non-fatal in their line; the table decides only if a line does not. The first group is always
# fatal, the second may be, the third never is (F).
SXID_FATAL = {12020: "egress sequence id error", 22003: "Minion halt", 22011: "Minion external error"}
SXID_FATAL.update({code: "buffer, credit or parity error of a switch port" for code in range(23001, 23018)})
SXID_MAYBE = {
    20034: "a link went down (LTSSM fault)",
    14017: "a timeout in the switch",
    24007: "a timeout in the switch",
    **{code: "error at the entry of a switch" for code in (11001, 11009, 11013, 11018, 11019, 11020)},
    **{
        code: "error at the exit of a switch"
        for code in (12001, 12002, 12022, 12024, 12025, 12026, 12027, 12030, 12031, 12032)
    },
    **{code: "error in the routing of a switch" for code in (15001, 15006, 15009, 15010, 15012, 15013)},
    **{
        code: "uncorrected memory error in a switch"
        for code in (19047, 19048, 19054, 19056, 19058, 19060, 19061, 19063, 19064, 19066, 19067, 19069, 19070)
    },
    **{code: "uncorrected memory error in a switch" for code in (24004, 24005, 24006)},
}
SXID_MILD = {
    10001: "privilege error",
    10002: "privilege timeout",
    10003: "unhandled interrupt",
    10004: "the switch is hot",
    10005: "the switch has cooled down",
    11004: "a GPU sent to a peer that it may not reach",
    12028: "a GPU asked a peer that does not answer",
    19084: "a heartbeat of the multicast unit was late",
    20001: "a packet was sent again",
    20009: "short errors on a link",
    20012: "a link is broken or not symmetric",
    22012: "Minion interrupt",
    **{
        code: "corrected single-bit memory error"
        for code in (11012, 11021, 11022, 11023, 12021, 12023, 15008, 15011, 19049, 19055, 19057, 19059, 19062)
    },
    **{code: "corrected single-bit memory error" for code in (19065, 19068, 19071, 24001, 24002, 24003)},
}
SXID = {
    **{code: Row(FAIL, meaning, RESET, SWITCH, "F") for code, meaning in SXID_FATAL.items()},
    **{code: Row(WARN, meaning, "", SWITCH, "F") for code, meaning in SXID_MAYBE.items()},
    **{code: Row(WARN, meaning, "", SWITCH, "F") for code, meaning in SXID_MILD.items()},
    # Written at each start of the driver in a guest with switches.
    22013: Row(HARMLESS, "Minion link request", "", SWITCH, "F"),
}
