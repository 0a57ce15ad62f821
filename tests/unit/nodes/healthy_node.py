"""A node on which every check passes, as `checks.collect` would describe it; tests break one value at a time."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

from gpuwright.training.performance import record

DATA = Path(__file__).parents[1] / "data"

KERNEL = "4.18.0-477.10.1.el8_8.x86_64"
PCI_ID = "0000:3b:00.0"
BRIDGE = "0000:3a:00.0"
# The device nodes and their numbers, of those that the kernel keeps for local use.
NODES = {"nvidia0": (240, 0), "nvidiactl": (240, 255), "nvidia-uvm": (241, 0)}
# The serial number of the certificate that DKMS made on this node.
MOK = "27ed54a1d5af8748948d9f8932ee9c7c34a0b1c2"
MODULE = {"version": "580.95.05", "flavour": "proprietary", "licence": "NVIDIA"}

KERNEL_LOG = f"""\
[    0.000000] a5-01 kernel: Linux version {KERNEL} (mockbuild@x86-vm) (gcc version 8.5.0)
[    5.123456] a5-01 kernel: NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23
"""

# What nvidia-ctk 1.19 writes for one card, shortened (docs.nvidia.com, "Support for Container Device Interface").
CDI = """\
---
cdiVersion: 0.5.0
containerEdits:
  deviceNodes:
  - path: /dev/nvidia-uvm
  - path: /dev/nvidiactl
  hooks:
  - args: [nvidia-cdi-hook, update-ldcache, --folder, /usr/lib64]
    hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
  mounts:
  - containerPath: /usr/lib64/libcuda.so.580.95.05
    hostPath: /usr/lib64/libcuda.so.580.95.05
    options: [ro, nosuid, nodev, bind]
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: "0"
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: all
kind: nvidia.com/gpu
"""

PLAN = {
    "schema": 1,
    "driver": {
        "branch": "580",
        "flavour": "proprietary",
        "stream": "580-dkms",
        "module": "nvidia",
        "version": "",
        "source": "nvidia",
    },
    "cuda": {
        "version": "12.9",
        "package": "cuda-toolkit-12-9",
        "prefix": "/usr/local/cuda-12.9",
        "link": "/usr/local/cuda",
    },
    "cudnn": {"version": "9.10.2", "packages": [], "header": "/usr/include/cudnn_version.h"},
    "nccl": {"version": "2.27.5", "packages": []},
    "python": {"version": "3.11", "executable": "/usr/bin/python3.11"},
    "pytorch": {"version": "2.10.0", "build": "cu128", "lock": "py3.11-torch2.10.0-cu128.txt", "locked": True},
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
    "modules": [],
    "services": [],
    "host": {},
    "link_width": 0,
    "slowdowns": [],
    "skip_checks": {},
    "started_as": "checkout",
    "data_dir": "/srv/gan/data",
    "runs_dir": "/srv/gan/runs",
}

# What gan_trainer.performance says of a V100 that is as fast as others have measured.
MEASURED = {
    "device": "cuda:0",
    "name": "Tesla V100-PCIE-16GB",
    "pci_id": PCI_ID,
    "measures": {
        "h2d_gb_s": 12.3,
        "d2h_gb_s": 12.9,
        "h2d_remote_gb_s": 9.5,
        "d2h_remote_gb_s": 8.7,
        "link_gt_s": 8.0,
        "copy_gb_s": 751.0,
        "matmul_fp16_tflops": 88.0,
        "matmul_bf16_tflops": None,
        "matmul_tf32_tflops": None,
        "matmul_fp32_tflops": 13.2,
        "p2p_gb_s": None,
    },
    "left_out": {
        "matmul_bf16_tflops": "compute capability 7.0 has bfloat16 by emulation only",
        "matmul_tf32_tflops": "compute capability 7.0 has no TF32",
        "p2p_gb_s": "there is no second GPU",
    },
}


def measured(number: int, name: str = "NVIDIA A100-SXM4-80GB", **changes: float) -> list[dict]:
    """What it says of `number` such cards."""
    good = {"h2d_gb_s": 25.0, "d2h_gb_s": 26.0, "h2d_remote_gb_s": 20.0, "d2h_remote_gb_s": 19.0, "link_gt_s": 16.0}
    good.update(copy_gb_s=1700.0, matmul_fp16_tflops=270.0, matmul_bf16_tflops=271.0, matmul_tf32_tflops=130.0)
    good.update(matmul_fp32_tflops=19.0, p2p_gb_s=270.0, **changes)
    common = {"name": name, "pci_id": PCI_ID, "left_out": {}, "measures": good}
    return [{"device": f"cuda:{index}", **copy.deepcopy(common)} for index in range(number)]


def performance_of(number: int, busbw: float | None = None, name: str = "NVIDIA A100-SXM4-80GB") -> dict:
    """The report's record of them."""
    reduced = busbw and {"gpus": number, "value": busbw}
    return record(measured(number, name), reduced or None, [], f"measured on {number} idle GPUs", [])


DISK_HEALTH = {"passed": True, "critical_warning": 0, "percentage_used": 3}
READINGS = {
    "probe": {
        "schema": 1,
        "hostname": "a5-01",
        "kernel": {
            "running": KERNEL,
            "next_boot": KERNEL,
            "installed": [KERNEL],
            "with_headers": [KERNEL],
            "boot_id": "3f0c2a9e-5d41-4c1b-9a77-6f2f0d1e8b54",
        },
        "cpu": {"model": "Intel Xeon Gold 6148", "sockets": 2, "physical_cores": 20, "logical_cpus": 20},
        "memory_mib": 128000,
        "secure_boot": "enabled",
        "secure_boot_because": "",
        "module_key": {
            "private_key": "/var/lib/dkms/mok.key",
            "certificate": "/var/lib/dkms/mok.pub",
            "made": True,
            "state": "enrolled",
            "because": "",
        },
        "module_key_enrolled": True,
        "module_signature": {
            "kernel": KERNEL,
            "signer": "DKMS module signing key",
            "trusted": True,
            "because": "",
        },
        "gpus": [
            {
                "pci_id": PCI_ID,
                "device_id": "1db4",
                "name": "Tesla V100-PCIE-16GB",
                "architecture": "volta",
                "compute_capability": "7.0",
                "bound_driver": "nvidia",
                "numa_node": 0,
                "local_cpus": "0-9",
                "link": {
                    "speed_now": "8.0 GT/s PCIe",
                    "speed_max": "8.0 GT/s PCIe",
                    "width_now": 16,
                    "width_max": 16,
                    "slot_width_max": 16,
                },
            }
        ],
        "numa": {"0": {"cpus": "0-9", "memory_mib": 64000}, "1": {"cpus": "10-19", "memory_mib": 64000}},
        "disks": {
            "/": {"free_mib": 50000, "free_inodes": 1000000},
            "/boot": {"free_mib": 600, "free_inodes": 500000},
            "/opt": {"free_mib": 45000, "free_inodes": 900000},
            "/var": {"free_mib": 40000, "free_inodes": 800000},
        },
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
    "file_systems": [
        {
            "use": use,
            "folder": folder,
            "there": True,
            "mount": mount,
            "kind": "xfs",
            "read_only": False,
            "free_mib": free,
            "free_inodes": files,
        }
        for use, folder, mount, free, files in (
            ("system", "/", "/", 50000, 1000000),
            ("boot", "/boot", "/boot", 600, 500000),
            ("state", "/var", "/var", 40000, 800000),
            ("environment", "/opt/gpuwright", "/opt", 45000, 900000),
            ("data", "/srv/gan/data", "/srv", 70000, 900000),
            ("runs", "/srv/gan/runs", "/srv", 70000, 900000),
        )
    ],
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
                "uuid": "GPU-00000000-1111-2222-3333-000000000001",
                "lost": False,
                "memory_total_mib": 16384,
                "memory_used_mib": 0,
                "temperature_c": 34,
                "power_draw_w": 25.01,
                "power_limit_w": 250.0,
                "recovery_action": "none",
                "throttle_reasons": ["gpu_idle"],
                "processes": [],
                "health": {
                    "vbios": "88.00.48.00.02",
                    "compute_mode": "Default",
                    "ecc_pending": "Enabled",
                    "ecc_corrected_volatile": 0,
                    "sram_uncorrected_aggregate": None,
                    "sram_threshold_exceeded": None,
                    "retired_pages_single_bit": 0,
                    "retired_pages_double_bit": 0,
                    "remapped_rows_uncorrected": None,
                    "temperature_slowdown_c": 87,
                    "temperature_margin_c": None,
                    "power_default_w": 250.0,
                    "utilization_percent": 0,
                    "link_width_now": 16,
                    "link_width_max": 16,
                    "pcie_replays": 0,
                    "bar1_total_mib": 16384,
                    "fabric_state": None,
                    "fabric_status": None,
                    "performance_state": "P0",
                    "clocks_applied": "877,1245",
                    "clocks_default": "877,1245",
                    "unrepairable_memory": None,
                    "gsp_firmware": None,
                    "inforom_image": "G500.0200.00.03",
                    "virtualization": "None",
                    "vgpu_license": None,
                    "addressing_mode": "HMM",
                    "c2c_mode": None,
                    "mig_pending": None,
                    "mig_uncorrected_volatile": None,
                    "sram_uncorrected_sources": None,
                    "dram_uncorrected_aggregate": 0,
                    "channel_repair_pending": None,
                    "tpc_repair_pending": None,
                    "remapped_rows_corrected": None,
                    "spare_rows_low": None,
                    "spare_rows_none": None,
                    "temperature_memory_c": 33,
                    "temperature_memory_max_c": None,
                    "fan_speed": None,
                    "module_power_default_w": None,
                    "module_power_limit_w": None,
                    "throttled_by_heat_us": 0,
                    "throttled_by_brake_us": 0,
                    "link_gen_now": 3,
                    "link_gen_max": 3,
                    "link_gen_card": 3,
                    "link_gen_host": 3,
                    "pcie_replay_rollovers": 0,
                    "fabric_clique": None,
                    "fabric_cluster": None,
                    "fabric_summary": None,
                    "fabric_bandwidth": None,
                    "fabric_route_recovery": None,
                    "fabric_route_unhealthy": None,
                    "fabric_access_timeout": None,
                    "fabric_configuration": None,
                    "fabric_partition": None,
                },
            }
        ],
        "warnings": [],
    },
    "fabric_manager": "active",
    "fabric_manager_version": "580.95.05",
    "switches": 0,
    "driver_files": {
        "libraries": {"libcuda.so.1": "580.95.05", "libnvidia-ml.so.1": "580.95.05"},
        "nvidia_smi": {"is_file": True, "executable": True, "mode": "0755", "unsafe": ""},
    },
    "host": {
        "container": None,
        "clock_source": "tsc",
        "governors": ["performance"],
        "blocked_tasks": {"nvidia": [], "others": []},
        "environment": [],
        "swap_mib": 4095,
        "uptime_s": 86400.0,
    },
    "parameters": {
        "asked": [
            {"name": "DeviceFileMode", "value": "0660", "source": "/etc/modprobe.d/nvidia.conf"},
            {"name": "TemporaryFilePath", "value": "/var", "source": "/proc/cmdline"},
        ],
        "loaded": {"DeviceFileMode": "432", "EnableMSI": "1", "TemporaryFilePath": '"/var"'},
    },
    "kernel_modules": {},
    "device_links": {f"/dev/{name}": True for name in NODES},
    "services": {
        "toolkit": [
            {"unit": "gpuwright-boot-check.service", "active": "inactive", "enabled": "enabled"},
            {"unit": "gpuwright-check.timer", "active": "active", "enabled": "enabled"},
        ],
        "inventory": [],
    },
    "tuning": [{"name": "vm.swappiness", "wanted": "10", "found": "10", "reason": "Keep the trainer in memory."}],
    "containers": {
        "engine": "podman",
        "program": True,
        "spec": {"kind": "nvidia.com/gpu", "all": True, "cards": ["/dev/nvidia0"], "driver": "580.95.05"},
        "others": [],
    },
    "confinement": {
        "manager": None,
        "job": "",
        "cards": ["/dev/nvidia0"],
        "denied": [],
        "granted": False,
        "hidden": False,
    },
    "module_signature": {
        "enforced": False,
        "file": {"signer": "DKMS module signing key", "key": MOK},
        "enrolled": [{"name": "DKMS module signing key", "numbers": [MOK, "d939395a3c4c0e2a"]}],
        "kernel": [{"name": "Rocky kernel signing key", "numbers": ["3b1c25e26fdc90bb7a3bd4d83a9f34d2d3c30d0f"]}],
    },
    "driver_packages": {
        "manager": "rpm",
        "packages": [
            {"name": name, "version": "580.95.05", "maker": "NVIDIA", "bound": True}
            for name in ("kmod-nvidia-latest-dkms", "libnvidia-ml", "nvidia-driver-cuda", "nvidia-persistenced")
        ],
        "unowned": [],
        "installer": [],
    },
    "initramfs": {"image": f"/boot/initramfs-{KERNEL}.img", "version": None},
    "kernel_log": {
        "source": "journalctl -b -q --no-pager -o short-monotonic _TRANSPORT=kernel + _TRANSPORT=driver",
        "lines": 2,
        "from_boot": True,
        "whole": True,
        "xids": [],
        "sxids": [],
        "findings": [],
    },
    "xid_policy": [],
    "persistenced": "active",
    "trainer_user": {
        "uid": 991,
        "gids": [991],
        "groups": ["trainer"],
        "shell": "/sbin/nologin",
        "password": "locked",
    },
    "device_nodes": {
        path: {"readable": True, "writable": True, "mode": "0666", "owner": "0:0", "group": "root"}
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
    "launcher": {
        "file": {"is_file": True, "executable": True, "mode": "0755", "unsafe": ""},
        "policy": "ok",
        "allocator": {"name": "malloc", "why": "not calibrated on this machine: gpu-run --calibrate -- command"},
    },
    "venv": {
        "python": "3.11.2",
        "imports": {"torch": "ok", "numpy": "ok", "gan_trainer": "ok"},
        "versions": {"torch": "2.10.0+cu128", "numpy": "2.3.1", "gan_trainer": "0.1.0"},
        "torch": {
            "build": "cu128",
            "cudnn": "91002",
            "cuda_available": True,
            "architectures": ["sm_70", "sm_75", "sm_80", "sm_90", "sm_120"],
            "devices": [
                {
                    "index": 0,
                    "name": "Tesla V100-PCIE-16GB",
                    "capability": "7.0",
                    "memory_mib": 16151,
                    "multiprocessors": 80,
                    "tensor_cores": True,
                }
            ],
            "product": "right on cpu, cuda:0",
        },
    },
    "environment": {
        "distributions": 2,
        "files": 2,
        "hashed": 0,
        "problem_count": 0,
        "problems": [],
        "damaged": [],
    },
    "stamp": {"schema": 1, "python": "3.11", "pytorch": PLAN["pytorch"]},
    "permissions": {"missing": [], "looked_at": 31234, "unsafe_count": 0, "unsafe": []},
    "nvlink": None,
    "gpu_ways": None,
    "machine": "none",
    "isolation": [{"pci_id": PCI_ID, "iommu": "identity", "bridges": [{"pci_id": BRIDGE, "acs": "off"}]}],
    "infiniband": None,
    "disks": [{"name": "nvme0n1", "model": "INTEL SSDPE2KX010T8", "state": "live", "health": DISK_HEALTH}],
    "acknowledgements": [],
    "strikes": {"cards": [], "slots": {}},
    "performance": record([MEASURED], None, [], "measured on 1 idle GPUs as user trainer", []),
}


NVLINK = {"index": 0, "name": "NVIDIA A100-SXM4-80GB", "wired": True, "links": 12, "active": 12}
TWO_APART = [
    {"pci_id": PCI_ID, "iommu": "identity", "bridges": [{"pci_id": BRIDGE, "acs": "off"}]},
    {"pci_id": "0000:5e:00.0", "iommu": "off", "bridges": [{"pci_id": "0000:5d:00.0", "acs": "absent"}]},
]
HEALTH = ("nvidia_smi", "gpus", 0, "health")
IN_FABRIC = {
    (*HEALTH, "fabric_state"): "Completed",
    (*HEALTH, "fabric_status"): "Success",
    (*HEALTH, "fabric_clique"): "0",
    (*HEALTH, "fabric_cluster"): "00000000-0000-0000-0000-000000000001",
}
# Checks that make sense on other nodes only, and what makes this one such a node; a path begins in the readings, or in
# the expectations or the smoke test when its first word says so.
OTHER_NODES: dict[str, dict[tuple, object]] = {
    "gpu.sram": {("nvidia_smi", "gpus", 0, "health", "sram_uncorrected_aggregate"): 0},
    "gpu.remapped_rows_count": {("nvidia_smi", "gpus", 0, "health", "remapped_rows_uncorrected"): 0},
    "gpu.fabric": IN_FABRIC,
    "gpu.fabric_domain": IN_FABRIC,
    **{
        f"gpu.{name}": {(*HEALTH, name): value}
        for name, value in (
            ("fabric_summary", "Healthy"),
            ("fabric_bandwidth", "Full"),
            ("fabric_route_unhealthy", False),
            ("fabric_route_recovery", False),
            ("fabric_access_timeout", False),
            ("fabric_configuration", "None"),
            ("fabric_partition", True),
            ("unrepairable_memory", False),
        )
    },
    "gpu.channel_repair": {(*HEALTH, "channel_repair_pending"): False},
    "gpu.tpc_repair": {(*HEALTH, "tpc_repair_pending"): False},
    "gpu.spare_rows": {(*HEALTH, "spare_rows_none"): 0, (*HEALTH, "spare_rows_low"): 0},
    "gpu.mig_errors": {(*HEALTH, "mig_uncorrected_volatile"): 0},
    "gpu.vgpu_license": {(*HEALTH, "virtualization"): "VGPU", (*HEALTH, "vgpu_license"): "Licensed"},
    "gpu.fan": {(*HEALTH, "fan_speed"): 0},
    "gpu.module_power": {(*HEALTH, "module_power_limit_w"): 2500.0, (*HEALTH, "module_power_default_w"): 2500.0},
    "gpu.c2c": {("nvidia_smi", "gpus", 0, "name"): "NVIDIA GB200", (*HEALTH, "c2c_mode"): "Enabled"},
    "gpu.addressing_mode": {("nvidia_smi", "gpus", 0, "name"): "NVIDIA GB200", (*HEALTH, "addressing_mode"): "ATS"},
    "gpu.gsp_firmware": {(*HEALTH, "gsp_firmware"): "580.95.05"},
    "gpu.iommu": {("isolation",): TWO_APART, ("expectations", "gpu_count"): 2},
    "gpu.acs": {("isolation",): TWO_APART, ("expectations", "gpu_count"): 2},
    "driver.modules": {("kernel_modules",): {"gdrdrv": "live"}, ("expectations", "modules"): ["gdrdrv"]},
    "host.size": {("expectations", "host"): {"sockets": 2, "cpus": 20, "memory_gib": 128, "swap_gib": 4}},
    "driver.fabric_manager": {("switches",): 4},
    "gpu.nvlink": {("nvlink",): [{**NVLINK, "errors": {"replay": 0}}]},
    "gpu.nvlink_errors": {("nvlink",): [{**NVLINK, "errors": {"replay": 0}}]},
    "gpu.topology": {("gpu_ways",): [["X", "NV12"], ["NV12", "X"]], ("expectations", "gpu_count"): 2},
    "host.infiniband": {
        ("infiniband",): [
            {
                "name": "mlx5_0 port 1",
                "state": "ACTIVE",
                "physical": "LinkUp",
                "rate": "100 Gb/sec (4X EDR)",
                "layer": "InfiniBand",
                "link_downed": 0,
            }
        ]
    },
    "smoke.parallel": {
        ("expectations", "gpu_count"): 2,
        ("smoke", "parallel"): {
            "ranks": 2,
            "backend": "nccl",
            "steps_applied": 20,
            "steps_skipped": 0,
            "parameters_equal": True,
            "gradients_equal": True,
            "parameters_changed": True,
        },
    },
    **{
        f"performance.{name}": {("performance",): performance_of(2), ("expectations", "gpu_count"): 2}
        for name in ("matmul_bf16", "matmul_tf32", "p2p", "spread")
    },
    "performance.all_reduce": {("performance",): performance_of(8, 231.0), ("expectations", "gpu_count"): 8},
}
ELSEWHERE = ("expectations", "smoke")


def copied(value: Any) -> Any:
    """As copy.deepcopy, and several times faster for records of plain values: tests ask for ten thousands of them."""
    return pickle.loads(pickle.dumps(value))


def readings(check_id: str = "") -> dict:
    """The node's readings; with the name of a check, those of a healthy node on which it is no SKIP."""
    found = copied(READINGS)
    for path, value in OTHER_NODES.get(check_id, {}).items():
        if path[0] not in ELSEWHERE:
            put(found, path, copied(value))
    return found


def expectations(**changes: object) -> dict:
    return {**copied(EXPECTATIONS), **changes}


def elsewhere(check_id: str, part: str) -> dict:
    """The expectations of, or the smoke test on, a healthy node on which that check is no SKIP."""
    found = copied({"expectations": EXPECTATIONS, "smoke": SMOKE}[part])
    for path, value in OTHER_NODES.get(check_id, {}).items():
        if path[0] == part:
            put(found, path[1:], copied(value))
    return found


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
            "speed_ratio": 2.2,
        }
    ],
    "parallel": None,
    "limits": {"memlock": "infinity", "files": "1048576"},
    "sandbox": "train-gan@.service",
    "sandbox_because": "all 15 settings of train-gan@.service",
}


def smoke() -> dict:
    return copied(SMOKE)
