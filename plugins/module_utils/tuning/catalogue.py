# SPDX-License-Identifier: Apache-2.0
"""Every setting of the role system_tuning as data: what, why, from whom, how to see it, how to undo it.

docs/tuning.md is written from this table (`make docs`).
"""

import collections

Setting = collections.namedtuple("Setting", "name kind where wanted allowed reason source see undo")
Setting.__doc__ = """One setting.

kind      sysctl, sysfs, disk, unit, limit, tuned or gpu: who reads and writes it (knobs.py)
where     file, glob of files, name of a unit, or the part of it that the kind needs
wanted    the value that is set unless the inventory names another; "" leaves it alone until it does
allowed   pattern that a value from the inventory must match as a whole
"""

NUMBER = r"[0-9]{1,15}"
LIMIT = r"unlimited|[0-9]{1,15}"

KERNEL_DOC = "kernel documentation, admin-guide/sysctl/{}.rst"


def _sysctl(name, wanted, reason, source, allowed=NUMBER):
    path = "/proc/sys/" + name.replace(".", "/")
    see = "sysctl {}".format(name)
    return Setting(name, "sysctl", path, wanted, allowed, reason, source, see, "sysctl -w {}=VALUE".format(name))


CATALOGUE = (
    _sysctl(
        "vm.swappiness",
        "10",
        "Reading a data set fills the page cache; the kernel should drop that rather than swap out the trainer.",
        "tuned, profile throughput-performance",
        r"[0-9]{1,2}|1[0-9]{2}|200",
    ),
    _sysctl(
        "vm.dirty_background_bytes",
        "314572800",
        "Writing back begins at 300 MB, not at 10 % of the memory: a checkpoint's fsync then has little to wait for.",
        KERNEL_DOC.format("vm") + "; SUSE support document 7010287 (same values)",
    ),
    _sysctl(
        "vm.dirty_bytes",
        "629145600",
        "At most 600 MB wait to be written; flushing 20 or 40 % of a large memory stalls every process that writes.",
        KERNEL_DOC.format("vm") + "; SUSE support document 7010287 (same values)",
    ),
    _sysctl(
        "vm.zone_reclaim_mode",
        "0",
        "A data set may be cached in the memory of every NUMA node, instead of being dropped when one is full.",
        KERNEL_DOC.format("vm"),
        "[0-7]",
    ),
    _sysctl(
        "vm.max_map_count",
        "1048576",
        "Data sets in many memory-mapped files, and allocators, run into the default of 65530 mappings in one process.",
        KERNEL_DOC.format("vm") + "; Fedora 39, change IncreaseVmMaxMapCount (same value)",
    ),
    _sysctl(
        "kernel.numa_balancing",
        "0",
        "gpu-run binds processes to the GPU's node; the kernel's sampling for moving pages then only costs time.",
        KERNEL_DOC.format("kernel") + " (to be disabled where the workload is bound)",
        "[0-3]",
    ),
    Setting(
        "cpu_governor",
        "sysfs",
        "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor",
        "performance",
        "[a-z]+",
        "The thread that feeds the GPU works in short bursts, before which a clock that follows load is still low.",
        "tuned, profile throughput-performance",
        "cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor | sort | uniq -c",
        "cpupower frequency-set -g GOVERNOR",
    ),
    Setting(
        "transparent_hugepage",
        "sysfs",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "madvise",
        "always|madvise|never",
        "Allocators that gain by huge pages ask for them (jemalloc's metadata_thp); others lose no memory to them.",
        "kernel documentation, admin-guide/mm/transhuge.rst",
        "cat /sys/kernel/mm/transparent_hugepage/enabled",
        "echo VALUE > /sys/kernel/mm/transparent_hugepage/enabled",
    ),
    Setting(
        "disk_scheduler",
        "disk",
        "queue/scheduler",
        "auto",
        "auto|none|mq-deadline|bfq|kyber",
        "auto: none for flash, which orders requests itself, mq-deadline for spinning disks.",
        "Red Hat, Monitoring and managing system status and performance (RHEL 8), Setting the disk scheduler",
        "cat /sys/block/DISK/queue/scheduler",
        "echo VALUE > /sys/block/DISK/queue/scheduler",
    ),
    Setting(
        "disk_read_ahead_kb",
        "disk",
        "queue/read_ahead_kb",
        "4096",
        "[0-9]{1,6}",
        "Files of a data set are read from beginning to end; 4 MiB ahead keep the disk busy with few requests.",
        "tuned, profile throughput-performance (readahead >4096)",
        "cat /sys/block/DISK/queue/read_ahead_kb",
        "echo VALUE > /sys/block/DISK/queue/read_ahead_kb",
    ),
    Setting(
        "irqbalance",
        "unit",
        "irqbalance.service",
        "enabled active",
        "enabled active",
        "Interrupts of network and disks are spread over the processors, and away from a GPU's busy one.",
        "Red Hat, Monitoring and managing system status and performance (RHEL 8)",
        "systemctl status irqbalance",
        "systemctl disable --now irqbalance",
    ),
    Setting(
        "gpu_persistence",
        "unit",
        "nvidia-persistenced.service",
        "enabled active",
        "enabled active",
        "Without it the driver resets a GPU that nobody uses: programs start slowly, and limits set here are lost.",
        "NVIDIA, Driver Persistence",
        "nvidia-smi --query-gpu=persistence_mode --format=csv",
        "systemctl disable --now nvidia-persistenced",
    ),
    Setting(
        "limits_memlock",
        "limit",
        "memlock",
        "unlimited",
        LIMIT,
        "Pinned memory, RDMA and NCCL lock memory; the default of 64 KiB (RHEL 8) ends in an error. In KiB.",
        "NVIDIA, containers for deep learning frameworks, user guide (--ulimit memlock=-1)",
        "runuser -u trainer -- sh -c 'ulimit -l'",
        "edit /etc/security/limits.d/95-gpuwright.conf",
    ),
    Setting(
        "limits_nofile",
        "limit",
        "nofile",
        "1048576",
        "[0-9]{1,7}",
        "Workers of a DataLoader hand over tensors as open files; 1024 are soon used up.",
        "PyTorch, torch.multiprocessing, sharing strategy file_descriptor",
        "runuser -u trainer -- sh -c 'ulimit -n'",
        "edit /etc/security/limits.d/95-gpuwright.conf",
    ),
    Setting(
        "limits_stack",
        "limit",
        "stack",
        "65536",
        LIMIT,
        "Compilers and deep graphs recurse; threads get their stack by this limit, in KiB. Soft limit only.",
        "NVIDIA, containers for deep learning frameworks, user guide (--ulimit stack=67108864)",
        "runuser -u trainer -- sh -c 'ulimit -s'",
        "edit /etc/security/limits.d/95-gpuwright.conf",
    ),
    Setting(
        "tuned_profile",
        "tuned",
        "profile",
        "gpuwright",
        "gpuwright",
        "Where tuned runs it sets the same things; a profile of our own keeps it from setting them back.",
        "Red Hat, Monitoring and managing system status and performance (RHEL 8), customizing TuneD profiles",
        "tuned-adm active",
        "tuned-adm profile PROFILE",
    ),
    Setting(
        "gpu_power_limit",
        "gpu",
        "power_limit",
        "",
        r"[0-9]{1,4}",
        "Opt-in: a lower limit in watts for every GPU, where power supply or cooling asks for it.",
        "nvidia-smi(1), --power-limit",
        "nvidia-smi --query-gpu=power.limit,power.min_limit,power.max_limit --format=csv",
        "nvidia-smi --power-limit=WATTS",
    ),
    Setting(
        "gpu_clocks",
        "gpu",
        "clocks",
        "",
        r"[0-9]{2,5},[0-9]{2,5}",
        "Opt-in: application clocks MEMORY,GRAPHICS in MHz for every GPU, for runs that must be alike.",
        "nvidia-smi(1), --applications-clocks",
        "nvidia-smi --query-gpu=clocks.applications.memory,clocks.applications.graphics --format=csv",
        "nvidia-smi --reset-applications-clocks",
    ),
    Setting(
        "scratch",
        "scratch",
        "",
        "",
        # Not by a value: system_tuning_scratch_serial names the disk.
        r"(?!)",
        "Opt-in: a local NVMe disk for checkpoints and unpacked data sets, whose files may be lost with it.",
        "own: role system_tuning, scratch_disk",
        "findmnt /scratch",
        "systemctl disable --now scratch.mount (the file system itself stays)",
    ),
)

BY_NAME = {setting.name: setting for setting in CATALOGUE}
