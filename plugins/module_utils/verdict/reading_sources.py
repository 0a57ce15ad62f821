# SPDX-License-Identifier: Apache-2.0
"""Where each reading comes from, and the command to type that shows why it is missing."""

from typing import Mapping, NamedTuple

AGAIN = "fix what it reports, then run gpu-doctor again as root."
VERIFY = "Run: ansible-playbook site.yml --tags verify"


class Source(NamedTuple):
    """`what` is read, in the field's words; `look` is the command to type that shows why that fails."""

    what: str
    look: str


def by_hand(what: str, look: str = "") -> Source:
    return Source(what, f"Run: {look or what} ; {AGAIN}")


# By the longest prefix of a reading's name; readings of a single family of checks are listed there (Check.readers).
SOURCES = {
    "expectations": Source(
        "/etc/gpuwright/expectations.json", VERIFY + " ; it rewrites what the node is compared with."
    ),
    "readings.acknowledgements": by_hand("/var/lib/gpuwright/acknowledgements.json", "gpu-doctor --acknowledgements"),
    "readings.allocators": by_hand("the allocators' libraries", "gpu-run --explain -- true"),
    "readings.bench": by_hand("bench/bench.json of the runs", "train-gan bench --help"),
    "readings.confinement": by_hand("/proc/self/cgroup and /dev/nvidia*", "cat /proc/self/cgroup ; ls -l /dev/nvidia*"),
    "readings.cuda": by_hand("the CUDA toolkit's own version", "nvcc --version ; ls -lL /usr/local/cuda"),
    "readings.cudnn": by_hand("cuDNN's header and library", "ldconfig -p | grep cudnn"),
    "readings.device_links": by_hand("/dev/char", "ls -l /dev/char | grep nvidia"),
    "readings.device_nodes": by_hand("/dev/nvidia* and the trainer's account", "ls -l /dev/nvidia* ; getent passwd"),
    "readings.driver_files": by_hand(
        "the driver's libraries", "ldconfig -p | grep nvidia ; ls -lL /usr/bin/nvidia-smi"
    ),
    "readings.driver_packages": by_hand("rpm or dpkg", "rpm -qa '*nvidia*' || dpkg -l '*nvidia*'"),
    "readings.environment": by_hand("/opt/gpuwright/venvs/current", "ls -lL /opt/gpuwright/venvs/current"),
    "readings.fabric_manager": by_hand("systemctl is-active nvidia-fabricmanager"),
    "readings.fabric_manager_version": by_hand("nv-fabricmanager --version"),
    "readings.gpu_ways": by_hand("nvidia-smi topo -m"),
    "readings.host": by_hand("/proc and /sys", "ls -l /proc/stat /proc/meminfo /sys/devices/system/cpu"),
    "readings.infiniband": by_hand("/sys/class/infiniband", "ls -l /sys/class/infiniband ; ibstat"),
    "readings.initramfs": by_hand(
        "the initramfs", "lsinitrd | head || lsinitramfs /boot/initrd.img-$(uname -r) | head"
    ),
    "readings.isolation": by_hand("lspci -vvv", "lspci -vvv -d 10de: | head ; ls /sys/kernel/iommu_groups"),
    "readings.kernel_log": by_hand("journalctl -k -b and dmesg", "journalctl -k -b | tail ; dmesg | tail"),
    "readings.launcher": by_hand("/usr/local/bin/gpu-run", "ls -l /usr/local/bin/gpu-run"),
    "readings.locks": by_hand("dnf's version locks", "dnf versionlock list ; dnf module list --enabled"),
    "readings.machine": by_hand("systemd-detect-virt"),
    "readings.module_signature": by_hand("modinfo and mokutil", "modinfo nvidia ; mokutil --list-enrolled | head"),
    "readings.moment": by_hand("/proc/uptime", "cat /proc/uptime /proc/sys/kernel/random/boot_id"),
    "readings.nccl": by_hand("NCCL's library", "ldconfig -p | grep nccl"),
    "readings.nvidia_smi": by_hand("nvidia-smi -q -x", "nvidia-smi -q"),
    "readings.nvlink": by_hand("nvidia-smi nvlink -s", "nvidia-smi nvlink -s ; nvidia-smi nvlink -e"),
    "readings.performance": by_hand("gpu-doctor --level deep", "nvidia-smi ; gpu-doctor --level deep"),
    "readings.permissions": by_hand(
        "/opt/gpuwright and /usr/local/lib/gpuwright", "ls -ld /opt/gpuwright /etc/gpuwright"
    ),
    "readings.persistenced": by_hand("systemctl is-active nvidia-persistenced", "systemctl status nvidia-persistenced"),
    "readings.probe": by_hand(
        "/proc, /sys and /boot", "lspci -nnk -d 10de: ; uname -r ; cat /proc/driver/nvidia/version"
    ),
    "readings.ranks": by_hand("/proc and who computes on which GPU", "gpu-run --check ; nvidia-smi"),
    "readings.services": by_hand("systemctl show", "systemctl --failed"),
    "readings.smoke": Source("the smoke test of the last verification", VERIFY + " ; it runs the smoke test again."),
    "readings.stamp": by_hand("gpuwright.json of the environment", "cat /opt/gpuwright/venvs/current/gpuwright.json"),
    "readings.strikes": by_hand("/var/lib/gpuwright/strikes.json", "gpu-doctor --strikes"),
    "readings.switches": by_hand("/sys/bus/pci/devices", "lspci -d 10de:"),
    "readings.training_user": by_hand(
        "/etc/passwd, /etc/group and /etc/shadow", "ls -l /etc/passwd /etc/group /etc/shadow"
    ),
    "readings.tuning": by_hand("/etc/gpuwright/tuning.json and what it sets", "gpu-tune"),
    "readings.venv": by_hand(
        "Python in /opt/gpuwright/venvs/current",
        "/opt/gpuwright/venvs/current/bin/python -c 'import torch, numpy, gan_trainer'",
    ),
    "readings.xid_policy": by_hand("/etc/gpuwright/xid.yml", "cat /etc/gpuwright/xid.yml"),
}
# For a reading that is none of these: an error of the program itself.
OURS = Source(
    "gpu-doctor itself",
    "This is an error of gpu-doctor: make a bundle (gpu-doctor --bundle FILE.tar.gz) and send it to its maintainers.",
)


def source_of(name: str, own: Mapping[str, Source]) -> Source:
    """The source of the reading or expectation of this name, such as "readings.nvidia_smi.gpus[0].uuid".

    `own`: sources of the readings that the check itself defines, by their names.
    """
    parts = name.replace("[", ".").split(".")
    for length in range(len(parts), 0, -1):
        beginning = ".".join(parts[:length])
        found = own.get(beginning) or SOURCES.get(beginning)
        if found is not None:
            return found
    return OURS
