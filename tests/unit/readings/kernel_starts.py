"""Kernel logs of drivers that did not start: the line with the cause, and what follows it."""

from __future__ import annotations

from gpuwright.verdict.check import DRAIN, POWER_CYCLE, REBOOT, RESET

AT = "0000:3b:00.0"
GPU = f"NVRM: GPU {AT}: "
FAILED = f"{GPU}RmInitAdapter failed! (0x24:0x1c:1436)\n{GPU}rm_init_adapter failed, device minor number 0"
NONE = (
    f"nvidia {AT}: probe with driver nvidia failed with error -1\n"
    "NVRM: The NVIDIA probe routine failed for 1 device(s).\nNVRM: None of the NVIDIA devices were initialized."
)
OPEN_CANNOT = (
    f"NVRM: The NVIDIA GPU {AT} (PCI ID: 10de:1db4)\nNVRM: installed in this system is not supported by open\n"
    "NVRM: nvidia.ko because it does not include the required GPU\nNVRM: System Processor (GSP).\n"
    "NVRM: Please see the 'Open Linux Kernel Modules' and 'GSP\nNVRM: Firmware' sections in the driver README"
)
LEGACY = (
    "NVRM: The NVIDIA Tesla V100-SXM2-16GB GPU installed in this system is\n"
    "NVRM:  supported through the NVIDIA 580.xx Legacy drivers. Please\nNVRM:  visit www.nvidia.com for more\n"
    "NVRM:  information.  The 595.71.05 NVIDIA driver will ignore\nNVRM:  this GPU.  Continuing probe...\n"
    "NVRM: No NVIDIA GPU found."
)
NEEDS_OPEN = (
    f"NVRM: The NVIDIA GPU {AT} (PCI ID: 10de:2901)\n"
    "NVRM: installed in this system requires use of the NVIDIA open kernel modules."
)
OLD_DRIVER = (
    f"NVRM: The NVIDIA GPU {AT} (PCI ID: 10de:2330)\nNVRM: installed in this system is not supported by the\n"
    "NVRM: NVIDIA 470.256.02 driver release.\nNVRM: Please see 'Appendix A - Supported NVIDIA GPU Products'"
)
OTHER_HOLDS = (
    "NVRM: The NVIDIA probe routine was not called for 1 device(s).\n"
    "NVRM: This can occur when another driver was loaded and \nNVRM: obtained ownership of the NVIDIA device(s).\n"
    "NVRM: No NVIDIA devices probed."
)
MISMATCH = "NVRM: API mismatch: the client 'nvidia-smi' (pid 9) has the version 580.105.08, but this kernel module has"
GFW = (
    "NVRM: GPU0 kgspWaitForGfwBootOk_TU102: failed to wait for GFW boot complete: 0x65 VBIOS version 94.02.59.00.05\n"
    "NVRM: GPU0 kgspWaitForGfwBootOk_TU102: (the GPU may be in a bad state and may need to be reset)"
)
WPR2 = "NVRM: _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP"
FIRMWARE = f"nvidia {AT}: Direct firmware load for nvidia/580.95.05/gsp_ga10x.bin failed with error -2"
REFUSED = "Loading of unsigned module is rejected"

# (log, remedy, words of the action, words of the line that is shown); each log also has what follows such a cause.
CAUSES = {
    "cables": (
        f"{GPU}GPU does not have the necessary power cables connected.\n{FAILED}",
        POWER_CYCLE,
        "cable",
        "cable",
    ),
    "card before Turing": (f"{OPEN_CANNOT}\n{NONE}", DRAIN, "system_driver_flavour: proprietary", "supported by open"),
    "legacy branch": (LEGACY, DRAIN, "branch 580", "580.xx Legacy"),
    "needs the open module": (f"{NEEDS_OPEN}\n{NONE}", DRAIN, "system_driver_flavour: open", "requires use"),
    "driver too old": (f"{OLD_DRIVER}\n{NONE}", DRAIN, "branch", "not supported by the"),
    "vfio-pci": (f"NVRM: GPU {AT} is already bound to vfio-pci.\n{OTHER_HOLDS}", DRAIN, "vfio-pci", "vfio-pci"),
    "another driver": (OTHER_HOLDS, DRAIN, "lspci -nnk", "was not called"),
    "firmware boot": (f"{GFW}\n{FAILED}", RESET, "--gpu-reset", "GFW boot"),
    "protected memory": (
        f"{WPR2}\nNVRM: RmInitAdapter: Cannot initialize GSP firmware RM\n{FAILED}",
        RESET,
        "reset",
        "WPR2",
    ),
    "firmware file": (
        f"{FIRMWARE}\nNVRM: RmFetchGspRmImages: No firmware image found\n{FAILED}",
        DRAIN,
        "firmware",
        "gsp_ga10x",
    ),
    "interrupt": (f"NVRM: Can't find an IRQ for your NVIDIA card!\n{NONE}", DRAIN, "firmware", "IRQ"),
    "interrupt of a GPU": (
        f"{GPU}No interrupts of any type are available. Cannot use this GPU.\n{FAILED}",
        DRAIN,
        "",
        "",
    ),
    "addresses": (
        "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\n"
        f"NVRM: BAR1 is 0M @ 0x0 (PCI:{AT})\n{NONE}",
        DRAIN,
        "4G",
        "is invalid",
    ),
    "addresses gone": ("NVRM: FATAL: Failed to re-allocate BAR1.\n" + NONE, DRAIN, "4G", "re-allocate BAR1"),
    "other kernel": (
        "nvidia: version magic '5.14.0-427.el9.x86_64 SMP mod_unload' should be '5.14.0-503.el9.x86_64 SMP mod_unload'",
        DRAIN,
        "dkms",
        "version magic",
    ),
    "other symbols": ("nvidia: disagrees about version of symbol module_layout", DRAIN, "dkms", "module_layout"),
    "unsigned": (f"nvidia: {REFUSED}", DRAIN, "key", "unsigned"),
    "unknown key": ("nvidia: Loading of module with unavailable key is rejected", DRAIN, "key", "unavailable key"),
    "two drivers": (
        "nvidia: exports duplicate symbol nvUvmInterfaceX (owned by nvidia_current)",
        DRAIN,
        "two",
        "owned",
    ),
    "guest driver": (
        "NVRM: rpcRmApiAlloc_GSP: Incompatible Guest/Host drivers: Host VGX version is older than the minimum version "
        f"supported by the Guest. Disabling vGPU.\n{FAILED}",
        DRAIN,
        "guest",
        "Guest/Host",
    ),
    "vGPU host": (
        f"NVRM: The NVIDIA GPU {AT} (PCI ID: 10de:2236)\nNVRM: installed in this vGPU host system is not supported by\n"
        f"NVRM: open nvidia.ko.\n{NONE}",
        DRAIN,
        "vGPU",
        "vGPU host",
    ),
    "no cause named": (FAILED, REBOOT, "reboot", "failed"),
    "NVLink": ("NVRM: NVLink core init failed.\nNVRM: failed to initialize module.", REBOOT, "reboot", "init"),
    "NVSwitch": ("NVRM: NVSwitch init failed.\nNVRM: failed to initialize module.", REBOOT, "reboot", "init"),
    "old words": ("NVRM: NVIDIA init module failed!", REBOOT, "reboot", "init module"),
}
