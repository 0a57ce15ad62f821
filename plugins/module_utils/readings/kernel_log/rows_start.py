# SPDX-License-Identifier: Apache-2.0
"""Why NVIDIA's driver did not start, as a table: the words of the driver or kernel, and what helps against that cause.

A row with an action names a cause; one without says only that a start failed. A failed start is several lines, in no
certain order, so the line that names the cause is the one that is shown (`checks.kernel.log`). A reboot alone helps
only where no cause is named. `(?P<branch>...)` and `(?P<owner>...)` of a pattern fill the action.

Sources: NVIDIA's open kernel modules 535 to 610, kernel-open/nvidia (nv.c, nv-pci.c), src/nvidia (osapi.c, osinit.c,
kernel_gsp*.c, rpc.c); kernel/module (main.c, signing.c), security/lockdown, drivers/base/firmware_loader.
"""

from ...verdict.check import DRAIN, POWER_CYCLE, REBOOT, RESET
from .rows import AT, BOOT, DEVICE, UNCORRECTED, WATCH, Row

START = "kernel.driver_start"
# A function's name, and in newer drivers the GPU's number, stand before the words of the resource manager.
FUNCTION = r"NVRM: (?:GPU ?[0-9][0-9a-fA-F]*:? |GPU at [0-9a-fA-F:.]+:? )?(?:\w+: )?"
# Before the words about one GPU.
OF_GPU = r"NVRM: (?:GPU " + AT + r": )?"
MODULE = r"nvidia(?:[_-](?:uvm|modeset|drm))?"
# The driver breaks this sentence in different places.
INSTALLED = r"NVRM: .*installed in this system (?:is )?"

NV = "open-gpu-kernel-modules nv.c, nv-pci.c, osinit.c"
NAMED = "open-gpu-kernel-modules osapi.c (rm_is_supported_device)"
LOADER = "kernel/module/main.c"

AGAIN = " ; run: ansible-playbook site.yml --tags system"
CABLES = (
    "Power the node off and connect the card's auxiliary power cables; if they are connected, reseat them at both ends."
)
PROPRIETARY = (
    "The open module cannot drive this card, which lacks a system processor. Set system_driver_flavour: proprietary"
    " (and a branch that has it, 580 or older)" + AGAIN
)
OPEN = "This card needs the open module. Set system_driver_flavour: open" + AGAIN
LEGACY = (
    "Install branch {branch}, the last one for this card: leave system_driver_branch to the plan, or set it to"
    " {branch}" + AGAIN
)
UNSUPPORTED = (
    "Install a branch of the driver that knows the card: leave system_driver_branch to the plan" + AGAIN + " ; in a"
    " virtual machine that has a part of a card, install the guest driver of its host instead"
)
VGPU_HOST = (
    "This node lends its cards to virtual machines: install the vGPU host driver of its hypervisor, not the data-centre"
    " driver."
)
GUEST = "Install the guest driver that belongs to the vGPU release of this virtual machine's host."
UNBIND = (
    "Stop what keeps the card with {owner} (virtual machines; vfio-pci.ids= or driver_override), then give it to the"
    " driver: echo ADDRESS > /sys/bus/pci/drivers/{owner}/unbind ; modprobe nvidia"
)
OTHER_OWNER = (
    "See which driver has the card: lspci -nnk -d 10de: ; unload it (nouveau, vfio-pci, a frame buffer of the console)"
    " and keep it from loading at boot"
)
ADDRESSES = (
    "Switch on 'Above 4G Decoding' (and, with large cards, 'Resizable BAR' or 64-bit MMIO) in the server's firmware;"
    " if it is on, update the firmware or boot with pci=realloc."
)
INTERRUPT = (
    "Remove pci=nomsi and the like from the kernel's command line, and look for an interrupt that another device holds"
    " (cat /proc/interrupts); then the server's firmware settings for PCIe interrupts."
)
FIRMWARE_FILE = (
    "Install the package with the driver's GSP firmware, in the driver's version (nvidia-kmod-common,"
    " firmware-nvidia-gsp or nvidia-firmware): ls /lib/firmware/nvidia"
    + AGAIN
    + " ; with an initramfs that has the module, rebuild that, too"
)
REBUILD = (
    "Build the module for the kernel that runs: dkms autoinstall -k $(uname -r) ; or boot the kernel that it was built"
    " for; then modprobe nvidia"
)
SIGNED = (
    "The kernel accepts only modules signed with an enrolled key. Compare: mokutil --list-enrolled ; modinfo -F signer"
    " nvidia ; docs/secure-boot.md has the way"
)
TWO_DRIVERS = (
    "There are two drivers' modules on this node: find both with find /lib/modules/$(uname -r) -name 'nvidia*.ko*' ;"
    " remove the one that is not the plan's"
)
MIXED = (
    "If an update of the driver waits for it, reboot; else two drivers are installed: compare"
    " /proc/driver/nvidia/version, modinfo -F version nvidia and the libraries of the program, or its container"
)
RESET_GPU = (
    "Stop the GPU's programs and reset it: nvidia-smi --gpu-reset -i ADDRESS ; if the driver does not answer, power the"
    " node off and on"
)


def _cause(name: str, pattern: str, action: str, source: str, remedy: str = DRAIN, scope: str = DEVICE) -> Row:
    return Row(name, START, UNCORRECTED, scope, pattern, remedy, source, action)


def _failed(pattern: str, source: str, scope: str = DEVICE) -> Row:
    """A start that failed, without its cause: a reboot may help."""
    return Row("driver_start", START, UNCORRECTED, scope, pattern, REBOOT, source)


START_ROWS = (
    _cause(
        "start_cables",
        r"NVRM: .*does not have the necessary power cables connected",
        CABLES,
        NV,
        POWER_CYCLE,
    ),
    _cause("start_vgpu_host", r"NVRM: .*installed in this vGPU host system is not supported by", VGPU_HOST, NAMED),
    _cause("start_flavour", INSTALLED + r"not supported by (?:the )?open(?: nvidia\.ko|\b)", PROPRIETARY, NAMED),
    _cause("start_flavour", r"NVRM: .*requires? use of the NVIDIA open kernel modules", OPEN, NAMED),
    _cause(
        "start_branch",
        r"NVRM: .*supported through the NVIDIA (?P<branch>[0-9]{2,4})[0-9.x]* Legacy drivers",
        LEGACY,
        "nvidia.ko up to 610 (rm_is_legacy_device)",
    ),
    _cause("start_unsupported", r"NVRM: .*is not supported by the", UNSUPPORTED, NAMED),
    _cause("start_guest", r"NVRM: .*Incompatible Guest/Host drivers", GUEST, "open-gpu-kernel-modules rpc.c"),
    _cause("start_bound", r"NVRM: GPU " + AT + r" is already bound to (?P<owner>[A-Za-z0-9_-]{1,40})", UNBIND, NV),
    _cause(
        "start_owner",
        r"NVRM: (?:The NVIDIA probe routine was not called for|request_mem_region failed for)",
        OTHER_OWNER,
        NV,
    ),
    _cause(
        "start_addresses",
        r"NVRM: (?:This PCI I/O region assigned to your NVIDIA device is invalid|FATAL: Failed to re-allocate BAR"
        r"|Fatal Error while attempting to resize PCIe BARs)",
        ADDRESSES,
        NV,
    ),
    _cause(
        "start_interrupt",
        OF_GPU + r"(?:Can't find an IRQ for your NVIDIA card|No interrupts of any type are available"
        r"|Tried to get IRQ [0-9]+, but another driver|request_irq\(\) failed)",
        INTERRUPT,
        NV,
    ),
    # Without the file of its log, the system processor starts all the same.
    _cause(
        "start_firmware",
        r"nvidia "
        + AT
        + r": Direct firmware load for nvidia/(?!\S*gsp_log)\S+ failed|"
        + FUNCTION
        + r"No firmware image found",
        FIRMWARE_FILE,
        "drivers/base/firmware_loader/main.c, osinit.c (RmFetchGspRmImages)",
    ),
    _cause(
        "start_other_kernel",
        MODULE + r": (?:version magic '|disagrees about version of symbol|Unknown symbol|no symbol version for)"
        r"|module " + MODULE + r": \.gnu\.linkonce\.this_module section size must match"
        r"|(?:BPF: \s*)?failed to validate module \[" + MODULE + r"\] BTF",
        REBUILD,
        LOADER,
        scope=BOOT,
    ),
    _cause(
        "start_signature",
        MODULE + r": Loading of (?:unsigned module|module with \w+ (?:key|crypto)) is rejected",
        SIGNED,
        "kernel/module/signing.c",
        scope=BOOT,
    ),
    # Older kernels do not say which module; another one may be meant.
    Row(
        "module_refused",
        START,
        WATCH,
        BOOT,
        r"Loading of (?:unsigned module|module with \w+ (?:key|crypto)) is rejected"
        r"|Lockdown: [\s\S]{1,16}?: unsigned module loading is restricted",
        DRAIN,
        "kernel/module/signing.c before 5.4, security/lockdown/lockdown.c",
        SIGNED,
    ),
    _cause(
        "start_two_drivers",
        r"nvidia\w*: exports duplicate symbol \w+ \(owned by nvidia",
        TWO_DRIVERS,
        LOADER,
        scope=BOOT,
    ),
    _cause(
        "start_state",
        FUNCTION + r"(?:failed to wait for GFW[ _]boot|unexpected WPR2 already up|FSP command timed out"
        r"|Fatal GSP-FMC Error|failed to wait for bar firewall)",
        RESET_GPU,
        "open-gpu-kernel-modules kernel_gsp.c, kernel_gsp_tu102.c, kern_fsp.c",
        RESET,
    ),
    _failed(r"NVRM: .*RmInitAdapter failed", NV),
    _failed(r"NVRM: .*rm_init_adapter failed", NV),
    _failed(
        r"nvidia " + AT + r": probe with driver nvidia failed with error|nvidia: probe of " + AT + " failed with error",
        "drivers/base/dd.c",
    ),
    _failed(
        r"NVRM: (?:The NVIDIA probe routine failed for|None of the NVIDIA (?:devices|graphics"
        r" adapters) were initialized|No NVIDIA (?:GPU found|devices probed|PCI devices found|graphics adapter found)"
        r"|NVLink core init failed|NVSwitch init failed|NVIDIA init module failed|rm_init_rm\(\) failed"
        r"|nv-cap-drv init failed|failed to initialize (?:module|procfs|capabilities|IMEX)"
        r"|SOC driver registration failed|register_chrdev_region\(\) failed|cdev_add\(\) failed"
        r"|pci_enable_device failed|Device start failed for|FATAL: )",
        NV,
    ),
    _failed(
        OF_GPU + r"(?:Failed to map regs registers|rm_init_private_state\(\) failed|failed to map GPU registers)", NV
    ),
    _failed(
        r"nvidia-nvlink: (?:Failed to initialize driver|alloc_chrdev_region failed| ?Unable to create)"
        r"|nvidia-nvswitch: (?:Failed to register driver|Unable to create cdev)",
        "open-gpu-kernel-modules nvlink_linux.c, linux_nvswitch.c",
        scope=BOOT,
    ),
    # The driver's memory manager (UVM) is broken for all GPUs, and only a reboot fixes it: no reload, no reset.
    Row(
        "driver_broken",
        START,
        UNCORRECTED,
        BOOT,
        r"NVRM: (?:\w+: )?uvm encountered global fatal error",
        REBOOT,
        "open-gpu-kernel-modules nv_gpu_ops.c",
    ),
    Row("driver_mixed", START, WATCH, BOOT, r"NVRM: API mismatch:", REBOOT, NV, MIXED),
    Row(
        "link_start",
        START,
        WATCH,
        BOOT,
        r"NVRM: knvlink\w+: .*(?:Failed to update Rx Detect|postRxDetLinkMask failed)",
        REBOOT,
        "open-gpu-kernel-modules kernel_nvlink.c",
    ),
    Row("switch_start", START, WATCH, DEVICE, r"nvidia-nvswitch\S*: .*[Ff]ail", REBOOT, NV),
)
# What a later start of the driver does again; only a reboot ends the other.
BEGUN_AGAIN = frozenset(row.name for row in START_ROWS) - {"driver_broken"}

# The driver's words for a card that has stopped and needs a reset, which older drivers write without an Xid 154.
RESET_ROWS = (
    Row(
        "needs_reset",
        "kernel.gpu_reset",
        UNCORRECTED,
        DEVICE,
        FUNCTION + r"(?:(?:Assertion|Check) failed: Reset required \[|.{0,80}\[NV_ERR_RESET_REQUIRED\]"
        r"|Received signal from GSP that PMU has halted|\*{4,} ?GSP(?:-CrashCat Report| Timeout| Crash| Failure)\b"
        r"|GSP-RM entered into ICD|Heartbeat timed out, |Memory Subsystem Error detected\. )",
        RESET,
        "open-gpu-kernel-modules kernel_gsp.c, kernel_gsp_tu102.c, kern_gmmu.c, nvstatuscodes.h",
    ),
)
