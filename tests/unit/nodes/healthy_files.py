"""The healthy node as files and programs, for readers that start at a root folder and ask its commands."""

from __future__ import annotations

import json
import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path

import efi
from healthy_containers import CDI
from healthy_driver import NODES
from healthy_kernel import KERNEL_LOG, journalctl
from healthy_node import EXPECTATIONS, PARTS, READINGS
from healthy_performance import MEASURED
from healthy_plan import PLAN
from host_tree import HostTree
from initramfs_images import image
from node_names import BRIDGE, DATA, KERNEL, MOK, PCI_ID

# The first bytes of a shared library for x86-64 (elf(5)).
ELF_LIBRARY = struct.pack("=16sHH", b"\x7fELF\x02\x01\x01", 3, {"x86_64": 62, "aarch64": 183}[os.uname().machine])


def put_node(host: HostTree) -> None:
    """The files of that node, for readers that start at a root folder."""
    host.running_kernel(KERNEL)
    host.kernel(KERNEL, headers=True)
    speeds = {"current_link_speed": "8.0 GT/s PCIe", "max_link_speed": "8.0 GT/s PCIe"}
    host.put("/proc/uptime", "86400.00 1700000.00\n")
    host.put("/proc/sys/kernel/random/boot_id", READINGS["probe"]["kernel"]["boot_id"] + "\n")
    host.put("/proc/sys/kernel/version", READINGS["probe"]["kernel"]["build"] + "\n")
    host.put("/etc/grub2.cfg", 'set default="${saved_entry}"\ninsmod blscfg\nblscfg\n')
    host.put("/boot/grub2/grubenv", f"# GRUB Environment Block\nsaved_entry=0123-{KERNEL}\n")
    host.put(f"/boot/loader/entries/0123-{KERNEL}.conf", f"version {KERNEL}\nlinux /vmlinuz-{KERNEL}\n")
    host.pci_device(PCI_ID, local_cpulist="0-9", **speeds)
    host.bind(PCI_ID, "nvidia")
    host.put("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23\n")
    host.put("/sys/module/nvidia_uvm/refcnt", "0\n")
    efi.secure_boot_on(host)
    efi.put_keys(host, "MokListRT", efi.KEY)
    host.put("/var/lib/dkms/mok.pub", efi.KEY)
    host.put("/var/lib/dkms/mok.key", "private")
    host.put("/sys/module/module/parameters/sig_enforce", "N\n")
    kernel_key = READINGS["module_signature"]["kernel"][0]
    named = f"{kernel_key['name']}: {kernel_key['numbers'][0]}: X509.rsa []"
    keyring = "0b1c2d3e I------     5 perm 1f0b0000     0     0 keyring   .builtin_trusted_keys: 2\n"
    host.put("/proc/keys", f"{keyring}0a1b2c3d I------     1 perm 1f030000     0     0 asymmetri {named}\n")
    host.put("/var/lib/rpm/Packages")
    host.put(f"/boot/initramfs-{KERNEL}.img", image({}))
    for name, text in (("vendor", "0x8086"), ("class", "0x060000")):
        host.put(f"/sys/bus/pci/devices/0000:00:00.0/{name}", text + "\n")
    host.put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n")
    host.put("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n")
    for node, cpus in ((0, "0-9"), (1, "10-19")):
        host.put(f"/sys/devices/system/node/node{node}/cpulist", cpus + "\n")
        host.put(f"/sys/devices/system/node/node{node}/meminfo", f"Node {node} MemTotal: {64000 * 1024} kB\n")
    model = READINGS["probe"]["cpu"]["model"]
    processors = [f"processor: {n}\nmodel name: {model}\nphysical id: {n // 10}\ncore id: {n % 10}" for n in range(20)]
    host.put("/proc/cpuinfo", "\n\n".join(processors) + "\n")
    host.put("/proc/meminfo", f"MemTotal: {128000 * 1024} kB\nSwapTotal: {4096 * 1024 - 4} kB\n")
    put_bridge(host, BRIDGE, PCI_ID)
    host.link(f"/sys/bus/pci/devices/{PCI_ID}/iommu_group", "../../../../../kernel/iommu_groups/30")
    host.put("/sys/kernel/iommu_groups/30/type", "identity\n")
    host.put("/etc/modprobe.d/nvidia.conf", "# ours\noptions nvidia NVreg_DeviceFileMode=0660\n")
    host.put(f"/proc/driver/nvidia/gpus/{PCI_ID}/information", "Model: Tesla V100\nDevice Minor: \t 0\n")
    host.put("/proc/driver/nvidia/params", 'DeviceFileMode: 432\nEnableMSI: 1\nTemporaryFilePath: "/var"\n')
    for name in ("gpuwright-boot-check.service", "gpuwright-check.timer"):
        host.put(f"/etc/systemd/system/{name}")
    host.put("/proc/cmdline", "root=/dev/sda1 ro nvidia.NVreg_TemporaryFilePath=/var")
    host.put("/proc/1/stat", "1 (systemd) S 0 1 1 0 -1\n")
    put_program(host, "/usr/bin/nvidia-smi", "exit 0")
    host.put("/usr/lib64/libcuda.so.580.95.05")
    host.link("/usr/lib64/libcuda.so.1", "libcuda.so.580.95.05")
    host.put("/usr/lib64/libnvidia-ml.so.580.95.05")
    host.link("/usr/lib64/libnvidia-ml.so.1", "libnvidia-ml.so.580.95.05")
    host.put("/usr/bin/nvidia-smi")
    for name, (major, minor) in NODES.items():
        host.link(f"/dev/char/{major}:{minor}", f"../{name}")
        put_device(host.folder / "dev" / name, major, minor)
    host.put("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\ntrainer:x:991:991::/var/lib/trainer:/sbin/nologin\n")
    host.put("/etc/group", "root:x:0:\nwheel:x:10:alice\ntrainer:x:991:\n")
    host.put("/etc/shadow", "root:$6$abc:19000::::::\ntrainer:!!:19000::::::\n")
    host.put("/usr/local/cuda-12.9/version.json", '{"cuda": {"name": "CUDA SDK", "version": "12.9.1"}}')
    nvcc = '[ "$1" = -o ] && cp "$3" "$2"; echo \'Cuda compilation tools, release 12.9, V12.9.86\''
    put_program(host, "/usr/local/cuda-12.9/bin/nvcc", nvcc)
    host.link("/etc/alternatives/cuda", "/usr/local/cuda-12.9")
    host.link("/usr/local/cuda", "/etc/alternatives/cuda")
    header = "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 10\n#define CUDNN_PATCHLEVEL 2\n#define CUDNN_VERSION 91002\n"
    host.put("/usr/include/cudnn_version.h", header)
    for name, version in (("libcudnn", "9.10.2"), ("libnccl", "2.27.5")):
        host.put(f"/usr/lib64/{name}.so.{version}")
        host.link(f"/usr/lib64/{name}.so.{version.split('.')[0]}", f"{name}.so.{version}")
    for path in (PLAN["runtime"]["jemalloc"], PLAN["runtime"]["tcmalloc"]):
        host.put(path, ELF_LIBRARY)
    spoken = {"schema": 1, "devices": [MEASURED], "all_reduce": None, "problems": []}
    run = f"cat <<'E'\n{json.dumps(spoken)}\nE"
    used = f"echo noise\ncat <<'E'\n{json.dumps(READINGS['tensorflow'])}\nE"
    put_program(host, "/usr/local/bin/gpu-run", f'case "$*" in\n*tensorflow*) {used}\n;;\n*) {run}\n;;\nesac')
    for name, text in (("device/model", "INTEL SSDPE2KX010T8"), ("device/state", "live"), ("removable", "0")):
        host.put(f"/sys/block/nvme0n1/{name}", text + "\n")
    put_program(host, "/usr/local/bin/gpu-doctor", "exit 0")
    host.put("/etc/gpuwright/expectations.json", json.dumps(EXPECTATIONS))
    row = {**READINGS["tuning"][0], "path_or_how": "/proc/sys/vm/swappiness", "keys": {"/proc/sys/vm/swappiness": "10"}}
    host.put("/etc/gpuwright/tuning.json", json.dumps({"schema": 1, "settings": [row], "skipped": []}))
    host.put("/proc/sys/vm/swappiness", "10\n")
    record = {"schema": 1, "engine": "podman", "spec": "/var/run/cdi/nvidia.yaml"}
    host.put("/etc/gpuwright/containers.json", json.dumps(record))
    host.put("/var/run/cdi/nvidia.yaml", CDI)
    put_program(host, "/usr/bin/podman", "echo podman version 4.9.4-rhel")
    host.put("/usr/local/lib/gpuwright/gpuwright/__init__.py")
    put_program(
        host, "/opt/gpuwright/venvs/abc/bin/python", f"echo noise\ncat <<'E'\n{json.dumps(READINGS['venv'])}\nE"
    )
    host.put("/opt/gpuwright/venvs/abc/gpuwright.json", json.dumps(READINGS["stamp"]))
    for folder in ("boot", "var", "opt/gpuwright", "srv/gan/data", "srv/gan/runs"):
        (host.folder / folder).mkdir(parents=True, exist_ok=True)
    mounts = (f"{number} 1 8:{number} / {at} rw - xfs /dev/sda{number} rw\n" for number, at in enumerate(MOUNTS))
    host.put("/proc/self/mountinfo", "".join(mounts))
    host.put("/opt/gpuwright/venvs/abc/lock.txt", "torch==2.10.0 --hash=sha256:00\n")
    packages = "/opt/gpuwright/venvs/abc/lib/python3.11/site-packages"
    for name in ("torch-2.10.0+cu128", "gan_trainer-0.1.0"):
        host.put(f"{packages}/{name}.dist-info/RECORD", f"{name}.dist-info/RECORD,,\n")
    host.link("/opt/gpuwright/venvs/current", "abc")
    for part in PARTS:
        if hasattr(part, "put_files"):
            part.put_files(host)


MOUNTS = ("/", "/boot", "/var", "/opt", "/srv")


def put_device(file: Path, major: int, minor: int) -> None:
    """A device node that everybody may open; only root can make one, and others have a file in its place."""
    if os.geteuid() == 0:
        os.mknod(file, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    else:
        file.touch()
    file.chmod(0o666)


def put_bridge(host: HostTree, bridge: str, card: str, config: bytes | None = None) -> None:
    """The card below a PCIe bridge, as sysfs shows it; without `config` the bridge has access control, switched off."""
    place = f"../../../devices/pci{bridge[:7]}/{bridge}"
    devices = host.folder / "sys/bus/pci/devices"
    (devices / place).resolve().mkdir(parents=True)
    (devices / card).rename((devices / place / card).resolve())
    host.link(f"/sys/bus/pci/devices/{card}", f"{place}/{card}")
    host.link(f"/sys/bus/pci/devices/{bridge}", place)
    host.put(f"/sys/bus/pci/devices/{bridge}/max_link_width", "16\n")
    host.put(f"/sys/bus/pci/devices/{bridge}/config", configuration(0) if config is None else config)


def configuration(control: int, start: int = 0x150) -> bytes:
    """4096 bytes of configuration space: at 0x100 error reporting (1), at `start` access control (0xd)."""
    extended = struct.pack("<I", start << 20 | 0x10001).ljust(start - 0x100, b"\0")
    return (bytes(0x100) + extended + struct.pack("<IHH", 0x1000D, 0x1F, control)).ljust(4096, b"\0")


def put_program(host: HostTree, path: str, script: str) -> None:
    host.put(path, f"#!/bin/sh\n{script}\n")
    (host.folder / path.lstrip("/")).chmod(0o755)


# What podman gives to the runtime of a container that was prepared (checks/containers/resolving.py).
PREPARED = {"linux": {"devices": [{"path": "/dev/nvidia0"}, {"path": "/dev/nvidiactl"}]}, "mounts": []}
SHOWN = """\
Id=gpuwright-boot-check.service
ActiveState=inactive
UnitFileState=enabled

Id=gpuwright-check.timer
ActiveState=active
UnitFileState=enabled
"""
COLONS = ":".join(MOK[place : place + 2].upper() for place in range(0, len(MOK), 2))
MODINFO = f"""\
filename:       /lib/modules/{KERNEL}/extra/nvidia.ko.xz
version:        580.95.05
license:        NVIDIA
sig_id:         PKCS#7
signer:         DKMS module signing key
sig_key:        {COLONS}
sig_hashalgo:   sha512
signature:      0A:1B:
\t\t2C:3D
"""
ENROLLED = f"""\
[key 1]
SHA1 Fingerprint: 54:f4:18:74:f4:d8:84:28:09:bc:be:88:10:65:92:0a:17:56:0b:a8
Certificate:
    Data:
        Version: 3 (0x2)
        Serial Number:
            {COLONS.lower()}
        Signature Algorithm: sha256WithRSAEncryption
        Issuer: CN=DKMS module signing key
        Validity
            Not Before: Jan  1 10:00:00 2026 GMT
        Subject: CN=DKMS module signing key
        X509v3 extensions:
            X509v3 Subject Key Identifier:
                D9:39:39:5A:3C:4C:0E:2A
"""
RPMS = "".join(
    f"{package['name']}\t580.95.05\t1.el8\tNVIDIA Corporation (none)\n"
    for package in READINGS["driver_packages"]["packages"]
)
IMAGE = f"*--queryformat*vmlinuz*) printf 'kernel-core\\t%s\\n' {KERNEL.partition('.x86_64')[0]}; exit;;"
RPM = f"case \"$*\" in\n{IMAGE}\n-qf*) echo nvidia-driver; exit;;\nesac\ncat <<'E'\n{RPMS}E"
SMARTCTL = {
    "smart_status": {"passed": True},
    "nvme_smart_health_information_log": {"critical_warning": 0, "available_spare": 100, "percentage_used": 3},
}


def mokutil(enrolled: str) -> str:
    """A script that lists these certificates as enrolled."""
    return (
        f"case $1 in\n--list-enrolled) cat <<'E'\n{enrolled}E\n;;\n--db) echo db is empty;;\n"
        "*) echo /var/lib/dkms/mok.pub is already enrolled;;\nesac"
    )


def put_commands(write: Callable[[str, str], object]) -> None:
    """What the node's programs answer; `write(name, script)` puts one of them into PATH."""
    answers = {
        "nvidia-smi": f"cat {DATA}/nvidia_smi/580-v100.xml",
        "systemctl": f"if [ $1 = show ]; then cat <<'E'\n{SHOWN}E\nelse echo active; fi",
        "systemd-detect-virt": "echo none; exit 1",
        "unshare": f"cat <<'E'\n{json.dumps(PREPARED)}\nE",
        "nv-fabricmanager": "echo 'Fabric Manager version is : 580.95.05'",
        "journalctl": journalctl(KERNEL_LOG).partition("\n")[2],
        "modinfo": f"cat <<'E'\n{MODINFO}E",
        "rpm": RPM,
        "dnf": ":",
        "dkms": f"echo 'nvidia/580.95.05, {KERNEL}, x86_64: installed'",
        "mokutil": mokutil(ENROLLED),
        "smartctl": f"cat <<'E'\n{json.dumps(SMARTCTL)}\nE",
        "grubby": f"echo /boot/vmlinuz-{KERNEL}",
    }
    for name, script in answers.items():
        write(name, f"#!/bin/sh\n{script}\n")
