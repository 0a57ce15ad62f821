# SPDX-License-Identifier: Apache-2.0
"""What the kernel and NVIDIA's driver write about lost GPUs, PCIe and the IOMMU; `rows_start`: about starts."""

from ...verdict.check import POWER_CYCLE, RESET
from .rows import AT, BOOT, CORRECTED, DEVICE, DRIVER_AT, UNCORRECTED, WATCH, Row

NV = "open-gpu-kernel-modules nv.c, nv-pci.c, osinit.c"
AER = "drivers/pci/pcie/aer.c"
DPC = "drivers/pci/pcie/dpc.c"
PORT = r"(?:" + DRIVER_AT + r")?(?:AER: )?"
UNCOR = r"Uncorrect(?:ed|able) \((?:Non-)?Fatal\)"

DEVICE_ROWS = (
    Row(
        "gpu_lost",
        "kernel.gpu_lost",
        UNCORRECTED,
        DEVICE,
        r"(?:NVRM|nvidia)\b(?!: Xid).*(?:fallen off the bus|GPU lost from the bus|NV_ERR_GPU_IS_LOST)",
        POWER_CYCLE,
        NV,
    ),
    Row(
        "gpu_lost",
        "kernel.gpu_lost",
        UNCORRECTED,
        DEVICE,
        r"nvidia " + AT + r": .*(?:device inaccessible|config space inaccessible|giving up)",
        POWER_CYCLE,
        "drivers/pci/pci.c",
    ),
    Row(
        "pcie", "kernel.pcie_errors", UNCORRECTED, DEVICE, PORT + "PCIe Bus Error: severity=Uncorrect", POWER_CYCLE, AER
    ),
    Row(
        "pcie",
        "kernel.pcie_errors",
        UNCORRECTED,
        DEVICE,
        PORT + r"(?:Multiple )?" + UNCOR + r" error (?:message )?received",
        POWER_CYCLE,
        AER,
    ),
    Row(
        "pcie",
        "kernel.pcie_errors",
        UNCORRECTED,
        DEVICE,
        PORT + r"(?:aer_uncor_severity:|device recovery failed|subordinate device reset failed|can't recover)",
        POWER_CYCLE,
        AER,
    ),
    Row(
        "pcie",
        "kernel.pcie_errors",
        UNCORRECTED,
        DEVICE,
        r"(?:" + DRIVER_AT + r")?(?:EDR: EDR event|DPC: (?:containment event|unmasked uncorrectable error"
        r"|ERR_(?:NON)?FATAL|RP PIO error))",
        POWER_CYCLE,
        DPC,
    ),
    Row(
        "pcie_corrected",
        "kernel.pcie_errors",
        CORRECTED,
        DEVICE,
        PORT + r"(?:PCIe Bus Error: severity=Correct(?:ed|able)|aer_status: "
        r"|(?:Multiple )?Correct(?:ed|able) error (?:message )?received)",
        "",
        AER,
    ),
    Row(
        "pcie_slot",
        "kernel.pcie_errors",
        WATCH,
        DEVICE,
        DRIVER_AT + r"pciehp: Slot\(\S+\): (?:Link Down|Card not present)",
        "",
        "drivers/pci/hotplug/pciehp_ctrl.c",
    ),
    Row(
        "iommu",
        "kernel.iommu",
        UNCORRECTED,
        DEVICE,
        # Kernels before 4.4 name the driver twice, those before 5.x in lower case; the reason is on a separate line.
        r"(?:(?:dmar|DMAR): ?)?(?:DMAR: ?\[(?:DMA (?:[Rr]ead|[Ww]rite)|INTR-REMAP)[^\]]*\]"
        r"|INTR-REMAP:) Request device ",
        RESET,
        "drivers/iommu/intel/dmar.c; before 4.12: drivers/iommu/dmar.c",
    ),
    Row(
        "iommu",
        "kernel.iommu",
        UNCORRECTED,
        DEVICE,
        r"(?:" + DRIVER_AT + r")?AMD-Vi: Event logged \[(?:IO_PAGE_FAULT|DEV_TAB|INVALID_DEVICE|ILLEGAL_DEV)",
        RESET,
        "drivers/iommu/amd/iommu.c",
    ),
    Row(
        "iommu_host",
        "kernel.iommu",
        WATCH,
        BOOT,
        r"AMD-Vi: (?:Completion-Wait loop timed out|Event logged)",
        "",
        "drivers/iommu/amd/iommu.c",
    ),
    Row(
        "iommu",
        "kernel.iommu",
        UNCORRECTED,
        DEVICE,
        r"arm-smmu-v3 \S+: event: (?:F_|C_BAD)\S* client: ",
        RESET,
        "drivers/iommu/arm/arm-smmu-v3",
    ),
)
