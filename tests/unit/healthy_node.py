"""A node on which every check passes, as `readings.collect` would describe it; tests break one value at a time."""

from __future__ import annotations

import copy
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

from host_tree import HostTree

DATA = Path(__file__).parent / "data"
# The first bytes of a shared library for x86-64 (elf(5)).
ELF_LIBRARY = struct.pack("=16sHH", b"\x7fELF\x02\x01\x01", 3, {"x86_64": 62, "aarch64": 183}[os.uname().machine])

KERNEL = "4.18.0-477.10.1.el8_8.x86_64"
PCI_ID = "0000:3b:00.0"
MODULE = {"version": "580.95.05", "flavour": "proprietary", "licence": "NVIDIA"}

PLAN = {
    "schema": 1,
    "driver": {"branch": "580", "flavour": "proprietary", "stream": "580-dkms", "module": "nvidia", "version": ""},
    "cuda": {"version": "12.9", "package": "cuda-toolkit-12-9", "prefix": "/usr/local/cuda-12.9"},
    "cudnn": {"version": "9.10.2", "packages": [], "header": "/usr/include/cudnn_version.h"},
    "nccl": {"version": "2.27.5", "packages": []},
    "python": {"version": "3.11", "executable": "/usr/bin/python3.11"},
    "pytorch": {"version": "2.10.0", "build": "cu128", "lock": "py3.11-torch2.10.0-cu128.txt"},
    "runtime": {
        "packages": [],
        "jemalloc": "/usr/lib64/libjemalloc.so.2",
        "tcmalloc": "/usr/lib64/libtcmalloc_minimal.so.4",
    },
}

EXPECTATIONS = {
    "schema": 1,
    "gpu_count": 1,
    "gpu_model": "Tesla V100-PCIE-16GB",
    "plan": PLAN,
    "venv": "/opt/gpuwright/venvs/current",
    "smoke_device": "cuda",
    "trainer_user": "trainer",
}

READINGS = {
    "probe": {
        "schema": 1,
        "hostname": "a5-01",
        "kernel": {"running": KERNEL, "next_boot": KERNEL, "installed": [KERNEL], "with_headers": [KERNEL]},
        "secure_boot": "enabled",
        "module_key_enrolled": True,
        "gpus": [
            {
                "pci_id": PCI_ID,
                "device_id": "1db4",
                "name": "Tesla V100-PCIE-16GB",
                "architecture": "volta",
                "compute_capability": "7.0",
                "bound_driver": "nvidia",
            }
        ],
        "nvidia": {
            "loaded": {"version": "580.95.05", "flavour": "proprietary"},
            "uvm_loaded": True,
            "device_nodes": ["/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl"],
            "modules": {KERNEL: MODULE},
            "dkms": [],
            "user_space": "580.95.05",
            "nvidia_smi": True,
        },
        "nouveau_loaded": False,
        "reboot": {"required": False, "reasons": []},
    },
    "nvidia_smi": {
        "reachable": True,
        "rc": 0,
        "status": "ok",
        "message": "1 GPU",
        "action": "",
        "driver_version": "580.95.05",
        "cuda_version": "13.0",
        "gpus": [
            {
                "name": "Tesla V100-PCIE-16GB",
                "pci_id": PCI_ID,
                "architecture": "volta",
                "persistence_mode": "Enabled",
                "ecc_mode": "Enabled",
                "mig_mode": None,
                "ecc_uncorrected_volatile": 0,
                "retired_pages_pending": False,
                "remapped_rows_pending": None,
                "remapped_rows_failure": None,
            }
        ],
    },
    "persistenced": "active",
    "trainer_user": {
        "uid": 991,
        "gids": [991],
        "groups": ["trainer"],
        "shell": "/sbin/nologin",
        "password": "locked",
    },
    "device_nodes": {
        path: {"readable": True, "writable": True, "mode": "0666", "owner": "0:0"}
        for path in ("/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl")
    },
    "cuda": {
        "version_file": "12.9.1",
        "nvcc": "12.9",
        "link": "/usr/local/cuda-12.9",
        "prefix": "/usr/local/cuda-12.9",
    },
    "cudnn": {"header": "9.10.2", "library": "9.10.2"},
    "nccl": {"library": "2.27.5"},
    "allocators": {
        "jemalloc": {"path": "/usr/lib64/libjemalloc.so.2", "problem": "none"},
        "tcmalloc": {"path": "/usr/lib64/libtcmalloc_minimal.so.4", "problem": "none"},
    },
    "launcher": {"file": {"is_file": True, "executable": True, "mode": "0755", "unsafe": ""}, "policy": "ok"},
    "venv": {
        "python": "3.11.2",
        "imports": {"torch": "ok", "numpy": "ok", "gan_trainer": "ok"},
        "versions": {"torch": "2.10.0+cu128", "numpy": "2.3.1", "gan_trainer": "0.1.0"},
        "torch": {
            "build": "cu128",
            "cudnn": "91002",
            "cuda_available": True,
            "architectures": ["sm_70", "sm_75", "sm_80", "sm_90", "sm_120"],
        },
    },
    "permissions": {"missing": [], "looked_at": 31234, "unsafe_count": 0, "unsafe": []},
}


def readings() -> dict:
    return copy.deepcopy(READINGS)


def expectations(**changes: object) -> dict:
    return {**copy.deepcopy(EXPECTATIONS), **changes}


def put(record: object, path: tuple, value: object) -> None:
    """Set the value at `path`, a sequence of keys and list indexes."""
    for key in path[:-1]:
        record = record[key]
    record[path[-1]] = value


def leaves(record: object, path: tuple = ()) -> list[tuple]:
    """Paths of every value in nested records and lists, containers included."""
    found = [path] if path else []
    members = record.items() if isinstance(record, dict) else enumerate(record) if isinstance(record, list) else ()
    for key, value in members:
        found += leaves(value, (*path, key))
    return found


SMOKE = {
    "schema": 1,
    "torch": "2.10.0+cu128",
    "device": "cuda",
    "problems": [],
    "devices": [
        {
            "device": "cuda:0",
            "amp_dtype": "float16",
            "amp_dtype_because": "compute capability 7.0 has no bfloat16",
            "fp32": {"steps_applied": 20, "steps_skipped": 0, "parameters_changed": True},
            "amp": {"steps_applied": 18, "steps_skipped": 2, "parameters_changed": True},
        }
    ],
}


def smoke() -> dict:
    return copy.deepcopy(SMOKE)


def put_node(host: HostTree) -> None:
    """The files of that node, for readers that start at a root folder."""
    host.running_kernel(KERNEL)
    host.kernel(KERNEL, headers=True)
    host.pci_device(PCI_ID)
    host.bind(PCI_ID, "nvidia")
    host.put("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23\n")
    host.put("/sys/module/nvidia_uvm/refcnt", "0\n")
    host.put("/sys/firmware/efi/efivars/SecureBoot-8be4df61", b"\x06\0\0\0\x01")
    host.put("/var/lib/dkms/mok.pub", "certificate")
    host.put("/usr/lib64/libnvidia-ml.so.580.95.05")
    host.link("/usr/lib64/libnvidia-ml.so.1", "libnvidia-ml.so.580.95.05")
    host.put("/usr/bin/nvidia-smi")
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        host.put(f"/dev/{name}")
        (host.folder / "dev" / name).chmod(0o666)
    host.put("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\ntrainer:x:991:991::/var/lib/trainer:/sbin/nologin\n")
    host.put("/etc/group", "root:x:0:\nwheel:x:10:alice\ntrainer:x:991:\n")
    host.put("/etc/shadow", "root:$6$abc:19000::::::\ntrainer:!!:19000::::::\n")
    host.put("/usr/local/cuda-12.9/version.json", '{"cuda": {"name": "CUDA SDK", "version": "12.9.1"}}')
    put_program(host, "/usr/local/cuda-12.9/bin/nvcc", "echo 'Cuda compilation tools, release 12.9, V12.9.86'")
    host.link("/etc/alternatives/cuda", "/usr/local/cuda-12.9")
    host.link("/usr/local/cuda", "/etc/alternatives/cuda")
    header = "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 10\n#define CUDNN_PATCHLEVEL 2\n#define CUDNN_VERSION 91002\n"
    host.put("/usr/include/cudnn_version.h", header)
    for name, version in (("libcudnn", "9.10.2"), ("libnccl", "2.27.5")):
        host.put(f"/usr/lib64/{name}.so.{version}")
        host.link(f"/usr/lib64/{name}.so.{version.split('.')[0]}", f"{name}.so.{version}")
    for path in (PLAN["runtime"]["jemalloc"], PLAN["runtime"]["tcmalloc"]):
        host.put(path, ELF_LIBRARY)
    put_program(host, "/usr/local/bin/gpu-run", "exit 0")
    put_program(host, "/usr/local/bin/gpu-doctor", "exit 0")
    host.put("/etc/gpuwright/expectations.json", json.dumps(EXPECTATIONS))
    host.put("/usr/local/lib/gpuwright/gpuwright/__init__.py")
    put_program(
        host, "/opt/gpuwright/venvs/abc/bin/python", f"echo noise\ncat <<'E'\n{json.dumps(READINGS['venv'])}\nE"
    )
    host.link("/opt/gpuwright/venvs/current", "abc")


def put_program(host: HostTree, path: str, script: str) -> None:
    host.put(path, f"#!/bin/sh\n{script}\n")
    (host.folder / path.lstrip("/")).chmod(0o755)


def put_commands(write: Callable[[str, str], object]) -> None:
    """What the node's programs answer; `write(name, script)` puts one of them into PATH."""
    answers = {
        "nvidia-smi": f"cat {DATA}/nvidia_smi/580-v100.xml",
        "systemctl": "echo active",
        "modinfo": "printf 'version:        580.95.05\\nlicense:        NVIDIA\\n'",
        "dkms": f"echo 'nvidia/580.95.05, {KERNEL}, x86_64: installed'",
        "mokutil": "echo /var/lib/dkms/mok.pub is already enrolled",
        "grubby": f"echo /boot/vmlinuz-{KERNEL}",
    }
    for name, script in answers.items():
        write(name, f"#!/bin/sh\n{script}\n")
