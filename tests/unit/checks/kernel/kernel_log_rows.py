"""Rows of test_checks_sad_paths: what the kernel's log of this boot says."""

from __future__ import annotations

from gpuwright.verdict.check import FAIL, PASS, SKIP, UNKNOWN, WARN
from node_names import Changes

CARD = "0000:3b:00"
LOG = ("kernel_log",)
XIDS = (*LOG, "xids")
SXIDS = (*LOG, "sxids")
FINDINGS = (*LOG, "findings")
POLICY = ("xid_policy",)
XID_79 = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus."
XID_45 = "NVRM: Xid (PCI:0000:3b:00): 45, pid=1234, name=python3, Ch 00000008, caused by previous Xid 106"
XID_154 = "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to "
RESET = "reset at 40 s"
ACKNOWLEDGED = "acknowledged by root: known"


def event(code: int, text: str = "NVRM: Xid", closed_by: str = "", pci_id: str = CARD, count: int = 2) -> dict:
    times = {"count": count, "first_s": 5, "last_s": 9}
    return {"code": code, "pci_id": pci_id, "text": text, "closed_by": closed_by, **times}


def said(kind: str, closed_by: str = "", text: str = "what it said", pci_id: str = "host") -> dict:
    times = {"count": 3, "first_s": 5, "last_s": 9}
    return {"kind": kind, "pci_id": pci_id, "text": text, "closed_by": closed_by, **times}


def override(code: int, judged: str, **fields: str) -> dict:
    row = {
        "kind": "xid",
        "code": code,
        "class": judged,
        "action": "",
        "remedy": "",
        "reason": "the vendor says so",
        "line": 3,
    }
    return {**row, **fields}


# Each check of `kernel_log.findings`: (check, a finding that fails it, one that warns, words when nothing was said).
PAIRS: list[tuple[str, str | None, str | None, str]] = [
    ("kernel.driver_start", "driver_start", "driver_mixed", "started without trouble"),
    ("kernel.gpu_reset", "needs_reset", None, "no card has to be reset"),
    ("kernel.lockups", "lockup", "blocked", "nothing hung"),
    ("kernel.stalls", "stall", None, "nothing stalled"),
    ("kernel.oops", "oops", "kernel_warning", "no failure of its own"),
    ("kernel.out_of_memory", None, "out_of_memory", "no program was killed"),
    ("kernel.hardware_errors", "hardware", "hardware_corrected", "no hardware error"),
    ("kernel.pcie_errors", "pcie", "pcie_corrected", "no PCIe error"),
    ("kernel.nvme", "nvme", "nvme_timeout", "no NVMe error"),
    ("kernel.filesystem", "filesystem", "disk_error", "no file system error"),
    ("kernel.network", "network", "network_trouble", "no network adapter had trouble"),
    ("kernel.remote_storage", None, "remote_storage", "no file server stopped answering"),
]
Row = tuple[str, Changes, dict[str, object], str, str]


def rows_of(check: str, fails: str | None, warns: str | None, quiet: str) -> list[Row]:
    """What a check says of each kind of finding, and of logs that tell nothing."""
    rows: list[Row] = [
        (check, {FINDINGS: [said(fails or warns or "", RESET)]}, {}, PASS, f" is over: {RESET}"),
        (check, {FINDINGS: [said(fails or warns or "", ACKNOWLEDGED)]}, {}, WARN, "is over: acknowledged by root"),
        (check, {FINDINGS: [said("lost")]}, {}, PASS, quiet),
        (check, {(*LOG, "from_boot"): False}, {}, WARN, "does not reach back"),
        (check, {(*LOG, "whole"): False}, {}, UNKNOWN, "longer than"),
        (check, {LOG: None}, {}, SKIP, "is a container"),
        (check, {FINDINGS: [said("something else")]}, {}, UNKNOWN, "no row describes"),
    ]
    if fails:
        rows.append((check, {FINDINGS: [said(fails)]}, {}, FAIL, f"3 times: what it said (event {check}:{fails})"))
    if warns:
        rows.append((check, {FINDINGS: [said(warns)]}, {}, WARN, "3 times: what it said"))
    return rows


BY_KIND = [row for pair in PAIRS for row in rows_of(*pair)]

# (check, {path in the readings: value}, {expectation: value}, status, words of the message)
ROWS = [
    ("kernel.xid", {XIDS: [event(13), event(79, XID_79)]}, {}, FAIL, "79 on 0000:3b:00: the GPU has fallen"),
    ("kernel.xid", {XIDS: [event(48), event(79, XID_79)]}, {}, FAIL, "79 on 0000:3b:00: the GPU has fallen"),
    ("kernel.xid", {XIDS: [event(79, XID_79), event(48)]}, {}, FAIL, "event kernel.xid:79@0000:3b:00); 1 more"),
    ("kernel.xid", {XIDS: [event(31)]}, {}, WARN, "31 on 0000:3b:00: a program used memory"),
    ("kernel.xid", {XIDS: [event(999)]}, {}, WARN, "999 on 0000:3b:00: not in the catalogue"),
    ("kernel.xid", {XIDS: [event(0)]}, {}, WARN, "0 on 0000:3b:00: not in the catalogue"),
    ("kernel.xid", {XIDS: [event(106)]}, {}, PASS, "no event that needs an action (106 on"),
    ("kernel.xid", {XIDS: []}, {}, PASS, "no Xid since the boot"),
    ("kernel.xid", {XIDS: [event(109, count=1)]}, {}, WARN, "109 on 0000:3b:00: a context switch timed out"),
    ("kernel.xid", {XIDS: [event(109, count=2)]}, {}, FAIL, "repeatedly"),
    ("kernel.xid", {XIDS: [event(144, "144, SAW_MVB Nonfatal XC0")]}, {}, WARN, "144 on 0000:3b:00: NVLink SAW error"),
    ("kernel.xid", {XIDS: [event(144, "144, SAW_MVB Fatal XC0")]}, {}, FAIL, "144 on 0000:3b:00: NVLink SAW error"),
    ("kernel.xid", {XIDS: [event(154, XID_154 + "0x0 (None)")]}, {}, PASS, "no longer asks for a recovery"),
    ("kernel.xid", {XIDS: [event(154, XID_154 + "0x2 (OS Reboot)")]}, {}, FAIL, "the driver asks for: OS Reboot"),
    ("kernel.xid", {XIDS: [event(45)]}, {}, PASS, "45 on 0000:3b:00: a program was killed"),
    ("kernel.xid", {XIDS: [event(45, XID_45)]}, {}, WARN, "and Xid 106 itself is missing from the log"),
    ("kernel.xid", {XIDS: [event(45, XID_45), event(106)]}, {}, PASS, "45 on 0000:3b:00: a program was killed"),
    ("kernel.xid", {XIDS: [event(45)], ("switches",): 4}, {}, WARN, "nvidia-fabricmanager"),
    ("kernel.xid", {XIDS: [event(45), event(31)], ("switches",): 4}, {}, WARN, "31 on 0000:3b:00"),
    ("kernel.xid", {XIDS: [event(45), event(31, pci_id="0000:af:00")], ("switches",): 4}, {}, WARN, "45 on 0000:3b:00"),
    ("kernel.xid", {XIDS: [event(45), event(31, closed_by=RESET)], ("switches",): 4}, {}, WARN, "45 on 0000:3b:00"),
    ("kernel.xid", {XIDS: [event(45), event(106)], ("switches",): 4}, {}, WARN, "45 on 0000:3b:00"),
    ("kernel.xid", {XIDS: [event(45)], ("switches",): {"unreadable": "no sysfs"}}, {}, UNKNOWN, "no sysfs"),
    ("kernel.xid", {XIDS: [event(45), event(48)]}, {}, FAIL, "48 on 0000:3b:00: double-bit"),
    ("kernel.xid", {XIDS: [event(48, closed_by=RESET)]}, {}, PASS, f"kernel.xid:48@0000:3b:00 is over: {RESET}"),
    (
        "kernel.xid",
        {XIDS: [event(48, closed_by=RESET), event(119, closed_by=RESET)]},
        {},
        PASS,
        "kernel.xid:48@0000:3b:00 and 1 more is over",
    ),
    ("kernel.xid", {XIDS: [event(48, closed_by=ACKNOWLEDGED)]}, {}, WARN, "is over: acknowledged"),
    ("kernel.xid", {XIDS: [event(106, closed_by=ACKNOWLEDGED)]}, {}, PASS, "no Xid since the boot"),
    ("kernel.xid", {XIDS: [event(48, closed_by=RESET), event(119)]}, {}, FAIL, "119 on 0000:3b:00"),
    ("kernel.xid", {XIDS: [event(48, closed_by=RESET), event(13)]}, {}, WARN, "13 on 0000:3b:00"),
    ("kernel.xid", {XIDS: [event(63)], POLICY: [override(63, "fail")]}, {}, FAIL, "judged by /etc/gpuwright/xid.yml"),
    ("kernel.xid", {XIDS: [event(48)], POLICY: [override(48, "warn")]}, {}, WARN, "the vendor says so"),
    ("kernel.xid", {XIDS: [event(48)], POLICY: [override(48, "harmless")]}, {}, PASS, "48 on 0000:3b:00"),
    ("kernel.xid", {XIDS: [event(48)], POLICY: [override(48, "warn", kind="sxid")]}, {}, FAIL, "48 on 0000:3b:00"),
    ("kernel.xid", {XIDS: [event(48)], POLICY: [override(49, "warn")]}, {}, FAIL, "48 on 0000:3b:00"),
    (
        "kernel.xid",
        {XIDS: [event(79, XID_79)], POLICY: [override(79, "harmless")]},
        {},
        FAIL,
        "the row for 79 in /etc/gpuwright/xid.yml has no effect",
    ),
    ("kernel.xid", {POLICY: {"unreadable": "xid.yml, line 3: no class"}}, {}, UNKNOWN, "xid.yml, line 3: no class"),
    ("kernel.xid", {LOG: None}, {}, SKIP, "is a container"),
    ("kernel.xid", {LOG: {"unreadable": "no permission"}}, {}, UNKNOWN, "no permission"),
    ("kernel.xid", {(*LOG, "whole"): False, XIDS: [event(79)]}, {}, FAIL, "79 on"),
    ("kernel.xid", {(*LOG, "whole"): False, XIDS: [event(13)]}, {}, UNKNOWN, "longer than"),
    ("kernel.xid", {(*LOG, "from_boot"): False}, {}, WARN, "does not reach back to the boot"),
    ("kernel.xid", {(*LOG, "lines"): 0}, {}, UNKNOWN, "is empty"),
    ("kernel.sxid", {SXIDS: [event(20034, "SXid (PCI): 20034, Fatal, Link 30")]}, {}, FAIL, "20034 on"),
    ("kernel.sxid", {SXIDS: [event(28006, "SXid: 28006, Non-fatal, Link 46")]}, {}, WARN, "28006 on"),
    (
        "kernel.sxid",
        {SXIDS: [event(20034, "SXid: 20034, Fatal", RESET)]},
        {},
        PASS,
        "kernel.sxid:20034@0000:3b:00 is over",
    ),
    ("kernel.sxid", {SXIDS: [event(23001, "SXid: 23001, overflow")]}, {}, FAIL, "23001 on"),
    (
        "kernel.sxid",
        {SXIDS: [event(20034, "20034, Fatal, x")], POLICY: [override(20034, "warn", kind="sxid")]},
        {},
        WARN,
        "judged by",
    ),
    ("kernel.sxid", {LOG: None}, {}, SKIP, "is a container"),
    ("kernel.sxid", {(*LOG, "whole"): False}, {}, UNKNOWN, "longer than"),
    ("kernel.gpu_lost", {XIDS: [event(79, XID_79)]}, {}, FAIL, "0000:3b:00 fell off the bus (2 times"),
    ("kernel.gpu_lost", {XIDS: [event(31, XID_79)]}, {}, FAIL, "event kernel.xid:31@0000:3b:00"),
    ("kernel.gpu_lost", {XIDS: [event(79, "79")]}, {}, FAIL, "fell off"),
    ("kernel.gpu_lost", {XIDS: [event(48)]}, {}, PASS, "no GPU was lost"),
    (
        "kernel.gpu_lost",
        {FINDINGS: [said("gpu_lost", pci_id=CARD)]},
        {},
        FAIL,
        "event kernel.gpu_lost:gpu_lost@0000:3b:00",
    ),
    ("kernel.gpu_lost", {FINDINGS: [said("pcie")]}, {}, PASS, "no GPU was lost"),
    ("kernel.gpu_lost", {FINDINGS: [said("gpu_lost", ACKNOWLEDGED)]}, {}, FAIL, "host fell off the bus"),
    ("kernel.gpu_lost", {XIDS: [event(79, XID_79, ACKNOWLEDGED)]}, {}, FAIL, "0000:3b:00 fell off the bus"),
    ("kernel.xid", {XIDS: [event(79, XID_79, ACKNOWLEDGED)]}, {}, WARN, "is over: acknowledged"),
    ("kernel.gpu_lost", {LOG: None}, {}, SKIP, "is a container"),
    ("kernel.hardware_errors", {FINDINGS: [said("hardware_undecided")]}, {}, WARN, "3 times"),
    ("kernel.hardware_errors", {FINDINGS: [said("hardware_before")]}, {}, WARN, "3 times"),
    ("kernel.pcie_errors", {FINDINGS: [said("pcie"), said("pcie", pci_id=CARD)]}, {}, FAIL, ":pcie); 1 more"),
    ("kernel.lockups", {(*LOG, "whole"): False, FINDINGS: [said("blocked")]}, {}, UNKNOWN, "longer"),
    ("kernel.iommu", {FINDINGS: [said("iommu", pci_id=CARD)]}, {}, FAIL, "3 times: what it said"),
    ("kernel.iommu", {FINDINGS: [said("iommu", pci_id="0000:02:00")]}, {}, WARN, "3 times: what it said"),
    (
        "kernel.iommu",
        {FINDINGS: [said("iommu", text="nvidia 0000:02:00.0: AMD-Vi", pci_id="0000:02:00")]},
        {},
        FAIL,
        "3",
    ),
    ("kernel.iommu", {FINDINGS: [said("iommu_host")]}, {}, WARN, "3 times"),
    ("kernel.iommu", {FINDINGS: [said("iommu", RESET, pci_id=CARD)]}, {}, PASS, "is over"),
    ("kernel.iommu", {LOG: None}, {}, SKIP, "is a container"),
    (
        "kernel.log_whole",
        {FINDINGS: [said("lost"), said("pcie")]},
        {},
        WARN,
        "3 kernel messages are missing: what",
    ),
    ("kernel.log_whole", {FINDINGS: [said("pcie")]}, {}, PASS, "the log is complete"),
    ("kernel.log_whole", {FINDINGS: [said("unheard of")]}, {}, PASS, "the log is complete"),
    ("kernel.log_whole", {(*LOG, "from_boot"): False}, {}, WARN, "does not reach back"),
    ("kernel.log_whole", {(*LOG, "lines"): 0}, {}, UNKNOWN, "is empty"),
    ("kernel.log_whole", {(*LOG, "whole"): False}, {}, UNKNOWN, "longer"),
    ("kernel.log_whole", {LOG: None}, {}, SKIP, "is a container"),
    *BY_KIND,
]
