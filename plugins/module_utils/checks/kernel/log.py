# SPDX-License-Identifier: Apache-2.0
"""Checks of everything else in the kernel's log: one kind of fault for each, by the rows of the log's table."""

from ...readings.kernel_log.rows import LOST
from ...readings.kernel_log.table import about
from ...verdict.by_hand import ERRORS_END, MACHINE, NETWORK, NODE, OWNER, STORAGE, VENDOR, Hand
from ...verdict.check import (
    CONTACT_SUPPORT,
    FAIL,
    POWER_CYCLE,
    QUICK,
    REBOOT,
    REPLACE,
    RESET,
    WARN,
    Check,
    Outcome,
    skipped,
    unknown,
    warned,
)
from ...verdict.evidence import Evidence
from .evidence import KEEP, LOOK, NO_LOG, cut, events_of, quiet
from .findings import IOMMU, finding


def log_whole(readings: Evidence, expected: Evidence) -> Outcome:
    """The log is all that the kernel wrote since the boot: nothing dropped, suppressed or missed (WARN: how many)."""
    if readings.absent("kernel_log"):
        return skipped("no-log", NO_LOG)
    lost = [event for event in events_of(readings, "findings") if (about(event.kind) or ("", ""))[1] == LOST]
    if not readings.flag("kernel_log", "whole"):
        return cut()
    if not readings.number("kernel_log", "lines"):
        return unknown("log-empty", "the kernel's log is empty", expected="none", action=LOOK)
    if lost:
        number = sum(event.times for event in lost)
        words = f"{number} kernel messages are missing: {lost[0].text}"
        return warned("log-gaps", number, 0, words)
    return quiet(readings, "the log is complete")


def _row(
    name: str,
    remedy: str,
    question: str,
    doc: str,
    silence: str,
    action: str,
    needs_gpu: bool = False,
    severity: str = FAIL,
) -> Check:
    return Check(
        id=name,
        layer="system",
        level=QUICK,
        severity=severity,
        remedy=remedy,
        question=question,
        judge=finding(name, doc, silence, action),
        needs_gpu=needs_gpu,
        action=action.replace("/dev/{place}", "the disk"),
        source="the kernel's own messages, by the rows of readings/kernel_log/table.py",
    )


CHECKS = (
    _row(
        "kernel.driver_start",
        REBOOT,
        "Did the driver start on every GPU?",
        "The driver took over every GPU (FAIL: RmInitAdapter, probe or module failed); mixed versions are a WARN. A "
        "later start of the driver without the fault closes the finding.",
        "the driver started without trouble",
        LOOK + " | grep -iE 'nvrm|nvidia' ; reboot; if it comes back, run nvidia-bug-report.sh.",
        needs_gpu=True,
    ),
    _row(
        "kernel.gpu_reset",
        RESET,
        "Did the driver say that a GPU has to be reset?",
        "No message of the driver without an Xid says that a card has to be reset, or that a processor inside it has "
        "stopped (FAIL). A reset or a reload of the driver closes it.",
        "no card has to be reset",
        LOOK
        + " | grep NVRM ; stop the GPU's programs and reset it: nvidia-smi --gpu-reset ; if the driver does not answer,"
        " power the node off and on.",
        needs_gpu=True,
    ),
    _row(
        "kernel.lockups",
        REBOOT,
        "Did a processor or a task hang since the boot?",
        "No processor locked up (FAIL), no task hung for minutes (WARN). Source: the kernel's own watchdogs.",
        "nothing hung since the boot",
        LOOK + " | grep -iE 'lockup|blocked for more' ; only a reboot ends a hung NVIDIA task.",
    ),
    _row(
        "kernel.stalls",
        REBOOT,
        "Did a processor stall the kernel since the boot?",
        "No RCU stall and no stuck work queue since the boot (FAIL): such a processor does not let the kernel "
        "continue.",
        "nothing stalled since the boot",
        LOOK + " | grep -iE 'stall|starved|workqueue lockup' ; reboot, then look for firmware and kernel updates.",
    ),
    _row(
        "kernel.oops",
        REBOOT,
        "Did the kernel itself fail since the boot?",
        "No BUG, Oops, general protection fault or panic of the kernel (FAIL), no WARNING (WARN), since the boot.",
        "the kernel reported no failure of its own",
        LOOK + " | grep -iE 'BUG|Oops|protection fault|WARNING: CPU' ; reboot; report it with the trace.",
    ),
    _row(
        "kernel.out_of_memory",
        "",
        "Did the kernel kill programs because memory ran out?",
        "The kernel killed no program for lack of memory, and refused none a large block of it (WARN), since the boot.",
        "no program was killed for lack of memory",
        "See who: journalctl -k -b | grep -i 'out of memory' ; lower the batch size or the number of loader workers.",
        severity=WARN,
    ),
    _row(
        "kernel.hardware_errors",
        CONTACT_SUPPORT,
        "Did processor or memory report an error?",
        "No uncorrected machine check or memory error (FAIL), no corrected or undecided one (WARN), since the boot. A "
        "group of lines is one event, judged by its severity; what the firmware kept from the previous boot is a "
        "WARN.",
        "no hardware error since the boot",
        LOOK + " | grep -iE 'hardware error|EDAC' ; then the server's event log: ipmitool sel list ; replace what "
        "these logs name (memory, processor, card); the finding ends with the reboot.",
    ),
    _row(
        "kernel.pcie_errors",
        POWER_CYCLE,
        "Did the PCIe bus report an error?",
        "No uncorrected PCIe error or containment (FAIL: AER, DPC), and no corrected one (WARN), since the boot.",
        "no PCIe error since the boot",
        LOOK + " | grep -iE 'aer|dpc|PCIe Bus Error' ; power off, reseat the card or its riser, or try another slot.",
    ),
    _row(
        IOMMU,
        RESET,
        "Did the IOMMU refuse an access of a GPU?",
        "No fault of the IOMMU names a GPU (FAIL) or another device (WARN) since the boot.",
        "no IOMMU fault since the boot",
        "Stop the GPU's programs and reset it: nvidia-smi --gpu-reset ; if GPUs exchange data, boot with iommu=pt or"
        " without the IOMMU (see gpu.iommu).",
    ),
    _row(
        "kernel.nvme",
        REPLACE,
        "Did an NVMe disk fail since the boot?",
        "No NVMe controller went down for good and no read or write failed (FAIL), no command timed out (WARN). A"
        " controller that answers again closes its fault.",
        "no NVMe error since the boot",
        LOOK + " | grep -i nvme ; as root: nvme smart-log /dev/{place} ; replace the disk when its media errors grow."
        " A reboot ends the finding.",
    ),
    _row(
        "kernel.filesystem",
        CONTACT_SUPPORT,
        "Did a file system fail or become read-only?",
        "No file system reported damage or became read-only (FAIL), no other disk an error (WARN), since the boot.",
        "no file system error since the boot",
        LOOK + " | grep -iE 'EXT4-fs|XFS|BTRFS|I/O error' ; unmount it, check it (fsck, xfs_repair), look at its disk.",
    ),
    _row(
        "kernel.network",
        REBOOT,
        "Did a network adapter fail since the boot?",
        "No adapter lost its firmware or did not start (FAIL: mlx5), and none reported heat, lack of power or a stuck "
        "queue (WARN), since the boot. An adapter that was started again closes its fault.",
        "no network adapter had trouble since the boot",
        LOOK + " | grep -iE 'mlx5|NETDEV WATCHDOG' ; reboot; if it comes back, power the node off and on and look at"
        " the adapter's firmware and slot (mlxfwmanager --query, lspci -vv).",
    ),
    _row(
        "kernel.remote_storage",
        "",
        "Did a file server stop answering?",
        "No NFS, Lustre, CephFS or SMB server stopped responding to this node (WARN), or it has responded again since.",
        "no file server stopped answering since the boot",
        LOOK + " | grep -iE 'not responding|Lustre|ceph|CIFS' ; look at the server and the network in between; a "
        "training run that reads from it hangs or has lost its files.",
        severity=WARN,
    ),
    Check(
        id="kernel.log_whole",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Is the kernel's log complete?",
        judge=log_whole,
        needs_gpu=False,
        action="Raise log_buf_len on the kernel's command line and see what floods the log. " + KEEP,
        source="journald's and the kernel's own count of what they dropped",
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "kernel.driver_start": Hand(NODE, ERRORS_END),
    "kernel.gpu_reset": Hand(NODE, ERRORS_END),
    "kernel.lockups": Hand(NODE, ERRORS_END),
    "kernel.stalls": Hand(MACHINE, ERRORS_END),
    "kernel.oops": Hand(NODE, ERRORS_END),
    "kernel.out_of_memory": Hand(OWNER, ERRORS_END),
    "kernel.hardware_errors": Hand(VENDOR, "ipmitool sel list shows no new event after the part was replaced"),
    "kernel.pcie_errors": Hand(MACHINE, ERRORS_END),
    "kernel.iommu": Hand(MACHINE, ERRORS_END),
    "kernel.nvme": Hand(MACHINE, "nvme smart-log shows no media errors, and " + ERRORS_END),
    "kernel.filesystem": Hand(NODE, "the check of the file system ends without errors, and " + ERRORS_END),
    "kernel.network": Hand(NETWORK, "ip -br link shows the adapter UP, and " + ERRORS_END),
    "kernel.remote_storage": Hand(STORAGE, "ls on the mount answers at once, and the log has the server's OK"),
    "kernel.log_whole": Hand(NODE, "journalctl -k -b begins with the kernel's own version line"),
}
