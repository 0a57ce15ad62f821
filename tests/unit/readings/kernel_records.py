"""Whole records of kernel logs, as (checks, their statuses, lines): other kernel.* checks pass; "" where all do.

The forms are those of the Linux kernel 4.18 to 6.17, of journald and of NVIDIA's driver 470 to 610; cards, times and
names are made up. A line that is indented belongs to the message before it.
"""

from __future__ import annotations

from gpuwright.verdict.check import FAIL, WARN
from kernel_starts import CAUSES, REFUSED

PORT = "pcieport 0000:3a:00.0: "
GPU = "nvidia 0000:3b:00.0: "
XID = "NVRM: Xid (PCI:0000:3b:00): "
SXID = "nvidia-nvswitch2: SXid (PCI:0000:c3:00.0): "
HW = "[Hardware Error]: "
LOST = ("kernel.gpu_lost", FAIL)
LOST_XID = ("kernel.xid kernel.gpu_lost", f"{FAIL} {FAIL}")
XID_FAILS, XID_WARNS = ("kernel.xid", FAIL), ("kernel.xid", WARN)
SXID_FAILS, SXID_WARNS = ("kernel.sxid", FAIL), ("kernel.sxid", WARN)
HW_FAILS, HW_WARNS = ("kernel.hardware_errors", FAIL), ("kernel.hardware_errors", WARN)
PCIE_FAILS, PCIE_WARNS = ("kernel.pcie_errors", FAIL), ("kernel.pcie_errors", WARN)
START = ("kernel.driver_start", FAIL)
LOCKED, HUNG = ("kernel.lockups", FAIL), ("kernel.lockups", WARN)
STALLED = ("kernel.stalls", FAIL)
IOMMU_FAILS, IOMMU_WARNS = ("kernel.iommu", FAIL), ("kernel.iommu", WARN)
NVME_FAILS, NVME_WARNS = ("kernel.nvme", FAIL), ("kernel.nvme", WARN)
FS_FAILS, FS_WARNS = ("kernel.filesystem", FAIL), ("kernel.filesystem", WARN)
OOPS, TAINT = ("kernel.oops", FAIL), ("kernel.oops", WARN)
OOM = ("kernel.out_of_memory", WARN)
NETWORK_FAILS, NETWORK_WARNS = ("kernel.network", FAIL), ("kernel.network", WARN)
REMOTE = ("kernel.remote_storage", WARN)
NOT_WHOLE = ("kernel.log_whole", WARN)
NOTHING = ("", "")

LOADED = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:41 UTC 2025"
LOADING = "nvidia-nvlink: Nvlink Core is being initialized, major device number 236"
NO_MORE = XID + "154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
ASKS_RESET = XID + "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
ASKS_REBOOT = XID + "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
DBE = XID + "48, pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been detected on GPU"
GSP = (
    XID
    + "119, pid=8113, name=python3, Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76"
)
GONE = XID + "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def lines(*parts: str) -> str:
    return "\n".join(parts)


GPU_RECORDS = [
    (*XID_WARNS, XID + "13, pid=4821, name=python, Graphics SM Warp Exception on (GPC 2, TPC 0, SM 1): Out Of Range"),
    (*XID_WARNS, XID + "31, pid=4821, name=python, Ch 00000012, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1"),
    (*XID_WARNS, lines(XID + "31, pid=9, name=train, Ch 00000008", XID + "45, pid=9, name=train, Ch 00000008")),
    (*NOTHING, XID + "45, pid=4821, name=python, Ch 0000000a, errorString CTX SWITCH TIMEOUT, Info 0x4c00e"),
    (*NOTHING, lines(*[XID + f"45, pid=77, name=pt_main_thread, Ch 0000{n:04x}" for n in range(12)])),
    (*XID_WARNS, XID + "43, pid=4821, name=python, Ch 00000010"),
    (*XID_WARNS, XID + "68, pid=771, name=ffmpeg, NVDEC0 ERROR"),
    (*XID_WARNS, XID + "109, pid=5, name=python, Ch 00000002, errorString CTX SWITCH TIMEOUT, Info 0x2c015"),
    (*XID_FAILS, lines(*[XID + f"109, pid={n}, name=python, errorString CTX SWITCH TIMEOUT" for n in (5, 6)])),
    (
        *XID_WARNS,
        lines(XID + "109, pid=5, name=python", "NVRM: Xid (PCI:0000:af:00): 109, pid=6, name=python"),
    ),
    (*XID_FAILS, lines(DBE, XID + "45, pid=7, name=python, Ch 00000008")),
    (*XID_FAILS, lines(DBE, ASKS_RESET)),
    (*NOTHING, lines(DBE, ASKS_RESET, NO_MORE)),
    (*NOTHING, lines(GSP, ASKS_RESET, NO_MORE)),
    (*XID_FAILS, lines(GSP, ASKS_REBOOT)),
    (*XID_FAILS, lines(DBE, ASKS_RESET, NO_MORE, DBE)),
    (*XID_FAILS, lines(DBE, "NVRM: Xid (PCI:0000:af:00): 154, GPU recovery action changed from 0x1 (x) to 0x0 (None)")),
    (*NOTHING, lines(DBE, LOADING, LOADED)),
    (*NOTHING, lines(GSP, LOADED)),
    (*XID_FAILS, lines(ASKS_REBOOT, LOADING, LOADED)),
    (*XID_FAILS, lines(LOADING, XID + "143, pid='<unknown>', name=<unknown>, GPU_INIT_ERROR", LOADED)),
    (*NOTHING, lines(DBE, GPU + "reset done")),
    (*XID_WARNS, lines(XID + "109, pid=5, name=python", NO_MORE, XID + "109, pid=6, name=python")),
    (*XID_FAILS, "NVRM: Xid (PCI:00000000:3B:00.0): 46, pid=12, GPU stopped processing"),
    (*XID_FAILS, XID + "54, pid='<unknown>', name=<unknown>, GPU external power cables missing"),
    (*XID_FAILS, XID + "62, pid='<unknown>', name=<unknown>, 32b1(1c78) 8473b45b 00000000"),
    (*XID_WARNS, XID + "63, pid=1896, name=cache_mgr_main, Row Remapper: New row (0x000000018b55ce18) marked"),
    (*XID_WARNS, XID + "63, pid=18, name=x, Dynamic Page Retirement: New page retired, reboot to activate (0x000ab)"),
    (*XID_FAILS, XID + "64, pid=1, name=x, Row Remapper: All reserved rows for bank are remapped"),
    (*XID_FAILS, XID + "64, pid=1, name=x, Dynamic Page Retirement: Fatal error, unable to retire page (0x001)"),
    (*XID_FAILS, XID + "74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 6(0x10000, 0x0)"),
    (*XID_WARNS, XID + "92, pid=5, name=x, Excessive SBE interrupts"),
    (*XID_WARNS, XID + "94, pid=5, name=x, Contained: SM (0x1). RST: No, D-RST: No"),
    (*XID_FAILS, XID + "95, pid=5, name=x, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No"),
    (*XID_FAILS, XID + "140, pid=5, name=x, Unrecovered ECC error"),
    (*XID_WARNS, XID + "142, pid=5, name=x, NVENC3 error"),
    (*XID_WARNS, XID + "85, pid=5, name=x, CE9 error"),
    (*XID_WARNS, XID + "144, SAW_MVB Nonfatal XC0 i0 Link 00 (0x00000021 0x00000004 0x00000000 0x00000000)"),
    (*XID_FAILS, XID + "144, SAW_MVB Fatal XC1 i0 Link 02 (0x00000021 0x00000002 0x00000000 0x00000000)"),
    (*XID_WARNS, XID + "145, pid=81, name=python, RLW_REMAP Nonfatal XC0 i0 Link 11 (0x00000082 0x00000001)"),
    (*XID_FAILS, XID + "149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000 0x00000000)"),
    (*XID_FAILS, XID + "150, MSE_WATCHDOG Fatal XC0 i0 Link -1 (0x00000000 0x00000000)"),
    (*XID_FAILS, XID + "149, pid=81, name=Nonfatal, NETIR_LINK_EVT Fatal XC0 i0 Link 01 (0x1 0x2)"),
    (*XID_WARNS, XID + "152, DLA SMMU error"),
    (*NOTHING, XID + "162, power smoothing reengaged"),
    (*XID_WARNS, XID + "165, PSHC lifetime"),
    (*XID_WARNS, XID + "171, DRAM error"),
    (*XID_FAILS, lines(XID + "171, DRAM error", DBE)),
    (*XID_WARNS, XID + "888, a code of tomorrow"),
    (*XID_WARNS, "NVRM: Xid what is this"),
    (*LOST_XID, GONE),
    (*LOST_XID, lines(GONE, "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.", ASKS_REBOOT)),
    (*LOST_XID, lines(GONE, NO_MORE)),
    (*LOST_XID, lines(GONE, LOADING, LOADED)),
    (*LOST, "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus."),
    (*LOST, "NVRM: GPU at PCI:0000:3b:00: has fallen off the bus."),
    (
        *LOST,
        lines(
            "NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:20b0)",
            "NVRM: installed in this system has fallen off the bus and is not responding to commands.",
        ),
    ),
    (
        *LOST,
        lines(
            "NVRM: The NVIDIA GPU 0000:3b:00.0",
            "NVRM: (PCI ID: 10de:1db6) installed in this system has",
            "NVRM: fallen off the bus and is not responding to commands.",
        ),
    ),
    (
        *LOST,
        lines(
            "NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:2330)",
            "  NVRM: installed in this system has fallen off the",
            "  NVRM: bus and is not responding to commands.",
        ),
    ),
    (
        *LOST,
        lines(
            "NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:2330)",
            "eth0: link becomes ready",
            "NVRM: installed in this system has fallen off the",
            "NVRM: bus and is not responding to commands.",
        ),
    ),
    (*LOST, "NVRM: GPU0 nvAssertOkFailedNoLog: Assertion failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] (0x0F)"),
    (*LOST, GPU + "Unable to change power state from D3cold to D0, device inaccessible"),
    (*LOST, GPU + "not ready 65535ms after FLR; giving up"),
    (*START, "NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0x55:2477)"),
    (
        *START,
        lines(
            "NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x56:1474)",
            "NVRM: GPU 0000:3b:00.0: rm_init_adapter failed, device minor number 0",
        ),
    ),
    (*START, "NVRM: RmInitAdapter failed! (0x25:0x28:1157)"),
    (*START, GPU + "probe with driver nvidia failed with error -1"),
    (*START, "nvidia: probe of 0000:3b:00.0 failed with error -1"),
    (*START, "NVRM: The NVIDIA probe routine failed for 1 device(s)."),
    (*START, lines(LOADING, "NVRM: The NVIDIA probe routine failed for 1 device(s).", LOADED)),
    (*START, lines("NVRM: The NVIDIA probe routine failed for 1 device(s).", LOADED)),
    (*NOTHING, lines(LOADING, "NVRM: The NVIDIA probe routine failed for 1 device(s).", LOADING, LOADED)),
    (
        *START,
        lines(
            "NVRM: The NVIDIA probe routine was not called for 1 device(s).",
            "NVRM: This can occur when another driver was loaded and",
            "NVRM: obtained ownership of the NVIDIA device(s).",
        ),
    ),
    (*START, "NVRM: None of the NVIDIA devices were initialized."),
    (*START, "NVRM: None of the NVIDIA graphics adapters were initialized!"),
    (
        *START,
        lines(
            "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:",
            "  NVRM: BAR1 is 0M @ 0x0 (PCI:0000:3b:00.0)",
        ),
    ),
    (*START, "nvidia_uvm: Unknown symbol radix_tree_preloads (err -2)"),
    (
        *START,
        lines(
            "NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:1023)",
            "NVRM: installed in this system is not supported by the",
            "NVRM: NVIDIA 580.95.05 driver release.",
        ),
    ),
    (
        "kernel.driver_start",
        WARN,
        "NVRM: API mismatch: the client 'nvidia-smi' (pid 812) has the version 580.105.08, but this kernel module has",
    ),
    (
        "kernel.driver_start",
        WARN,
        "NVRM: knvlinkUpdatePostRxDetectLinkMask_IMPL: Failed to update Rx Detect Link mask!",
    ),
    ("kernel.driver_start", WARN, "nvidia-nvswitch3: Failed to initialize device : -19"),
    (*NOTHING, lines("NVRM: GPU at PCI:0000:3b:00: GPU-2f1b8c44-0000-1111-2222-333344445555", LOADED)),
    (*NOTHING, "nvidia: module verification failed: signature and/or required key missing - tainting kernel"),
    (*NOTHING, "nvidia-gpu 0000:3b:00.3: i2c timeout error e0000000"),
    (*NOTHING, "nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver for UNIX platforms  580.95.05"),
    (*NOTHING, GPU + "enabling device (0140 -> 0142)"),
    (*NOTHING, 'audit: type=1400 comm="NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus"'),
    (*NOTHING, "python[4821]: NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus."),
]

SXID_RECORDS = [
    (
        *SXID_FAILS,
        lines(
            SXID + "20034, Fatal, Link 30 LTSSM Fault Up",
            SXID + "20034, Severity 1 Engine instance 30 Sub-engine instance 00",
            SXID + "20034, Data {0x50610002, 0x10100030, 0x00000000, 0x10100030, 0x00000000, 0x00000000}",
        ),
    ),
    (
        *SXID_WARNS,
        lines(
            SXID + "12028, Non-fatal, Link 32 egress non-posted PRIV error (First)",
            SXID + "12028, Severity 0 Engine instance 32 Sub-engine instance 00",
            SXID + "12028, Data {0x00000001, 0x00000001, 0x00000000}",
        ),
    ),
    (*SXID_FAILS, SXID + "19084, Fatal, Link 12 AN1 Heartbeat Timeout Error"),
    (
        *SXID_FAILS,
        lines(SXID + "20034, Fatal, Link 30 LTSSM Fault Up", SXID + "20034, Non-fatal, Link 31 LTSSM Fault Up"),
    ),
    (*SXID_FAILS, SXID + "24007, Severity 1 Engine instance 02 Sub-engine instance 00"),
    (*SXID_WARNS, SXID + "24007, Severity 0 Engine instance 02 Sub-engine instance 00"),
    (*SXID_WARNS, SXID + "11012, Non-fatal, Link 03 ingress header ECC limit"),
    (*NOTHING, SXID + "22013, Non-fatal, Link 57 Minion Link DLREQ interrupt"),
    (*SXID_FAILS, SXID + "22011, Minion exterror"),
    (*SXID_FAILS, SXID + "99999, Fatal, something new"),
    (*SXID_WARNS, SXID + "99999, something new"),
    (*NOTHING, lines(SXID + "20034, Fatal, Link 30 LTSSM Fault Up", LOADING, LOADED)),
    (*NOTHING, "nvidia-nvswitch2: open (major=237)"),
    (*NOTHING, "nvidia-nvswitch: Probing device 0000:c3:00.0, Vendor Id = 0x10de, Device Id = 0x22a3, Class = 0x68000"),
]


def ghes(severity: str, number: int = 1, section: str = "memory error", tag: bool = True) -> str:
    """A record of firmware (APEI), whole."""
    mark = f"{{{number}}}{HW}" if tag else HW
    return lines(
        f"{mark}Hardware error from APEI Generic Hardware Error Source: {number}",
        *([f"{mark}It has been corrected by h/w and requires no further action"] if severity == "corrected" else []),
        f"{mark}event severity: {severity}",
        f"{mark} Error 0, type: {severity}",
        f"{mark} fru_text: A1",
        f"{mark}  section_type: {section}",
        f"{mark}  node: 0 card: 0 module: 0 rank: 0",
        f"{mark}  error_type: 2, single-bit ECC",
    )


def amd(first: str, flags: str) -> str:
    """A machine check as Linux decodes it on AMD processors, whole."""
    return lines(
        f"mce: {HW}Machine check events logged",
        f"{HW}{first}",
        f"{HW}CPU:24 (19:11:1) MC17_STATUS[{flags}]: 0x9c2040000000011b",
        f"{HW}Error Addr: 0x0000000132ac4580",
        f"{HW}PPIN: 0x02b2d1c5a7e50098",
        f"{HW}IPID: 0x0000009600150f00, Syndrome: 0x000000000a800500",
        f"{HW}Unified Memory Controller Ext. Error Code: 0, DRAM ECC error.",
        f"{HW}cache level: L3/GEN, tx: GEN, mem-tx: RD",
    )


def intel(status: str, exception: str = "") -> str:
    """A machine check as Linux prints it on Intel processors, whole."""
    return lines(
        f"mce: {HW}CPU 5: Machine Check{exception}: 0 Bank 7: {status}",
        f"mce: {HW}TSC 0 ADDR 3d2b0a000 MISC 200000c0002086",
        f"mce: {HW}PROCESSOR 0:606a6 TIME 1763805600 SOCKET 0 APIC 0 microcode d0003a5",
    )


def edac(driver: str, status: str, last: str) -> str:
    """The same event in the words of an EDAC driver."""
    return lines(
        f"EDAC {driver}: HANDLING MCE MEMORY ERROR",
        f"EDAC {driver}: CPU 0: Machine Check Event: 0x0 Bank 13: {status}",
        f"EDAC {driver}: TSC 0x0",
        f"EDAC {driver}: ADDR 0x3d2b0a000",
        f"EDAC {driver}: MISC 0x200000c0002086",
        f"EDAC {driver}: PROCESSOR 0:0x606a6 TIME 1763805600 SOCKET 0 APIC 0x0",
        last,
    )


WHERE = "on CPU_SrcID#0_MC#2_Chan#1_DIMM#0 (channel:1 slot:0 page:0x3d2b0a offset:0x0 grain:32 syndrome:0x0)"
HARDWARE_RECORDS = [
    (*HW_FAILS, ghes("fatal")),
    (*HW_FAILS, ghes("recoverable")),
    (*HW_WARNS, ghes("corrected")),
    (*NOTHING, ghes("info")),
    (*HW_FAILS, lines(ghes("corrected", 1), ghes("fatal", 2, "PCIe error"))),
    (*HW_WARNS, lines(ghes("corrected", 7), ghes("corrected", 8))),
    (*HW_FAILS, f"{{3}}{HW}event severity: fatal"),
    (*HW_WARNS, lines("BERT: Error records from previous boot:", ghes("fatal", tag=False))),
    (*HW_WARNS, f"mce: {HW}Machine check events logged"),
    (*HW_WARNS, amd("Corrected error, no action required.", "Over|CE|MiscV|AddrV|-|-|SyndV|CECC|-|-|-")),
    (*HW_WARNS, amd("Corrected error, no action required.", "-|CE|MiscV|AddrV|-|-|-|-|CECC|-|-|-|-")),
    (*HW_FAILS, amd("Uncorrected, software restartable error.", "-|UE|MiscV|AddrV|-|-|SyndV|UECC|-|-|-")),
    (*HW_FAILS, amd("Uncorrected, software containable error.", "Over|UE|MiscV|AddrV|PCC|TCC|SyndV|UECC|-|-|-")),
    (*HW_FAILS, amd("Deferred error, no action required.", "-|-|MiscV|AddrV|-|-|SyndV|UECC|Deferred|-|-")),
    (*HW_FAILS, amd("System Fatal error.", "-|UE|MiscV|-|PCC|-|-|-|-|-|-")),
    (*HW_FAILS, f"{HW}CPU:2 (17:31:0) MC4_STATUS[-|UE|-|-|PCC|-|-|-|-]: 0xbe00000000010091"),
    (*HW_WARNS, f"{HW}CPU:2 (17:31:0) MC4_STATUS[-|CE|MiscV|-|AddrV|-|-|CECC]: 0x9c00000000010091"),
    (*HW_FAILS, intel("be00000000800400")),
    (*HW_FAILS, intel("fd80000000100134", " Exception")),
    (*HW_WARNS, intel("8c00004000010090")),
    (*HW_WARNS, intel("cc00008000010090")),
    (*HW_FAILS, lines(intel("8c00004000010090"), intel("bd80000000100134"))),
    (*HW_WARNS, edac("skx MC2", "0x8c00004000010090", f"EDAC MC2: 1 CE memory read error {WHERE}")),
    (*HW_FAILS, edac("i10nm MC2", "0xbd80000000100134", f"EDAC MC2: 1 UE memory read error {WHERE}")),
    (*HW_WARNS, edac("sbridge MC1", "8c00004000010090", f"EDAC MC1: 3 CE memory scrubbing error {WHERE}")),
    (*HW_WARNS, f"EDAC MC0: 1 CE memory read error {WHERE}"),
    (*HW_WARNS, f"EDAC MC0: 32767 CE memory read error {WHERE}"),
    (*HW_FAILS, f"EDAC MC3: 1 UE memory scrubbing error {WHERE}"),
    (*HW_WARNS, "EDAC MC0: 1 CE on mc#0csrow#2channel#1 (csrow:2 channel:1 page:0x132a offset:0x580 grain:64)"),
    (*HW_FAILS, "EDAC MC0: 1 UE on mc#0csrow#2channel#1 (csrow:2 channel:1 page:0x132a offset:0x580 grain:64)"),
    (*HW_FAILS, lines(f"EDAC MC0: 1 CE memory read error {WHERE}", f"EDAC MC0: 1 UE memory read error {WHERE}")),
    (*HW_WARNS, "EDAC DEVICE0: CE: pl310 instance: L2 block: cache 'single bit'"),
    (*HW_FAILS, "mce: Uncorrected hardware memory error in user-access at 3d2b0a000"),
    (*HW_FAILS, "Memory failure: 0x3d2b0a: Sending SIGBUS to python:4821 due to hardware memory corruption"),
    (*HW_WARNS, "RAS: Soft-offlining pfn: 0x3d2b0a"),
    (*HW_FAILS, "NMI: PCI system error (SERR) for reason b1 on CPU 0."),
    (*HW_WARNS, "Uhhuh. NMI received for unknown reason 3d on CPU 11."),
    (*NOTHING, "mce: CPU supports 32 MCE banks"),
    (*NOTHING, "EDAC MC0: Giving out device to module i10nm_edac controller Intel_10nm Socket#0 IMC#0"),
    (*NOTHING, "EDAC MC: Ver: 3.0.0"),
    (*NOTHING, "EDAC amd64: F19h_M10h detected (node 0)."),
    (*NOTHING, "GHES: APEI firmware first mode is enabled by APEI bit and WHEA _OSC."),
    (*NOTHING, "BERT: Total records found: 0"),
    (*NOTHING, "mce: CPU12: Core temperature/speed normal"),
]

PCIE_RECORDS = [
    (*PCIE_FAILS, PORT + "AER: Uncorrected (Fatal) error received: 0000:3b:00.0"),
    (*PCIE_FAILS, PORT + "AER: Multiple Uncorrected (Fatal) error received: 0000:3b:00.0"),
    (*PCIE_FAILS, PORT + "AER: Multiple Uncorrected (Non-Fatal) error received: id=0018"),
    (*PCIE_FAILS, PORT + "AER: Uncorrectable (Fatal) error message received from 0000:3b:00.0"),
    (*PCIE_FAILS, PORT + "AER: Multiple Uncorrectable (Non-Fatal) error message received from 0000:3b:00.0"),
    (
        *PCIE_FAILS,
        lines(
            GPU + "PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (Requester ID)",
            GPU + "  device [10de:20b0] error status/mask=00004000/00000000",
            GPU + "   [14] CmpltTO                (First)",
        ),
    ),
    (*PCIE_FAILS, PORT + "PCIe Bus Error: severity=Uncorrectable (Fatal), type=Inaccessible, (Unregistered Agent ID)"),
    (*PCIE_FAILS, PORT + "AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Data Link Layer, (Receiver ID)"),
    (*PCIE_FAILS, "mlx5_core 0000:a1:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer"),
    (*PCIE_FAILS, PORT + "AER: device recovery failed"),
    (*PCIE_FAILS, PORT + "DPC: containment event, status:0x1f01 source:0x0000"),
    (*PCIE_FAILS, PORT + "DPC: containment event, status:0x1f09, ERR_FATAL received from 0000:3b:00.0"),
    (*PCIE_FAILS, PORT + "DPC: unmasked uncorrectable error detected"),
    (*PCIE_FAILS, PORT + "DPC: ERR_NONFATAL detected"),
    (*PCIE_WARNS, PORT + "AER: Corrected error received: 0000:3b:00.0"),
    (*PCIE_WARNS, PORT + "AER: Multiple Corrected error received: id=0018"),
    (*PCIE_WARNS, PORT + "AER: Multiple Correctable error message received from 0000:3b:00.0"),
    (
        *PCIE_WARNS,
        lines(
            GPU + "PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
            GPU + "  device [10de:20b0] error status/mask=00000001/0000a000",
            GPU + "   [ 0] RxErr                  (First)",
        ),
    ),
    (*PCIE_WARNS, PORT + "PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Transmitter ID)"),
    (*PCIE_WARNS, GPU + "AER: aer_status: 0x00000001, aer_mask: 0x00000000"),
    (
        *PCIE_FAILS,
        lines(GPU + "AER: aer_status: 0x00004000, aer_mask: 0x00000000", GPU + "AER: aer_uncor_severity: 0x00062030"),
    ),
    (*PCIE_FAILS, PORT + "EDR: EDR event received"),
    (*PCIE_WARNS, PORT + "pciehp: Slot(65): Link Down"),
    (*NOTHING, PORT + "DPC: error containment capabilities: Int Msg #0, RPExt+ PoisonedTLP+ SwTrigger+ RP PIO Log 4"),
    (*NOTHING, PORT + "AER: enabled with IRQ 122"),
    (*NOTHING, PORT + "AER: device recovery successful"),
    (*NOTHING, "acpi PNP0A08:00: _OSC: OS now controls [PCIeHotplug SHPCHotplug PME AER PCIeCapability LTR DPC]"),
    (*NOTHING, "pci 0000:3b:00.0: 126.016 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x16 link"),
]

IOMMU_RECORDS = [
    (
        *IOMMU_FAILS,
        lines(
            "DMAR: DRHD: handling fault status reg 2",
            "DMAR: [DMA Read NO_PASID] Request device [3b:00.0] fault addr 0x7f3c0000 [fault reason 0x06] PTE Read",
        ),
    ),
    (*IOMMU_FAILS, "DMAR: [DMA Write] Request device [3b:00.0] fault addr ffff0000 [fault reason 05] PTE Write access"),
    (*IOMMU_FAILS, "DMAR: [DMA Write NO_PASID] Request device [0x3b:0x00.0] fault addr 0x0 [fault reason 0x05] PTE"),
    (*IOMMU_WARNS, "DMAR: [DMA Read NO_PASID] Request device [02:00.0] fault addr 0x1000 [fault reason 0x06] PTE Read"),
    (*IOMMU_FAILS, GPU + "AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0021 address=0xd0000000 flags=0x0000]"),
    (*IOMMU_FAILS, "AMD-Vi: Event logged [IO_PAGE_FAULT device=3b:00.0 domain=0x000a address=0xfff flags=0x0020]"),
    (*IOMMU_FAILS, "AMD-Vi: Event logged [IO_PAGE_FAULT device=0000:3b:00.0 domain=0x000a address=0xff flags=0x0]"),
    (*IOMMU_WARNS, "ahci 0000:02:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 address=0x0 flags=0x0000]"),
    (*IOMMU_WARNS, "AMD-Vi: Completion-Wait loop timed out"),
    (*IOMMU_FAILS, "arm-smmu-v3 arm-smmu-v3.9.auto: event: F_TRANSLATION client: 0000:3b:00.0 sid: 0x100 ssid: 0x0"),
    (
        *NOTHING,
        lines(
            "DMAR: [DMA Read NO_PASID] Request device [3b:00.0] fault addr 0x0 [fault reason 0x06] PTE Read access",
            NO_MORE,
        ),
    ),
    (*NOTHING, "DMAR: Host address width 46"),
    (*NOTHING, "DMAR: [Firmware Bug]: RMRR entry for device 3b:00.0 is broken - applying workaround"),
    (*NOTHING, "AMD-Vi: Interrupt remapping enabled"),
]

HANG_RECORDS = [
    (*LOCKED, "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:4821]"),
    (*LOCKED, "NMI watchdog: BUG: soft lockup - CPU#41 stuck for 23s! [kworker/u130:2:9912]"),
    (*LOCKED, "watchdog: BUG: soft lockup - CPU#3 Utilization every 4s during lockup:"),
    (*LOCKED, "NMI watchdog: Watchdog detected hard LOCKUP on cpu 12"),
    (*LOCKED, "watchdog: Watchdog detected hard LOCKUP on cpu 12"),
    (*LOCKED, "watchdog: CPU12: Watchdog detected hard LOCKUP on cpu 7"),
    (*HUNG, "INFO: task nvidia-smi:4711 blocked for more than 120 seconds."),
    (*HUNG, "INFO: task kworker/u8:0 - wq:123 blocked for more than 122 seconds."),
    (*HUNG, "INFO: task python3:99 blocked in I/O wait for more than 120 seconds."),
    (
        *STALLED,
        lines(
            "rcu: INFO: rcu_sched self-detected stall on CPU",
            "rcu:         12-....: (59999 ticks this GP) idle=c3e/1/0x4000000000000002 softirq=12/12 fqs=14999",
        ),
    ),
    (*STALLED, "INFO: rcu_sched self-detected stall on CPU"),
    (*STALLED, "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:"),
    (
        *STALLED,
        "rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 3-...D } 21003 jiffies s: 401 root: 0x8/.",
    ),
    (*STALLED, "rcu: rcu_sched kthread starved for 60002 jiffies! g1 f0x0 RCU_GP_WAIT_FQS(5) ->state=0x0 ->cpu=3"),
    (*STALLED, "BUG: workqueue lockup - pool cpus=1 node=0 flags=0x0 nice=0 stuck for 43s!"),
    (*NOTHING, "NMI watchdog: Enabled. Permanently consumes one hw-PMU counter."),
    (*NOTHING, "rcu: Hierarchical RCU implementation."),
    (*NOTHING, "rcu: \tRCU restricting CPUs from NR_CPUS=8192 to nr_cpu_ids=64."),
    (*NOTHING, "workqueue: nv_drm_fence [nvidia] hogged CPU for >10000us 4 times, consider switching to WQ_UNBOUND"),
    (*NOTHING, "perf: interrupt took too long (2501 > 2500), lowering kernel.perf_event_max_sample_rate to 79000"),
    (
        *OOM,
        lines(
            "python invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0",
            "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,task=python,pid=4821,uid=1000",
            "Out of memory: Killed process 4821 (python) total-vm:412331kB, anon-rss:390112kB, UID:1000",
        ),
    ),
    (*OOM, "Memory cgroup out of memory: Killed process 4821 (python) total-vm:412331kB"),
    (*OOM, "Out of memory: Kill process 4821 (python) score 912 or sacrifice child"),
    (*NOTHING, "oom_reaper: reaped process 4821 (python), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB"),
    (*OOPS, "BUG: kernel NULL pointer dereference, address: 0000000000000048"),
    (*OOPS, lines("BUG: unable to handle page fault for address: ffffb2a40c000000", "Oops: 0000 [#1] SMP NOPTI")),
    (*OOPS, "general protection fault, probably for non-canonical address 0xdead000000000108: 0000 [#1] SMP"),
    (*OOPS, "general protection fault: 0000 [#1] SMP PTI"),
    (*OOPS, "kernel BUG at mm/slub.c:4023!"),
    (*OOPS, "invalid opcode: 0000 [#1] SMP NOPTI"),
    (*TAINT, "WARNING: CPU: 3 PID: 4821 at /var/lib/dkms/nvidia/580.95.05/build/nvidia/nv.c:4102 nv_close+0x1a/0x40"),
    (
        *NOTHING,
        "traps: python[4821] general protection fault ip:7f33 sp:7ffd error:0 in libcuda.so.580.95.05[7f00+1000]",
    ),
    (*NOTHING, "python[4821]: segfault at 0 ip 00007f33 sp 00007ffd error 4 in libtorch_cuda.so[7f00+1000]"),
    (*NOTHING, "UBSAN: array-index-out-of-bounds in /var/lib/dkms/nvidia/580.95.05/build/nvidia-uvm/uvm_pmm_gpu.c"),
]

DISK_RECORDS = [
    (*NVME_FAILS, "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10"),
    (
        *NOTHING,
        lines(
            "nvme nvme0: controller is down; will reset: CSTS=0x3, PCI_STATUS=0x10",
            "nvme nvme0: 32/0/0 default/read/poll queues",
        ),
    ),
    (
        *NVME_FAILS,
        lines(
            "nvme nvme1: controller is down; will reset: CSTS=0x3, PCI_STATUS=0x10",
            "nvme nvme0: 32/0/0 default/read/poll queues",
        ),
    ),
    (*NVME_FAILS, "nvme nvme0: Removing after probe failure status: -19"),
    (*NVME_FAILS, "nvme nvme1: Device not ready; aborting reset, CSTS=0x1"),
    (*NVME_FAILS, "nvme0n1: I/O Error (sct 0x2 / sc 0x81) MORE DNR"),
    (*NVME_FAILS, "nvme0n1: Read(0x2) @ LBA 931135, 8 blocks, Unrecovered Read Error (sct 0x2 / sc 0x81) DNR"),
    (*NVME_FAILS, "critical medium error, dev nvme0n1, sector 931135 op 0x0:(READ) flags 0x80700 phys_seg 1"),
    (*NVME_FAILS, "blk_update_request: I/O error, dev nvme1n1, sector 2048 op 0x1:(WRITE) flags 0x800 phys_seg 1"),
    (*NVME_WARNS, "nvme nvme0: I/O 731 QID 4 timeout, aborting"),
    (
        *NVME_WARNS,
        "nvme nvme0: I/O tag 258 (1102) opcode 0x1 (I/O Cmd) QID 5 timeout, aborting req_op:WRITE(1) size:4096",
    ),
    (*NVME_WARNS, "nvme nvme0: I/O 12 QID 0 timeout, reset controller"),
    (*NOTHING, "nvme nvme0: pci function 0000:41:00.0"),
    (*NOTHING, "nvme nvme0: Shutdown timeout set to 10 seconds"),
    (
        *FS_FAILS,
        lines(
            "EXT4-fs error (device nvme0n1p2): ext4_find_entry:1455: inode #2097153: comm python: reading directory",
            "EXT4-fs (nvme0n1p2): Remounting filesystem read-only",
        ),
    ),
    (*FS_FAILS, "EXT4-fs (sda2): Remounting filesystem read-only"),
    (*FS_FAILS, "EXT4-fs (sda2): I/O error while writing superblock"),
    (*FS_FAILS, "Aborting journal on device nvme0n1p2-8."),
    (*FS_FAILS, "XFS (nvme1n1): Filesystem has been shut down due to log error (0x2)."),
    (*FS_FAILS, "XFS (dm-0): log I/O error -5"),
    (
        *FS_FAILS,
        "XFS (dm-0): Corruption of in-memory data (0x8) detected at xfs_defer_finish. Shutting down filesystem.",
    ),
    (*FS_FAILS, "XFS (sdb1): Metadata corruption detected at xfs_agf_verify+0x1c5/0x1d0 [xfs], xfs_agf block 0x1"),
    (*FS_FAILS, "BTRFS: error (device sda2) in btrfs_commit_transaction:2494: errno=-5 IO failure"),
    (*FS_FAILS, "BTRFS info (device sda2): forced readonly"),
    (*FS_FAILS, "XFS (dm-0): Unmount and run xfs_repair"),
    (*FS_FAILS, "md/raid0:md0: Disk failure on nvme2n1 detected, failing array."),
    (*FS_WARNS, "md/raid1:md127: Disk failure on sdc, disabling device."),
    (*FS_WARNS, "md/raid10:md3: Disk failure on nvme1n1p2, disabling device."),
    (*NOTHING, "md/raid1:md127: active with 2 out of 2 mirrors"),
    (*FS_WARNS, "EXT4-fs warning (device sda1): ext4_end_bio:344: I/O error 10 writing to inode 12 starting block 9"),
    (*NOTHING, "EXT4-fs warning (device sda1): ext4_dirblock_csum_verify:377: No space for directory leaf checksum."),
    (*FS_WARNS, "BTRFS info (device sda2): bdev /dev/sda2 errs: wr 0, rd 0, flush 0, corrupt 12, gen 0"),
    (*FS_WARNS, "BTRFS warning (device sda2): csum failed root 5 ino 257 off 0 csum 0x1 expected csum 0x2 mirror 1"),
    (*FS_WARNS, "EXT4-fs (sda1): warning: mounting fs with errors, running e2fsck is recommended"),
    (*FS_WARNS, "EXT4-fs (sda1): error count since last fsck: 3"),
    (*FS_WARNS, "I/O error, dev sdc, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0"),
    (*NOTHING, "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Opts: errors=remount-ro"),
    (*NOTHING, "EXT4-fs (nvme0n1p2): re-mounted. Opts: errors=remount-ro. Quota mode: none."),
    (*NOTHING, "XFS (nvme1n1): Mounting V5 Filesystem"),
    (*NOTHING, "XFS (nvme1n1): Unmounting Filesystem"),
]

REVIEW_RECORDS = [
    (*START, "NVRM: nvGpuOpsReportFatalError: uvm encountered global fatal error 0x60, requiring os reboot."),
    (*START, "NVRM: uvm encountered global fatal error 0x60, requiring os reboot to recover."),
    (
        *START,
        lines(
            "NVRM: The NVIDIA Tesla K40m GPU installed in this system is",
            "NVRM:  supported through the NVIDIA 470.xx Legacy drivers. Please",
            "NVRM:  visit http://www.nvidia.com/object/unix.html for more",
            "NVRM:  information.  The 580.95.05 NVIDIA driver will ignore",
            "NVRM:  this GPU.  Continuing probe...",
        ),
    ),
    (*HW_FAILS, "MCE: Killing python3:24502 due to hardware memory corruption fault at 7f5be2e5a010"),
    (*HW_WARNS, "CMCI storm detected: switching to poll mode"),
    (*HW_WARNS, "mce: CMCI storm detected: switching to poll mode"),
    (*HW_WARNS, "mce: CPU17 BANK13 CMCI storm detected"),
    (*NOTHING, "mce: CPU17 BANK13 CMCI storm subsided"),
    (*TAINT, "WARNING: drivers/iommu/dma-iommu.c:853 at __iommu_dma_unmap+0x16c/0x180, CPU#3: python3/1234"),
    (*TAINT, "WARNING: at nv_drm_revoke_modeset_permission+0x1f/0x30, CPU#12: Xorg/911"),
    (*NOTHING, "WARNING: Some CPUs have a different microcode revision"),
]

NIC = "mlx5_core 0000:5e:00.0: "
NETWORK_RECORDS = [
    (*NETWORK_FAILS, NIC + "poll_health:825:(pid 0): device's health compromised - reached miss count"),
    (*NETWORK_FAILS, "mlx5_core 0000:5e:00.0 ib0: poll_health:825:(pid 0): device's health compromised"),
    (*NETWORK_FAILS, NIC + "poll_health:840:(pid 0): Fatal error 3 detected"),
    (
        *NETWORK_FAILS,
        lines(
            NIC + "print_health_info:431:(pid 0): Health issue observed, irisc not responding, severity(2) CRITICAL:",
            NIC + "print_health_info:435:(pid 0): assert_var[0] 0x00000000",
        ),
    ),
    (*NETWORK_WARNS, NIC + "print_health_info:431:(pid 0): Health issue observed, EQ error, severity(4) WARNING:"),
    (*NETWORK_FAILS, NIC + "print_health_info:440:(pid 0): synd 0x8: unrecoverable hardware error"),
    (*NETWORK_FAILS, NIC + "synd 0xb: HW fatal error"),
    (
        *NETWORK_FAILS,
        NIC + "wait_func:1195:(pid 90211): QUERY_VPORT_STATE(0x750) timeout. Will cause a leak of a command",
    ),
    (
        *NETWORK_FAILS,
        NIC
        + "cb_timeout_handler:990:(pid 77): cmd[3]: DESTROY_QP(0x501) Async, timeout. Will cause a leak of a command",
    ),
    (*NETWORK_FAILS, NIC + "print_health_info:425:(pid 0): PCI slot is unavailable"),
    (*NETWORK_FAILS, NIC + "mlx5_health_try_recover:330:(pid 9): health recovery failed"),
    (*NETWORK_FAILS, NIC + "mlx5_load_one failed with error code -110"),
    (*NETWORK_FAILS, "mlx5_core: probe of 0000:5e:00.0 failed with error -12"),
    (*NETWORK_FAILS, NIC + "probe with driver mlx5_core failed with error -12"),
    (
        *NOTHING,
        lines(
            NIC + "poll_health:840:(pid 0): Fatal error 1 detected",
            NIC + "mlx5_health_try_recover:334:(pid 9): health recovery succeeded",
        ),
    ),
    (
        *NETWORK_FAILS,
        lines(
            NIC + "poll_health:840:(pid 0): Fatal error 1 detected",
            "mlx5_core 0000:5f:00.0: mlx5_health_try_recover:334:(pid 9): health recovery succeeded",
        ),
    ),
    (
        *NETWORK_FAILS,
        lines(
            NIC + "mlx5_health_try_recover:334:(pid 9): health revovery succeded",
            NIC + "poll_health:840:(pid 0): Fatal error 1 detected",
        ),
    ),
    (*NOTHING, lines(NIC + "mlx5_load_one failed with error code -110", NIC + "firmware version: 28.39.1002")),
    (*NETWORK_FAILS, lines(NIC + "firmware version: 28.39.1002", NIC + "mlx5_load_one failed with error code -110")),
    (*NETWORK_WARNS, NIC + "mlx5_pcie_event:299:(pid 9): Detected insufficient power on the PCIe slot (25W)."),
    (*NETWORK_WARNS, NIC + "Port module event[error]: module 1, Cable error, High Temperature"),
    (*NETWORK_WARNS, NIC + "temp_warn:310:(pid 0): High temperature on sensors with bit set 0x0 0x1"),
    (*NETWORK_WARNS, NIC + "cq_err_event_notifier:529:(pid 9422): CQ error on CQN 0x411, syndrome 0x1"),
    (*NETWORK_WARNS, "mlx5_core 0000:5e:00.0 ens3f0: TX timeout detected"),
    (*NETWORK_WARNS, "NETDEV WATCHDOG: ens5f1 (ice): transmit queue 7 timed out"),
    (*NETWORK_WARNS, "NETDEV WATCHDOG: CPU: 12: transmit queue 7 timed out 5376 ms"),
    (*NETWORK_WARNS, "ice 0000:c1:00.0 ens5f1: NETDEV WATCHDOG: CPU: 12: transmit queue 7 timed out 5376 ms"),
    (*NOTHING, NIC + "Port module event: module 0, Cable plugged"),
    (*NOTHING, NIC + "mlx5_cmd_out_err:838:(pid 2): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2)"),
    (*NOTHING, NIC + "wait_func_handle_exec_timeout:1113:(pid 3): cmd[0]: CREATE_CQ(0x400) recovered after timeout"),
    (*NOTHING, "mlx5_core 0000:5e:00.0 ens3f0: Link down"),
    (*REMOTE, "nfs: server filer7 not responding, still trying"),
    (*REMOTE, lines(*["nfs: server 10.7.0.4 not responding, timed out"] * 3)),
    (*NOTHING, lines("nfs: server filer7 not responding, still trying", "nfs: server filer7 OK")),
    (*REMOTE, lines("nfs: server filer7 not responding, still trying", "nfs: server filer8 OK")),
    (*REMOTE, lines("nfs: server filer7 OK", "nfs: server filer7 not responding, still trying")),
    (
        *REMOTE,
        "Lustre: lfs-OST0003-osc-ffff8a1200: Connection to lfs-OST0003 (at 10.7.0.9@o2ib) was lost; in progress",
    ),
    (
        *NOTHING,
        lines(
            "Lustre: lfs-OST0003-osc-ffff8a1200: Connection to lfs-OST0003 (at 10.7.0.9@o2ib) was lost; in progress",
            "Lustre: lfs-OST0003-osc-ffff8a1200: Connection restored to lfs-OST0003 (at 10.7.0.9@o2ib)",
        ),
    ),
    (
        *REMOTE,
        "LustreError: 167-0: lfs-MDT0000-mdc-ffff8a1200: This client was evicted by lfs-MDT0000; in progress",
    ),
    (*REMOTE, "ceph: mds0 hung"),
    (*NOTHING, lines("ceph: mds0 hung", "ceph: mds0 came back")),
    (*REMOTE, "CIFS: VFS: \\\\filer7 has not responded in 180 seconds. Reconnecting..."),
    (*NOTHING, "nfs: Deprecated parameter 'intr'"),
]

FORM_RECORDS = [
    (*NOTHING, "UBSAN: array-index-out-of-bounds in /usr/src/nvidia-570.86.10/nvidia-drm/nvidia-drm-crtc.c:512:9"),
    (*TAINT, "UBSAN: shift-out-of-bounds in drivers/net/ethernet/intel/ice/ice_main.c:88:12"),
    (*TAINT, "UBSAN: Undefined behaviour in net/core/skbuff.c:1517:25"),
    (*OOM, "python3: page allocation failure: order:5, mode:0x40cc0(GFP_KERNEL|__GFP_COMP), nodemask=(null)"),
    (*OOM, "kworker/u8:0: page allocation failure: order:4, mode:0x820(GFP_ATOMIC)"),
    (*OOM, "pt_data_worker: page allocation stalls for 10428ms, order:0, mode:0x14200ca(GFP_HIGHUSER_MOVABLE)"),
    (*OOM, "swapper/3: page allocation failure. order:1, mode:0x20"),
    (
        *IOMMU_FAILS,
        lines(
            "dmar: DRHD: handling fault status reg 2",
            "dmar: DMAR:[DMA Read] Request device [3b:00.0] fault addr 7d3f0000",
            "DMAR:[fault reason 06] PTE Read access is not set",
        ),
    ),
    (
        *IOMMU_FAILS,
        lines(
            "DMAR: DMAR:[DMA Write] Request device [3b:00.0] fault addr ff3f0000 ",
            "  DMAR:[fault reason 05] PTE Write access is not set",
        ),
    ),
    (*IOMMU_FAILS, "DMAR: DMAR:[DMA read] Request device [3b:00.0]fault addr fffff000"),
    (
        *IOMMU_FAILS,
        "DMAR: [DMA Read] Request device [3b:00.0] PASID ffffffff fault addr 76406000 [fault reason 06] PTE",
    ),
    (*IOMMU_WARNS, "dmar: DMAR:[DMA Write] Request device [02:00.0] fault addr 7d3f0000"),
    (*IOMMU_FAILS, "dmar: INTR-REMAP: Request device [[3b:00.0] fault index 22"),
    (*IOMMU_FAILS, "INTR-REMAP: Request device [[3b:00.0] fault index 22"),
    (*NOTHING, "DMAR-IR: Enabled IRQ remapping in x2apic mode"),
    (*NVME_FAILS, "print_req_error: I/O error, dev nvme2n1, sector 81920 flags 0"),
    (*FS_WARNS, "print_req_error: I/O error, dev sdd, sector 81920"),
    (*FS_WARNS, "end_request: critical medium error, dev sdd, sector 81920"),
    (*OOPS, "divide error: 0000 [#1] SMP PTI"),
    (*OOPS, "int3: 0000 [#2] PREEMPT SMP NOPTI"),
    (*OOPS, "general protection fault for non-canonical address 0x5deece66d0000: 0000 [#1] SMP NOPTI"),
    (*OOPS, "general protection fault, maybe for address 0x8: 0000 [#1] SMP NOPTI"),
    (*OOPS, "segment-related general protection fault: e030 [#1] SMP NOPTI"),
    (*OOPS, "BUG: TASK stack guard page was hit at 00000000c9aa55d2 (stack is 00000000b9aa11d2..00000000a9aa11d2)"),
    (*OOPS, "BUG: spinlock bad magic on CPU#3, python3/8812"),
    (*OOPS, "BUG: spinlock recursion on CPU#3, python3/8812"),
    (*TAINT, "BUG: workqueue leaked lock or atomic: kworker/0:1/0x00000000/353"),
    (*TAINT, "BUG: using smp_processor_id() in preemptible [00000000] code: python3/8812"),
    (*TAINT, "BUG: a message that no kernel of today writes"),
    (*TAINT, "WARNING: at lib/dma-debug.c:800 check_unmap+0x9c/0x67f()"),
    (*TAINT, "WARNING: [refs < 0] net/core/dev.c:3026 at netdev_run_todo+0x44c/0xbc0, CPU#7: kworker/u8:0/1040"),
    (*NOTHING, "WARNING: Spectre v2 mitigation leaves CPU vulnerable to RETBleed attacks, data leaks possible!"),
    (*NOTHING, "traps: python3[4821] trap divide error ip:7f33 sp:7ffd error:0 in libtorch_cpu.so[7f00+1000]"),
]

LOG_RECORDS = [
    (*NOT_WHOLE, "systemd-journald[812]: Missed 412 kernel messages"),
    (*NOT_WHOLE, "systemd-journald[812]: /dev/kmsg buffer overrun, some messages lost."),
    (*NOT_WHOLE, "systemd-journald[812]: Suppressed 1203 messages from init.scope"),
    (*NOT_WHOLE, "dmar_fault: 51233 callbacks suppressed"),
    (*NOT_WHOLE, "amd_iommu_report_page_fault: 13 callbacks suppressed"),
    (*NOT_WHOLE, "printk: 5 messages suppressed."),
    (*NOTHING, "show_signal_msg: 12 callbacks suppressed"),
    (*NOTHING, "net_ratelimit: 30 callbacks suppressed"),
    (*NOTHING, "audit_printk_skb: 3 callbacks suppressed"),
    (*NOT_WHOLE, "** 129 printk messages dropped **"),
    (*NOTHING, "kauditd_printk_skb: 48 callbacks suppressed"),
    (*NOTHING, "printk: systemd: 27 output lines suppressed due to ratelimiting"),
    (*NOTHING, "systemd-journald[812]: Received client request to flush runtime journal."),
    (*NOTHING, "systemd-journald[812]: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."),
]

START_RECORDS = [
    *[(*START, log) for log, _remedy, _action, _shown in CAUSES.values()],
    ("kernel.driver_start", WARN, REFUSED),
    ("kernel.gpu_reset", FAIL, "NVRM: GPU0 _kgspRpcPmuHalt: Received signal from GSP that PMU has halted."),
]

RECORDS = [
    *GPU_RECORDS,
    *START_RECORDS,
    *SXID_RECORDS,
    *HARDWARE_RECORDS,
    *PCIE_RECORDS,
    *IOMMU_RECORDS,
    *HANG_RECORDS,
    *DISK_RECORDS,
    *REVIEW_RECORDS,
    *NETWORK_RECORDS,
    *FORM_RECORDS,
    *LOG_RECORDS,
]

# For the gate: (the node's verdict, lines). Nobody has to act on any of them.
KILLED_RECORDS = [
    ("PASS", XID + "45, pid=4821, name=python, Ch 0000000a"),
    ("PASS", lines(*[XID + f"45, pid='<unknown>', name=<unknown>, Ch {n:08x}" for n in range(16)])),
    ("WARN", lines(XID + "31, pid=9, name=train, Ch 00000008, intr 0", XID + "45, pid=9, name=train, Ch 00000008")),
    ("WARN", lines(XID + "13, pid=9, name=train, Graphics Exception", XID + "43, pid=9, name=train, Ch 00000008")),
    ("WARN", XID + "43, pid=4821, name=python, Ch 00000010"),
    ("WARN", "Memory cgroup out of memory: Killed process 812 (python3) total-vm:1kB, anon-rss:1kB, UID:1000"),
]
CORRECTED_RECORDS = [
    ("WARN", "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x30aa905)"),
    (
        "WARN",
        lines(
            "mce: " + HW + "Machine check events logged",
            HW + "Corrected error, no action required.",
            HW + "CPU:2 (19:11:1) MC18_STATUS[Over|CE|MiscV|AddrV|-|-|SyndV|CECC|-|-|-]: 0xdc2040000000011b",
            "EDAC MC0: 1 CE on mc#0csrow#1channel#3 (csrow:1 channel:3 page:0x1 offset:0x1 grain:64 syndrome:0x1)",
        ),
    ),
    (
        "WARN",
        lines(
            "{2}" + HW + "Hardware error from APEI Generic Hardware Error Source: 2",
            "{2}" + HW + "It has been corrected by h/w and requires no further action",
            "{2}" + HW + "event severity: corrected",
            "{2}" + HW + " Error 0, type: corrected",
            "{2}" + HW + "  section_type: memory error",
        ),
    ),
    ("WARN", "mce: " + HW + "Machine check events logged"),
    ("WARN", PORT + "AER: Corrected error received: 0000:3b:00.0"),
]
RESET_RECORDS = [
    ("PASS", lines(DBE, ASKS_RESET, NO_MORE)),
    ("PASS", lines(GSP, ASKS_RESET, XID + "45, pid=8113, name=python3, Ch 00000003", NO_MORE)),
    ("PASS", lines(GSP, GPU + "resetting", GPU + "reset done")),
    ("PASS", lines(DBE, LOADING, LOADED)),
    ("WARN", lines(DBE, XID + "63, Row Remapper: New row marked for remapping", NO_MORE, XID + "43, pid=9, name=t")),
]
# (the check that closes the gate, the command that its sentence names, lines)
UNMENDED_RECORDS = [
    ("kernel.xid", "nvidia-smi --gpu-reset -i 0000:3b:00.0", DBE),
    ("kernel.xid", "nvidia-smi --gpu-reset -i 0000:3b:00.0", lines(GSP, ASKS_RESET)),
    ("kernel.xid", "nvidia-smi --gpu-reset -i 0000:3b:00.0", lines(DBE, NO_MORE, DBE)),
    ("kernel.xid", "reboot the node", lines(DBE, ASKS_REBOOT)),
    (
        "kernel.xid",
        "--gpu-reset -i 0000:3b:00.0",
        DBE + " in the framebuffer at physAddr 0xe9b9107e0 partition 3, subpartition 0." + " more" * 40,
    ),
    (
        "kernel.sxid",
        "gpu-doctor --acknowledge kernel.sxid:20034@0000:c3:00 --reason",
        SXID + "20034, Fatal, Link 48 LTSSM Fault Up",
    ),
    ("kernel.nvme", "nvme smart-log /dev/nvme3", "nvme nvme3: Removing after probe failure status: -19"),
    (
        "kernel.hardware_errors",
        "ipmitool sel list",
        "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
    ),
]
