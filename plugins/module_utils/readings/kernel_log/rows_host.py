# SPDX-License-Identifier: Apache-2.0
"""What the kernel writes about hangs, memory, disks, file systems, itself and its own log: one row for each message."""

from ...verdict.check import CONTACT_SUPPORT, REBOOT, REPLACE
from .programs import ALLOCATION, NAMED_BY_A_USER
from .rows import BOOT, CORRECTED, DEVICE, HARMLESS, LOST, UNCORRECTED, WATCH, Row

WATCHDOG = "kernel/watchdog.c"
STALL = "kernel/rcu/tree_stall.h"
NVME = "drivers/nvme/host/pci.c"
# The function that prints this: end_request up to 4.15, print_req_error in 4.16 to 5.x, and later ones.
REQUEST = r"(?:(?:end_request|print_req_error|blk_update_request|blk_print_req_error): )?"
OOPS = "arch/x86/mm/fault.c, arch/x86/kernel/traps.c, lib/bug.c"

# They come before all others: what such a name says is no finding.
NAMED_ROWS = (
    Row(
        "allocation",
        "kernel.out_of_memory",
        WATCH,
        BOOT,
        ALLOCATION,
        "",
        "mm/page_alloc.c (warn_alloc)",
    ),
    Row("harmless", "", HARMLESS, BOOT, NAMED_BY_A_USER, "", "programs.py"),
)

HOST_ROWS = (
    # The file system names the program, in its own words only.
    Row(
        "harmless",
        "",
        HARMLESS,
        BOOT,
        r"XFS(?: \([^)]*\))?: [\s\S]{1,16}?\([0-9]+\) possible memory allocation deadlock",
        "",
        "fs/xfs/kmem.c, fs/xfs/xfs_mount.c",
    ),
    Row(
        "lockup",
        "kernel.lockups",
        UNCORRECTED,
        BOOT,
        r"(?:NMI )?(?:watchdog: )?(?:BUG: soft lockup - CPU|(?:CPU ?[0-9]+: )?Watchdog detected hard LOCKUP)",
        REBOOT,
        WATCHDOG,
    ),
    Row(
        "blocked",
        "kernel.lockups",
        WATCH,
        BOOT,
        r"INFO: task .+ (?:blocked|is blocked|blocked in I/O wait|blocked on .+) for more than [0-9]+ seconds",
        REBOOT,
        "kernel/hung_task.c",
    ),
    Row(
        "stall",
        "kernel.stalls",
        UNCORRECTED,
        BOOT,
        r"(?:rcu: )?(?:INFO: \w+ (?:self-detected stall on CPU|detected (?:expedited )?stalls on (?:CPUs/)?tasks)"
        r"|\w+ kthread starved for [0-9]+ jiffies)",
        REBOOT,
        STALL,
    ),
    Row("stall", "kernel.stalls", UNCORRECTED, BOOT, r"BUG: workqueue lockup - pool", REBOOT, "kernel/workqueue.c"),
    Row(
        "out_of_memory",
        "kernel.out_of_memory",
        WATCH,
        BOOT,
        r"(?:Out of memory(?: \(oom_kill_allocating_task\))?|Memory cgroup out of memory): Kill",
        "",
        "mm/oom_kill.c",
    ),
    Row(
        "nvme",
        "kernel.nvme",
        UNCORRECTED,
        DEVICE,
        r"nvme nvme[0-9]+: (?:controller is down|Removing after probe failure|Device not ready; aborting"
        r"|Disabling device after reset failure|Disabling controller|Device shutdown incomplete|failed to mark)",
        REPLACE,
        NVME,
    ),
    Row(
        "nvme",
        "kernel.nvme",
        UNCORRECTED,
        DEVICE,
        r"(?:nvme[0-9]+(?:c[0-9]+)?n[0-9]+: (?:I/O Error|I/O error|.*\bError \(sct )"
        r"|" + REQUEST + r"(?:critical medium|critical target|I/O) error, dev nvme)",
        REPLACE,
        "drivers/nvme/host/core.c, block/blk-core.c",
    ),
    Row(
        "nvme_timeout",
        "kernel.nvme",
        WATCH,
        DEVICE,
        r"nvme nvme[0-9]+: (?:I/O .*\btimeout, |frozen state error|Abort status|resetting controller)",
        "",
        NVME,
    ),
    Row(
        "filesystem_damage",
        "kernel.filesystem",
        WATCH,
        DEVICE,
        r"EXT[234]-fs \(\S+\): (?:warning: mounting (?:unchecked fs|fs with errors)|error count since last fsck)",
        "",
        "fs/ext4/super.c",
    ),
    Row(
        "disk_error",
        "kernel.filesystem",
        WATCH,
        DEVICE,
        r"EXT4-fs warning \(device [^)]*\): \w+:[0-9]+: I/O error "
        r"|BTRFS info \(device [^)]*\): bdev \S+ errs: |BTRFS warning \(device [^)]*\): csum failed"
        r"|md/raid[0-9]+:\S+: Disk failure on \S+?,? disabling device",
        "",
        "fs/btrfs/volumes.c, fs/btrfs/inode.c, drivers/md",
    ),
    Row(
        "filesystem",
        "kernel.filesystem",
        UNCORRECTED,
        DEVICE,
        r"md/\S+: Disk failure on \S+ detected, failing array",
        CONTACT_SUPPORT,
        "drivers/md/raid0.c, md-linear.c",
    ),
    Row(
        "disk_error",
        "kernel.filesystem",
        WATCH,
        DEVICE,
        REQUEST + r"(?:critical medium|critical target|I/O) error, dev |Buffer I/O error on dev",
        "",
        "block/blk-core.c, fs/buffer.c",
    ),
    Row(
        "filesystem",
        "kernel.filesystem",
        UNCORRECTED,
        DEVICE,
        r"EXT[234]-fs (?:error|\S+: Remounting filesystem read-only|.*I/O error while writing superblock"
        r"|\(\S+\): (?:Remounting filesystem read-only|failed to convert unwritten extents))"
        r"|Aborting journal on device|JBD2: (?:Detected aborted journal|I/O error)",
        CONTACT_SUPPORT,
        "fs/ext4/super.c, fs/jbd2",
    ),
    Row(
        "filesystem",
        "kernel.filesystem",
        UNCORRECTED,
        DEVICE,
        r"XFS \([^)]*\): (?:.*[Ss]hutting down filesystem|.*Filesystem has been shut down|.*has been shut down"
        r"|Metadata (?:corruption|CRC error|I/O error)|Corruption|log I/O error|metadata I/O error"
        r"|Internal error|xfs_do_force_shutdown|Please unmount|Unmount and run|Log I/O Error)",
        CONTACT_SUPPORT,
        "fs/xfs/xfs_fsops.c",
    ),
    Row(
        "filesystem",
        "kernel.filesystem",
        UNCORRECTED,
        DEVICE,
        r"BTRFS(?:: error| critical| error| info) ?\(device [^)]*\).*(?:errno|corrupt|forced readonly|unable to fixup)",
        CONTACT_SUPPORT,
        "fs/btrfs",
    ),
    Row(
        "hardware",
        "kernel.hardware_errors",
        UNCORRECTED,
        BOOT,
        r"mce: Uncorrected hardware|MCE: Killing |Memory failure: 0x|NMI: (?:PCI system error|IOCK error|memory parity)"
        r"|Kernel panic - not syncing: .*[Mm]achine check",
        CONTACT_SUPPORT,
        "arch/x86/kernel/cpu/mce, mm/memory-failure.c, arch/x86/kernel/nmi.c",
    ),
    Row(
        "oops",
        "kernel.oops",
        UNCORRECTED,
        BOOT,
        r"(?:BUG: (?:kernel NULL pointer|unable to handle|Bad page|(?:\w+ )?stack guard page|KASAN|KFENCE|spinlock"
        r"|rwlock)|kernel BUG at |Oops: .{0,120}\[#[0-9]|general protection fault(?:,|:| for )"
        r"|[a-z][a-z0-9 -]{2,40}: [0-9a-f]{4} \[#[0-9]"
        r"|Kernel panic - not syncing|Unable to handle kernel|Internal error: |(?:list_add|list_del) corruption"
        r"|refcount_t: (?:addition|decrement|increment|saturated|underflow|hit|leak|unknown))",
        REBOOT,
        OOPS,
    ),
    # NVIDIA's driver declares longer arrays as having length 1, which kernels built with UBSAN report at each load.
    Row(
        "harmless",
        "",
        HARMLESS,
        BOOT,
        r"UBSAN: array-index-out-of-bounds in \S*nvidia",
        "",
        "lib/ubsan.c; github.com/NVIDIA/open-gpu-kernel-modules: UBSAN reports",
    ),
    Row(
        "kernel_warning",
        "kernel.oops",
        WATCH,
        BOOT,
        r"WARNING: (?:CPU: [0-9]+ PID: [0-9]+|(?:\[.{1,200}\] )?(?:\S+:[0-9]+ )?at \S+, CPU#[0-9]+: |at \S+:[0-9]+)"
        r"|BUG: |UBSAN: (?:Undefined behaviour|[a-z-]+) in ",
        "",
        OOPS + ", lib/ubsan.c",
    ),
    Row(
        "hardware_corrected",
        "kernel.hardware_errors",
        CORRECTED,
        BOOT,
        r"(?:mce: )?(?:CPU ?[0-9]+ BANK ?[0-9]+ )?CMCI storm detected"
        r"|RAS: Soft-offlining pfn|soft[_ ]offline: 0x|Soft offlining pfn",
        "",
        "drivers/ras/cec.c, mm/memory-failure.c",
    ),
    Row(
        "hardware_undecided",
        "kernel.hardware_errors",
        WATCH,
        BOOT,
        r"Uhhuh\. NMI received for unknown reason",
        "",
        "arch/x86/kernel/nmi.c",
    ),
    # The audit subsystem counts its own records, systemd's early lines are not the kernel's, network packets and
    # programs' own signals are not faults of the node: no message about a fault is lost.
    Row(
        "harmless",
        "",
        HARMLESS,
        BOOT,
        r"(?:kauditd_printk_skb|audit_printk_skb|show_signal_msg|net_ratelimit): "
        r"|printk: \S+: [0-9]+ output lines suppressed",
        "",
        "printk.c",
    ),
    Row(
        "lost",
        "kernel.log_whole",
        LOST,
        BOOT,
        r"(?:Missed ([0-9]+) kernel messages|/dev/kmsg buffer overrun"
        # What a unit of a user, or a service, writes too fast is not the kernel's.
        r"|Suppressed ([0-9]+) messages from (?:init\.scope|systemd-)"
        r"|(?:\S+: )?([0-9]+) callbacks suppressed|(?:printk: )?([0-9]+) messages suppressed"
        r"|\*\* ([0-9]+) printk messages dropped \*\*)",
        "",
        "systemd journald-kmsg.c, lib/ratelimit.c, kernel/printk",
    ),
)
