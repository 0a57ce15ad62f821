# SPDX-License-Identifier: Apache-2.0
"""Every setting of the role system_tuning as data: what, why, its source, how to see it, how to undo it.

docs/tuning.md is written from this table (`make docs`).
"""

from typing import NamedTuple


class Setting(NamedTuple):
    """One setting.

    kind      sysctl, sysfs, disk, unit, limit, tuned or gpu: how it is read and written (knobs.py)
    where     file, glob of files, name of a unit, or the part of it that the kind needs
    wanted    the value that is set unless the inventory names another; "" leaves it alone until it does
    allowed   pattern that a value from the inventory must match as a whole
    """

    name: str
    kind: str
    where: str
    wanted: str
    allowed: str
    reason: str
    source: str
    see: str
    undo: str


NUMBER = r"[0-9]{1,15}"
LIMIT = r"unlimited|[0-9]{1,15}"

KERNEL_DOC = "kernel documentation, admin-guide/sysctl/{}.rst"


def _sysctl(name: str, wanted: str, reason: str, source: str, allowed: str = NUMBER) -> Setting:
    path = "/proc/sys/" + name.replace(".", "/")
    see = f"sysctl {name}"
    return Setting(
        name=name,
        kind="sysctl",
        where=path,
        wanted=wanted,
        allowed=allowed,
        reason=reason,
        source=source,
        see=see,
        undo=f"sysctl -w {name}=VALUE",
    )


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
        "At most 600 MB wait to be written; flushing 40 % of a large memory (tuned's profile) stalls every writer. "
        "On storage faster than 1 GB/s a larger value may be better: measure a checkpoint.",
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
        "Data sets in many memory-mapped files, and allocators, exceed the default of 65530 mappings in one process.",
        KERNEL_DOC.format("vm") + "; Fedora 39, change IncreaseVmMaxMapCount (same value)",
    ),
    _sysctl(
        "vm.min_free_kbytes",
        "",
        "Opt-in: memory kept free for network cards, which cannot wait for it; for InfiniBand hosts that log page "
        "allocation failures. The kernel's own value grows with the memory, and one too large ends in the OOM killer.",
        KERNEL_DOC.format("vm"),
        r"[0-9]{4,7}",
    ),
    _sysctl(
        "kernel.numa_balancing",
        "0",
        "gpu-run binds processes to the GPU's node; the kernel's sampling for moving pages then only costs time.",
        KERNEL_DOC.format("kernel") + " (to be disabled where the workload is bound)",
        "[0-3]",
    ),
    Setting(
        name="cpu_governor",
        kind="sysfs",
        where="/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor",
        wanted="performance",
        allowed="[a-z]+",
        reason=(
            "The thread that feeds the GPU works in short bursts, before which a clock that follows load is still low."
        ),
        source="tuned, profile throughput-performance",
        see="cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor | sort | uniq -c",
        undo="cpupower frequency-set -g GOVERNOR",
    ),
    Setting(
        name="cpu_wake_latency",
        kind="sysfs",
        where="/sys/devices/system/cpu/cpu[0-9]*/power/pm_qos_resume_latency_us",
        wanted="",
        allowed=r"[0-9]{1,6}",
        reason=(
            "Opt-in: sleep states from which a CPU wakes in more than so many microseconds are not entered. 99 leaves "
            "out C6, for many short waits on a GPU; it costs power, and clock speed of the CPUs that are awake."
        ),
        source="kernel documentation, admin-guide/pm/cpuidle.rst; tuned, profile accelerator-performance (99)",
        see="cat /sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us | sort | uniq -c",
        undo="echo 0 to each /sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us",
    ),
    Setting(
        name="transparent_hugepage",
        kind="sysfs",
        where="/sys/kernel/mm/transparent_hugepage/enabled",
        wanted="madvise",
        allowed="always|madvise|never",
        reason=(
            "Allocators that benefit from huge pages ask for them (jemalloc's metadata_thp); others lose no memory to "
            "them."
        ),
        source="kernel documentation, admin-guide/mm/transhuge.rst",
        see="cat /sys/kernel/mm/transparent_hugepage/enabled",
        undo="echo VALUE > /sys/kernel/mm/transparent_hugepage/enabled",
    ),
    Setting(
        name="disk_scheduler",
        kind="disk",
        where="queue/scheduler",
        wanted="auto",
        allowed="auto|none|mq-deadline|bfq|kyber",
        reason="auto: none for flash, which orders requests itself, mq-deadline for spinning disks.",
        source="Red Hat, Monitoring and managing system status and performance (RHEL 8), Setting the disk scheduler",
        see="cat /sys/block/DISK/queue/scheduler",
        undo="echo VALUE > /sys/block/DISK/queue/scheduler",
    ),
    Setting(
        name="disk_read_ahead_kb",
        kind="disk",
        where="queue/read_ahead_kb",
        wanted="4096",
        allowed="[0-9]{1,6}",
        reason=(
            "Files of a data set are read from beginning to end; 4 MiB ahead keep the disk busy with few requests. Set "
            "on the file system's own device and all below it (LVM, encryption, md). Who maps a file and reads it at "
            "random says so by madvise, as the trainer's cache does."
        ),
        source="tuned, profile throughput-performance (readahead >4096)",
        see="cat /sys/block/DISK/queue/read_ahead_kb",
        undo="echo VALUE > /sys/block/DISK/queue/read_ahead_kb",
    ),
    Setting(
        name="irqbalance",
        kind="unit",
        where="irqbalance.service",
        wanted="enabled active",
        allowed="enabled active",
        reason="Interrupts of network and disks are spread over the processors, and away from a GPU's busy one.",
        source="Red Hat, Monitoring and managing system status and performance (RHEL 8)",
        see="systemctl status irqbalance",
        undo="systemctl disable --now irqbalance",
    ),
    Setting(
        name="gpu_persistence",
        kind="unit",
        where="nvidia-persistenced.service",
        wanted="enabled active",
        allowed="enabled active",
        reason=(
            "Without it the driver resets a GPU that nobody uses: programs start slowly, and limits set here are lost."
        ),
        source="NVIDIA, Driver Persistence",
        see="nvidia-smi --query-gpu=persistence_mode --format=csv",
        undo="systemctl disable --now nvidia-persistenced",
    ),
    Setting(
        name="limits_memlock",
        kind="limit",
        where="memlock",
        wanted="unlimited",
        allowed=LIMIT,
        reason="Pinned memory, RDMA and NCCL lock memory; the default of 64 KiB (RHEL 8) ends in an error. In KiB.",
        source="NVIDIA, containers for deep learning frameworks, user guide (--ulimit memlock=-1)",
        see="runuser -u trainer -- sh -c 'ulimit -l'",
        undo="edit /etc/security/limits.d/95-gpuwright.conf",
    ),
    Setting(
        name="limits_nofile",
        kind="limit",
        where="nofile",
        wanted="1048576",
        allowed="[0-9]{1,7}",
        reason="Workers of a DataLoader hand over tensors as open files; 1024 are soon used up.",
        source="PyTorch, torch.multiprocessing, sharing strategy file_descriptor",
        see="runuser -u trainer -- sh -c 'ulimit -n'",
        undo="edit /etc/security/limits.d/95-gpuwright.conf",
    ),
    Setting(
        name="limits_stack",
        kind="limit",
        where="stack",
        wanted="65536",
        allowed=LIMIT,
        reason="Compilers and deep graphs recurse; threads get stacks of this size, in KiB. Soft limit only.",
        source="NVIDIA, containers for deep learning frameworks, user guide (--ulimit stack=67108864)",
        see="runuser -u trainer -- sh -c 'ulimit -s'",
        undo="edit /etc/security/limits.d/95-gpuwright.conf",
    ),
    Setting(
        name="limits_tasks",
        kind="limit",
        where="nproc",
        wanted="unlimited",
        allowed=LIMIT,
        reason=(
            "Ranks, workers and their threads all count; systemd stops a service at 15 % of kernel.pid_max, and then "
            "no thread can be started. TasksMax of services, nproc of logins."
        ),
        source="systemd-system.conf(5), DefaultTasksMax; limits.conf(5)",
        see="systemctl show train-gan@NAME --property=TasksMax",
        undo="edit /etc/security/limits.d/95-gpuwright.conf",
    ),
    Setting(
        name="tuned_profile",
        kind="tuned",
        where="profile",
        wanted="gpuwright",
        allowed="gpuwright",
        reason="Where tuned runs it sets the same things; a profile of our own keeps it from setting them back.",
        source="Red Hat, Monitoring and managing system status and performance (RHEL 8), customizing TuneD profiles",
        see="tuned-adm active",
        undo="tuned-adm profile PROFILE",
    ),
    Setting(
        name="gpu_power_limit",
        kind="gpu",
        where="power_limit",
        wanted="",
        allowed=r"[0-9]{1,4}",
        reason="Opt-in: a lower limit in watts for every GPU, where power supply or cooling asks for it.",
        source="nvidia-smi(1), --power-limit",
        see="nvidia-smi --query-gpu=power.limit,power.min_limit,power.max_limit --format=csv",
        undo="nvidia-smi --power-limit=WATTS",
    ),
    Setting(
        name="gpu_clocks",
        kind="gpu",
        where="clocks",
        wanted="",
        allowed=r"[0-9]{2,5},[0-9]{2,5}",
        reason="Opt-in: application clocks MEMORY,GRAPHICS in MHz for every GPU, for runs that must be comparable.",
        source="nvidia-smi(1), --applications-clocks",
        see="nvidia-smi --query-gpu=clocks.applications.memory,clocks.applications.graphics --format=csv",
        undo="nvidia-smi --reset-applications-clocks",
    ),
    Setting(
        name="scratch",
        kind="scratch",
        where="",
        wanted="",
        # Not set by a value: system_tuning_scratch_serial names the disk.
        allowed=r"(?!)",
        reason="Opt-in: a local NVMe disk for checkpoints and unpacked data sets, whose files may be lost with it.",
        source="own: role system_tuning, scratch_disk",
        see="findmnt /scratch",
        undo="systemctl disable --now scratch.mount (the file system itself stays)",
    ),
)

BY_NAME = {setting.name: setting for setting in CATALOGUE}
