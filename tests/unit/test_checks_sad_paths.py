"""Every check can fail: one broken node per row, with the status and the words that it must end in."""

from __future__ import annotations

import healthy_node
import node_rows
import pytest
from gpuwright.checks import CHECKS, run_checks
from gpuwright.checks_framework import runs_on
from gpuwright.verdict import DEEP, FAIL, PASS, SKIP, UNKNOWN, WARN
from healthy_node import KERNEL, NVLINK, PCI_ID, performance_of

GPU = ("probe", "gpus", 0)
SMI = ("nvidia_smi",)
SMI_GPU = ("nvidia_smi", "gpus", 0)
NVIDIA = ("probe", "nvidia")
DOWN = {
    "reachable": False,
    "rc": 9,
    "status": "driver_not_loaded",
    "message": "not loaded",
    "action": "modprobe nvidia",
}
SECOND = {**healthy_node.READINGS["probe"]["gpus"][0], "pci_id": "0000:5e:00.0"}
A100 = {
    **healthy_node.READINGS["nvidia_smi"]["gpus"][0],
    "name": "NVIDIA A100-PCIE-40GB",
    "architecture": "ampere",
    "retired_pages_pending": None,
    "remapped_rows_pending": False,
    "remapped_rows_failure": False,
}
GEFORCE = {
    **healthy_node.READINGS["nvidia_smi"]["gpus"][0],
    "name": "NVIDIA GeForce RTX 3090",
    "ecc_mode": None,
    "ecc_uncorrected_volatile": None,
    "retired_pages_pending": None,
}
ON_CPU = {**healthy_node.SMOKE, "device": "cpu", "devices": [{**healthy_node.SMOKE["devices"][0], "device": "cpu"}]}
KEY_ENROLLED = ("probe", "module_key_enrolled")
APPLIED = ("smoke", "devices", 0, "amp", "steps_applied")

HEALTH = (*SMI_GPU, "health")
DISKS = ("probe", "disks")
PROCESS = {"pid": 4321, "type": "C", "name": "python3", "used_memory_mib": 900}
V100 = healthy_node.READINGS["nvidia_smi"]["gpus"][0]
TWO_FIRMWARES = [V100, {**V100, "health": {**V100["health"], "vbios": "88.00.48.00.03"}}]
LOG = ("kernel_log",)
STAMP = ("stamp", "pytorch")
TUNING = ("tuning", 0)
CONTAINERS = ("containers",)
SPEC = ("containers", "spec")
TUNED_POWER = {"name": "gpu_power_limit", "wanted": "200", "found": "200", "reason": "The power supply is small."}
TUNED_CPU = {"name": "cpu_governor", "wanted": "schedutil", "found": "schedutil", "reason": "Quiet at night."}
LINKS = ("nvlink",)
WAYS = ("gpu_ways",)
PORTS = ("infiniband",)
DISK = ("disks", 0)
SPEED = ("performance",)
MEASURE = (*SPEED, "devices", 0, "measures")
BUSY = {**healthy_node.READINGS["performance"], "devices": [], "busy": ["0000:3b:00.0: python3 (pid 4321)"]}
CPU_SPEED = {**healthy_node.READINGS["performance"], "devices": [{"device": "cpu", "name": "CPU"}]}
PRODUCT = ("venv", "torch", "product")
RATIO = ("smoke", "devices", 0, "speed_ratio")
PARALLEL = healthy_node.OTHER_NODES["smoke.parallel"]["smoke", "parallel"]


def link(active: int, errors: dict | None = None, **changes: object) -> list[dict]:
    return [{**NVLINK, "active": active, "errors": {"replay": 0} if errors is None else errors, **changes}]


def port(**changes: object) -> list[dict]:
    return [{**healthy_node.OTHER_NODES["host.infiniband"][PORTS][0], **changes}]


def health(passed: bool | None = True, critical_warning: int | None = 0, percentage_used: int | None = 3) -> dict:
    return {"passed": passed, "critical_warning": critical_warning, "percentage_used": percentage_used}


def two_fast(**changes: object) -> dict:
    """Two equal cards, of which the second has these measures."""
    found = performance_of(2)
    for name, value in changes.items():
        found["devices"][1]["measures"][name]["value"] = value
    return found


def without(measure: str, problem: str | None) -> dict:
    """The V100 with a measure that failed, or that nobody says anything of."""
    found = healthy_node.readings()["performance"]
    found["devices"][0]["measures"][measure] = None
    return {**found, "problems": [problem] if problem else []}


def parallel(**changes: object) -> dict:
    return {("smoke", "parallel"): {**PARALLEL, **changes}}


def below(measure: str, floor: float) -> list[tuple]:
    """The rows of a measure around the floor of its model: below, at it, at the end of the band, and above."""
    name = f"performance.{measure.split('_gb_s')[0].split('_tflops')[0]}"
    path = (*MEASURE, measure, "value")
    band = round(floor * 1.05, 3)
    return [
        (name, {path: floor - 0.001}, {}, FAIL, f"floor {floor:g}"),
        (name, {path: floor}, {}, WARN, f"floor {floor:g}"),
        (name, {path: band - 0.001}, {}, WARN, f"floor {floor:g}"),
        (name, {path: band}, {}, PASS, f"floor {floor:g}"),
    ]


XID_79 = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus."


def event(code: int, text: str = "NVRM: Xid") -> dict:
    return {"code": code, "pci_id": "0000:3b:00", "count": 2, "first_s": 5, "last_s": 9, "text": text}


def kernel_said(kind: str) -> dict:
    return {"kind": kind, "count": 3, "first_s": 5, "last_s": 9, "text": "what it said"}


# (check, {path in the readings: value}, {expectation: value}, status, words of the message)
CASES = [
    ("gpu.count", {("probe", "gpus"): []}, {}, FAIL, "0 of 1 expected"),
    ("gpu.count", {}, {"gpu_count": 2}, FAIL, "1 of 2 expected"),
    ("gpu.count", {}, {"gpu_count": 0}, FAIL, "1 of 0 expected"),
    ("gpu.count", {("probe", "gpus", 0): SECOND}, {}, FAIL, "does not show 0000:5e:00.0"),
    ("gpu.count", {(*SMI, "gpus"): [healthy_node.READINGS["nvidia_smi"]["gpus"][0]] * 2}, {}, FAIL, "shows 2 of 1"),
    ("gpu.count", {SMI: DOWN}, {}, UNKNOWN, "driver cannot be asked"),
    ("gpu.model", {(*GPU, "name"): "Tesla T4"}, {}, FAIL, "Tesla T4 instead of Tesla V100"),
    ("gpu.model", {(*GPU, "name"): "unknown 10de:9999"}, {}, UNKNOWN, "no name for unknown 10de:9999"),
    ("gpu.model", {("probe", "gpus"): []}, {}, FAIL, "no GPU"),
    ("gpu.model", {}, {"gpu_model": ""}, SKIP, "names no model; this node has Tesla V100"),
    (
        "gpu.model",
        {("probe", "gpus"): [{"name": "Tesla T4"}, {"name": "Tesla V100-PCIE-16GB"}]},
        {"gpu_model": ""},
        FAIL,
        "different models",
    ),
    ("gpu.bound_driver", {(*GPU, "bound_driver"): None}, {}, FAIL, f"{PCI_ID} has none"),
    ("gpu.bound_driver", {(*GPU, "bound_driver"): "vfio-pci"}, {}, FAIL, "vfio-pci"),
    ("gpu.bound_driver", {(*GPU, "bound_driver"): "nouveau"}, {}, FAIL, "nouveau"),
    ("gpu.bound_driver", {("probe", "gpus"): []}, {}, UNKNOWN, "no GPU"),
    ("driver.reachable", {SMI: DOWN}, {}, FAIL, "not loaded"),
    ("driver.reachable", {(*SMI, "status"): "timeout", (*SMI, "reachable"): False}, {}, FAIL, ""),
    ("driver.reachable", {(*SMI, "status"): "reset_required"}, {}, FAIL, ""),
    ("driver.reachable", {(*SMI, "status"): "unreadable", (*SMI, "reachable"): False}, {}, UNKNOWN, ""),
    ("driver.reachable", {(*SMI, "reachable"): False}, {}, UNKNOWN, ""),
    ("driver.version", {(*NVIDIA, "loaded"): None}, {}, FAIL, "no nvidia module"),
    ("driver.version", {(*NVIDIA, "loaded", "version"): "535.261.03"}, {}, FAIL, "nvidia-smi says 580.95.05"),
    ("driver.version", {(*NVIDIA, "loaded", "version"): "535.261.03", SMI: DOWN}, {}, FAIL, "instead of 580.*"),
    ("driver.version", {(*NVIDIA, "loaded", "version"): "5801.1", SMI: DOWN}, {}, FAIL, "5801.1 instead of 580.*"),
    ("driver.version", {(*SMI, "driver_version"): "580.1"}, {}, FAIL, "580.95.05"),
    ("driver.version", {}, {"driver.version": "580.105.08"}, FAIL, "580.95.05 instead of 580.105.08"),
    ("driver.version", {}, {"driver.version": "580.95.05"}, PASS, "580.95.05"),
    ("driver.flavour", {(*NVIDIA, "loaded"): None}, {}, FAIL, "no nvidia module"),
    ("driver.flavour", {(*NVIDIA, "loaded", "flavour"): "open"}, {}, FAIL, "open module is loaded instead"),
    ("driver.module_matches_user_space", {(*NVIDIA, "loaded"): None}, {}, FAIL, "no nvidia module"),
    ("driver.module_matches_user_space", {(*NVIDIA, "user_space"): None}, {}, FAIL, "not installed"),
    ("driver.module_matches_user_space", {(*NVIDIA, "user_space"): "580.105.08"}, {}, FAIL, "libraries are 580.105.08"),
    ("driver.module_for_next_kernel", {(*NVIDIA, "modules", KERNEL): None}, {}, FAIL, f"no module for kernel {KERNEL}"),
    ("driver.module_for_next_kernel", {("probe", "kernel", "next_boot"): "4.18.0-553"}, {}, UNKNOWN, "4.18.0-553"),
    (
        "driver.module_for_next_kernel",
        {(*NVIDIA, "modules", KERNEL, "version"): "535.1"},
        {},
        FAIL,
        "535.1 proprietary for kernel",
    ),
    ("driver.module_for_next_kernel", {(*NVIDIA, "modules", KERNEL, "flavour"): "open"}, {}, FAIL, "580.95.05 open"),
    ("driver.module_for_next_kernel", {(*NVIDIA, "user_space"): None}, {}, FAIL, "not installed"),
    ("driver.nouveau_absent", {("probe", "nouveau_loaded"): True}, {}, FAIL, "nouveau is loaded"),
    ("driver.nouveau_absent", {("probe", "gpus"): []}, {}, UNKNOWN, "sysfs shows no GPU"),
    ("driver.persistence", {("persistenced",): "inactive"}, {}, WARN, "nvidia-persistenced is inactive"),
    ("driver.persistence", {(*SMI_GPU, "persistence_mode"): "Disabled"}, {}, WARN, PCI_ID),
    ("driver.persistence", {SMI: DOWN}, {}, UNKNOWN, "cannot be asked"),
    ("driver.persistence", {(*SMI, "gpus"): []}, {}, WARN, "no GPU at all"),
    ("driver.device_nodes", {("device_nodes",): {}}, {}, FAIL, "0 of 1 /dev/nvidiaN"),
    ("driver.device_nodes", {}, {"gpu_count": 2}, FAIL, "1 of 2 /dev/nvidiaN"),
    (
        "driver.device_nodes",
        {("device_nodes", "/dev/nvidia0", "writable"): False},
        {},
        FAIL,
        "may not use /dev/nvidia0",
    ),
    ("driver.device_nodes", {("device_nodes", "/dev/nvidia-modeset"): {"readable": False}}, {}, PASS, "may use all 3"),
    ("driver.device_nodes", {("device_nodes", "/dev/nvidiactl", "readable"): False}, {}, FAIL, "/dev/nvidiactl"),
    (
        "driver.device_nodes",
        {("device_nodes",): {"/dev/nvidia0": {"readable": True, "writable": True}}},
        {},
        FAIL,
        "/dev/nvidiactl and /dev/nvidia-uvm is missing",
    ),
    ("driver.uvm", {(*NVIDIA, "uvm_loaded"): False}, {}, FAIL, "nvidia_uvm is not loaded"),
    ("driver.ecc", {(*SMI_GPU, "ecc_mode"): "Disabled"}, {}, FAIL, f"ECC is off on {PCI_ID}"),
    ("driver.ecc", {(*SMI_GPU, "ecc_uncorrected_volatile"): 1}, {}, FAIL, f"1 on {PCI_ID}"),
    ("driver.ecc", {SMI_GPU: GEFORCE}, {}, SKIP, "no ECC"),
    ("driver.ecc", {SMI_GPU: {**GEFORCE, "ecc_mode": "Disabled"}}, {}, SKIP, "delivered with it off"),
    ("driver.ecc", {SMI: DOWN}, {}, UNKNOWN, "cannot be asked"),
    ("driver.retired_pages", {(*SMI_GPU, "retired_pages_pending"): True}, {}, FAIL, "waits to be retired"),
    ("driver.retired_pages", {(*SMI_GPU, "retired_pages_pending"): None}, {}, UNKNOWN, "says nothing"),
    ("driver.retired_pages", {SMI_GPU: A100}, {}, PASS, "no broken memory"),
    ("driver.retired_pages", {SMI_GPU: {**A100, "remapped_rows_pending": True}}, {}, FAIL, "waits"),
    ("driver.retired_pages", {SMI_GPU: {**A100, "remapped_rows_failure": True}}, {}, FAIL, "no spare memory"),
    (
        "driver.retired_pages",
        {SMI_GPU: {**A100, "remapped_rows_pending": None, "remapped_rows_failure": None, "mig_mode": "Enabled"}},
        {},
        SKIP,
        "no row remapping",
    ),
    (
        "driver.retired_pages",
        {SMI_GPU: {**A100, "remapped_rows_pending": None, "remapped_rows_failure": None, "mig_mode": "Disabled"}},
        {},
        UNKNOWN,
        "says nothing",
    ),
    ("driver.retired_pages", {SMI_GPU: GEFORCE}, {}, SKIP, "no page retirement"),
    ("driver.retired_pages", {SMI: DOWN}, {}, UNKNOWN, "cannot be asked"),
    (
        "reboot.pending",
        {("probe", "reboot"): {"required": True, "reasons": ["nouveau is loaded", "x"]}},
        {},
        FAIL,
        "reboot required: nouveau is loaded; x",
    ),
    ("secure_boot", {KEY_ENROLLED: False}, {}, WARN, "the next module"),
    (
        "secure_boot",
        {KEY_ENROLLED: False, (*NVIDIA, "loaded"): None},
        {},
        FAIL,
        "refuses the module's key",
    ),
    ("secure_boot", {KEY_ENROLLED: None}, {}, UNKNOWN, "module_key_enrolled"),
    (
        "secure_boot",
        {("probe", "secure_boot"): "disabled", KEY_ENROLLED: None},
        {},
        PASS,
        "disabled",
    ),
    ("secure_boot", {("probe", "secure_boot"): "unsupported"}, {}, PASS, "unsupported"),
    ("secure_boot", {("probe", "secure_boot"): "unsupported", ("probe", "gpus"): []}, {}, UNKNOWN, "sysfs"),
    ("secure_boot", {("probe", "secure_boot"): "maybe"}, {}, UNKNOWN, "maybe"),
    ("cuda.version", {("cuda", "version_file"): "12.8.1"}, {}, FAIL, "version.json 12.8.1 instead of 12.9"),
    ("cuda.version", {("cuda", "nvcc"): "11.8"}, {}, FAIL, "nvcc 11.8 instead of 12.9"),
    ("cuda.version", {("cuda", "nvcc"): None}, {}, FAIL, "has no nvcc"),
    ("cuda.version", {("cuda", "version_file"): None}, {}, FAIL, "has no version.json"),
    ("cuda.version", {("cuda", "version_file"): None, ("cuda", "nvcc"): None}, {}, FAIL, "no toolkit in /usr/local"),
    ("cuda.version", {("cuda", "version_file"): "12"}, {}, FAIL, "12 instead of 12.9"),
    ("cuda.version", {}, {"cuda.version": ""}, SKIP, "installs no CUDA"),
    ("cuda.version", {("cuda", "version_file"): None}, {"cuda.link": ""}, PASS, "the compiler says so"),
    ("cuda.version", {("cuda", "nvcc"): "11.5"}, {"cuda.link": ""}, FAIL, "nvcc 11.5 instead of 12.9"),
    ("cuda.version", {("cuda", "nvcc"): None}, {"cuda.link": ""}, FAIL, "has no nvcc"),
    ("cuda.link", {("cuda", "link"): None}, {"cuda.link": ""}, SKIP, "need no link"),
    ("cuda.version", {}, {"cuda.version": "12.9.0"}, FAIL, "12.9.1 instead of 12.9.0"),
    ("cuda.link", {("cuda", "link"): "/usr/local/cuda-11.8"}, {}, FAIL, "leads to /usr/local/cuda-11.8"),
    ("cuda.link", {("cuda", "link"): None}, {}, FAIL, "leads nowhere"),
    ("cuda.link", {("cuda", "prefix"): None, ("cuda", "link"): None}, {}, FAIL, "there is no /usr/local/cuda-12.9"),
    ("cuda.link", {}, {"cuda.version": ""}, SKIP, "installs no CUDA"),
    ("cudnn.version", {("cudnn", "header"): "8.9.7"}, {}, FAIL, "cuDNN header 8.9.7 instead of 9.10.2"),
    ("cudnn.version", {("cudnn", "library"): "9.11.0"}, {}, FAIL, "cuDNN library 9.11.0"),
    ("cudnn.version", {("cudnn", "header"): None}, {}, FAIL, "header of cuDNN is not there"),
    ("cudnn.version", {("cudnn", "library"): None}, {}, FAIL, "library of cuDNN is not there"),
    ("cudnn.version", {}, {"cudnn.version": ""}, SKIP, "no cuDNN"),
    ("nccl.version", {("nccl", "library"): "2.21.5"}, {}, FAIL, "NCCL 2.21.5 instead of 2.27.5"),
    ("nccl.version", {("nccl", "library"): None}, {}, FAIL, "not there"),
    ("nccl.version", {("nccl",): None}, {"nccl.version": ""}, SKIP, "no NCCL"),
    ("runtime.allocator", {("allocators", "jemalloc", "problem"): "no such file"}, {}, FAIL, "no such file"),
    ("runtime.allocator", {("allocators", "tcmalloc", "problem"): "is 32-bit"}, {}, FAIL, "is 32-bit"),
    ("runtime.allocator", {("allocators", "tcmalloc", "path"): "/tmp/x.so"}, {}, UNKNOWN, "/tmp/x.so"),
    ("runtime.allocator", {}, {"runtime.jemalloc": "", "runtime.tcmalloc": ""}, SKIP, "no allocator"),
    ("runtime.launcher", {("launcher", "file"): None}, {}, FAIL, "is not there"),
    ("runtime.launcher", {("launcher", "file", "executable"): False}, {}, FAIL, "no program"),
    ("runtime.launcher", {("launcher", "file", "is_file"): False}, {}, FAIL, "no program"),
    ("runtime.launcher", {("launcher", "file", "unsafe"): "owned by uid 1000"}, {}, FAIL, "owned by uid 1000"),
    ("runtime.launcher", {("launcher", "policy"): "is not JSON"}, {}, FAIL, "is not JSON"),
    ("runtime.launcher", {("launcher", "allocator", "name"): "mimalloc"}, {}, UNKNOWN, "mimalloc"),
    ("framework.imports", {("venv",): None}, {}, FAIL, "no venv at /opt/gpuwright/venvs/current"),
    (
        "framework.imports",
        {("venv", "imports", "torch"): "ImportError: libcudnn"},
        {},
        FAIL,
        "import torch: Imp",
    ),
    ("framework.imports", {("venv", "imports", "numpy"): "ImportError: x"}, {}, FAIL, "import numpy"),
    ("framework.pytorch_version", {("venv", "versions", "torch"): "2.9.1+cu128"}, {}, FAIL, "2.9.1+cu128 instead of"),
    ("framework.pytorch_version", {("venv",): None}, {}, UNKNOWN, "venv"),
    ("framework.cuda_build", {("venv", "torch", "build"): "cpu"}, {}, FAIL, "a cpu build, planned is cu128"),
    ("framework.cuda_build", {("venv", "torch", "cuda_available"): False}, {}, FAIL, "finds no GPU"),
    (
        "framework.cuda_build",
        {("venv", "torch", "build"): "cpu", ("venv", "torch", "cuda_available"): False},
        {"pytorch.build": "cpu"},
        PASS,
        "a cpu build",
    ),
    ("framework.cuda_build", {}, {"pytorch.build": "cpu"}, FAIL, "a cu128 build, planned is cpu"),
    ("framework.architectures", {("venv", "torch", "architectures"): ["sm_75", "sm_80"]}, {}, FAIL, "capability 7.0"),
    ("framework.architectures", {("venv", "torch", "architectures"): []}, {}, FAIL, "capability 7.0"),
    ("framework.architectures", {("venv", "torch", "cuda_available"): False}, {}, UNKNOWN, "only where it finds a GPU"),
    ("framework.architectures", {("probe", "gpus"): []}, {}, UNKNOWN, "no GPU to compare"),
    ("framework.architectures", {}, {"pytorch.build": "cpu"}, SKIP, "build for the CPU"),
    ("model.trainer_installed", {("venv",): None}, {}, FAIL, "no venv"),
    ("model.trainer_installed", {("venv", "imports", "gan_trainer"): "ModuleNotFoundError: x"}, {}, FAIL, "ModuleNot"),
    ("model.trainer_user", {("trainer_user",): None}, {}, FAIL, "no local user trainer"),
    ("model.trainer_user", {("trainer_user", "uid"): 0}, {}, FAIL, "is root"),
    ("model.trainer_user", {("trainer_user", "shell"): "/bin/bash"}, {}, FAIL, "has the shell /bin/bash"),
    ("model.trainer_user", {("trainer_user", "shell"): ""}, {}, FAIL, "has the shell /bin/sh"),
    ("model.trainer_user", {("trainer_user", "groups"): ["trainer", "wheel"]}, {}, FAIL, "in the group wheel"),
    ("model.trainer_user", {("trainer_user", "groups"): []}, {}, UNKNOWN, "no group"),
    ("model.trainer_user", {("trainer_user", "password"): "set"}, {}, FAIL, "not locked"),
    ("model.trainer_user", {("trainer_user", "password"): "empty"}, {}, FAIL, "not locked"),
    (
        "model.permissions",
        {("permissions", "unsafe_count"): 3, ("permissions", "unsafe"): ["/opt/gpuwright/x: owned by uid 9"]},
        {},
        FAIL,
        "3 files, such as /opt/gpuwright/x: owned by uid 9",
    ),
    ("model.permissions", {("permissions", "missing"): ["/opt/gpuwright"]}, {}, FAIL, "missing: /opt/gpuwright"),
    ("model.permissions", {("permissions", "unsafe"): ["/x: odd"]}, {}, FAIL, "/x: odd"),
    ("model.permissions", {("permissions", "looked_at"): 0}, {}, UNKNOWN, "no file"),
    (
        "gpu.compute_mode",
        {(*HEALTH, "compute_mode"): "Prohibited"},
        {},
        FAIL,
        "0000:3b:00.0: compute mode is Prohibited",
    ),
    ("gpu.compute_mode", {SMI: DOWN}, {}, UNKNOWN, "driver cannot be asked"),
    ("gpu.mig_mode", {(*SMI_GPU, "mig_mode"): "Enabled"}, {}, WARN, "MIG is Enabled"),
    ("gpu.mig_mode", {(*SMI_GPU, "mig_mode"): "Disabled"}, {}, PASS, "no card is cut"),
    ("gpu.ecc_pending", {(*HEALTH, "ecc_pending"): "Disabled"}, {}, WARN, "will be Disabled after a reboot"),
    ("gpu.ecc_pending", {SMI_GPU: GEFORCE}, {}, SKIP, "no ECC"),
    ("gpu.ecc_corrected", {(*HEALTH, "ecc_corrected_volatile"): 10000001}, {}, WARN, "10000001 corrected errors"),
    ("gpu.ecc_corrected", {(*HEALTH, "ecc_corrected_volatile"): 10000000}, {}, PASS, "few corrected"),
    ("gpu.ecc_corrected", {SMI_GPU: GEFORCE}, {}, SKIP, "no ECC"),
    ("gpu.sram", {(*HEALTH, "sram_uncorrected_aggregate"): 5}, {}, FAIL, "5 uncorrected errors"),
    ("gpu.sram", {(*HEALTH, "sram_uncorrected_aggregate"): 4}, {}, PASS, "few errors"),
    (
        "gpu.sram",
        {(*HEALTH, "sram_uncorrected_aggregate"): 0, (*HEALTH, "sram_threshold_exceeded"): True},
        {},
        FAIL,
        "lim",
    ),
    ("gpu.sram", {}, {}, SKIP, "does not count"),
    ("gpu.retired_pages_count", {(*HEALTH, "retired_pages_single_bit"): 60}, {}, FAIL, "60 pages retired"),
    ("gpu.retired_pages_count", {(*HEALTH, "retired_pages_single_bit"): 59}, {}, PASS, "enough spare"),
    ("gpu.retired_pages_count", {(*HEALTH, "retired_pages_double_bit"): 16}, {}, WARN, "16 of them"),
    ("gpu.retired_pages_count", {(*HEALTH, "retired_pages_double_bit"): 15}, {}, PASS, "enough spare"),
    ("gpu.retired_pages_count", {SMI_GPU: A100}, {}, SKIP, "does not retire pages"),
    ("gpu.remapped_rows_count", {(*HEALTH, "remapped_rows_uncorrected"): 512}, {}, FAIL, "512 rows"),
    ("gpu.remapped_rows_count", {(*HEALTH, "remapped_rows_uncorrected"): 511}, {}, WARN, "511 rows"),
    ("gpu.remapped_rows_count", {(*HEALTH, "remapped_rows_uncorrected"): 0}, {}, PASS, "no row"),
    ("gpu.remapped_rows_count", {}, {}, SKIP, "does not remap rows"),
    ("gpu.recovery_action", {(*SMI_GPU, "recovery_action"): "gpu reset"}, {}, FAIL, "asks for: gpu reset"),
    ("gpu.recovery_action", {(*SMI_GPU, "recovery_action"): None}, {}, SKIP, "too old"),
    ("gpu.throttle", {(*SMI_GPU, "throttle_reasons"): ["hw_thermal_slowdown"]}, {}, FAIL, "by hw_thermal_slowdown"),
    ("gpu.throttle", {(*SMI_GPU, "throttle_reasons"): ["hw_slowdown"]}, {}, FAIL, "by hw_slowdown"),
    ("gpu.throttle", {(*SMI_GPU, "throttle_reasons"): ["hw_power_brake_slowdown"]}, {}, FAIL, "power_brake"),
    ("gpu.throttle", {(*SMI_GPU, "throttle_reasons"): ["sw_thermal_slowdown"]}, {}, FAIL, "sw_thermal"),
    ("gpu.throttle", {(*SMI_GPU, "throttle_reasons"): ["gpu_idle", "sw_power_cap"]}, {}, PASS, "neither"),
    ("gpu.temperature", {(*SMI_GPU, "temperature_c"): 87}, {}, FAIL, "87 C, 0 C below"),
    ("gpu.temperature", {(*SMI_GPU, "temperature_c"): 82}, {}, WARN, "82 C, 5 C below"),
    ("gpu.temperature", {(*SMI_GPU, "temperature_c"): 81}, {}, PASS, "below the temperature"),
    ("gpu.temperature", {(*HEALTH, "temperature_slowdown_c"): None}, {}, SKIP, "names no limit"),
    (
        "gpu.temperature",
        {(*HEALTH, "temperature_slowdown_c"): None, (*HEALTH, "temperature_margin_c"): 3},
        {},
        WARN,
        "3 C below",
    ),
    ("gpu.power_limit", {(*SMI_GPU, "power_limit_w"): 200.0}, {}, WARN, "limited to 200 W, delivered with 250 W"),
    ("gpu.power_limit", {(*SMI_GPU, "power_limit_w"): 251.0}, {}, PASS, "own limit"),
    ("gpu.power_limit", {(*SMI_GPU, "power_limit_w"): 251.5}, {}, WARN, "251.5 W"),
    ("gpu.power_limit", {(*HEALTH, "power_default_w"): None}, {}, SKIP, "no power limit"),
    ("gpu.power_limit", {(*SMI_GPU, "power_limit_w"): 200.0, TUNING: TUNED_POWER}, {}, PASS, "200 W, as system_tuning"),
    ("gpu.power_limit", {(*SMI_GPU, "power_limit_w"): 201.0, TUNING: TUNED_POWER}, {}, PASS, "200 W, as system_tuning"),
    ("gpu.power_limit", {(*SMI_GPU, "power_limit_w"): 201.5, TUNING: TUNED_POWER}, {}, WARN, "told to set 200 W"),
    ("gpu.power_limit", {TUNING: TUNED_POWER}, {}, WARN, "limited to 250 W, system_tuning was told to set 200 W"),
    ("gpu.power_limit", {("tuning",): None}, {}, PASS, "own limit"),
    ("gpu.power_limit", {("tuning",): {"unreadable": "not JSON"}}, {}, UNKNOWN, "not JSON"),
    ("gpu.power_limit", {TUNING: {**TUNED_POWER, "wanted": "low"}}, {}, UNKNOWN, "no number of watts"),
    ("gpu.power_limit", {(*SMI_GPU, "power_limit_w"): None, TUNING: TUNED_POWER}, {}, UNKNOWN, "power_limit_w"),
    ("gpu.link_width", {(*HEALTH, "link_width_now"): 8}, {}, FAIL, "8 of 16 lanes"),
    ("gpu.link_width", {(*HEALTH, "link_width_now"): 0}, {}, FAIL, "0 of 16 lanes"),
    ("gpu.pcie_replays", {(*HEALTH, "pcie_replays"): 81}, {}, WARN, "81 replays"),
    ("gpu.pcie_replays", {(*HEALTH, "pcie_replays"): 80}, {}, PASS, "few packets"),
    ("gpu.bar1", {(*HEALTH, "bar1_total_mib"): 0}, {}, FAIL, "0 MiB"),
    ("gpu.idle_memory", {(*SMI_GPU, "memory_used_mib"): 101}, {}, WARN, "101 MiB in use"),
    ("gpu.idle_memory", {(*SMI_GPU, "memory_used_mib"): 100}, {}, PASS, "empty"),
    ("gpu.idle_memory", {(*SMI_GPU, "processes"): [PROCESS]}, {}, SKIP, "in use by 1 program"),
    ("gpu.graphics", {(*SMI_GPU, "processes"): [{**PROCESS, "type": "C+G"}]}, {}, WARN, "python3"),
    ("gpu.graphics", {(*SMI_GPU, "processes"): [PROCESS]}, {}, PASS, "no graphics"),
    (
        "gpu.fabric",
        {(*HEALTH, "fabric_state"): "In Progress", (*HEALTH, "fabric_status"): "Success"},
        {},
        FAIL,
        "In Pr",
    ),
    ("gpu.fabric", {(*HEALTH, "fabric_state"): "Completed", (*HEALTH, "fabric_status"): "Failed"}, {}, FAIL, "Failed"),
    ("gpu.fabric", {}, {}, SKIP, "no fabric"),
    (
        "gpu.identity",
        {(*SMI, "gpus"): [healthy_node.READINGS["nvidia_smi"]["gpus"][0]] * 2},
        {},
        FAIL,
        "2 cards have 1",
    ),
    ("gpu.vbios", {(*SMI, "gpus"): TWO_FIRMWARES}, {}, WARN, "different firmware on cards of Tesla V100-PCIE-16GB"),
    ("gpu.inforom", {(*SMI, "warnings"): ["WARNING: infoROM is corrupted at gpu 0000:3B:00.0"]}, {}, FAIL, "infoROM"),
    ("gpu.numa", {(*GPU, "numa_node"): -1}, {}, WARN, "0000:3b:00.0 says -1"),
    ("gpu.numa", {(*GPU, "numa_node"): 7}, {}, WARN, "0000:3b:00.0 says 7"),
    ("gpu.numa", {(*GPU, "numa_node"): -1, ("probe", "numa"): {"0": {"cpus": "0-3"}}}, {}, PASS, "1 NUMA nodes"),
    ("gpu.numa", {(*GPU, "numa_node"): 1, ("probe", "numa"): {"0": {"cpus": "0-3"}}}, {}, WARN, "says 1"),
    ("gpu.numa", {(*GPU, "numa_node"): "x"}, {}, UNKNOWN, "reads 'x'"),
    ("gpu.numa", {("probe", "gpus"): []}, {}, UNKNOWN, "no NUMA node or no GPU"),
    ("gpu.numa", {("probe", "numa"): {}}, {}, UNKNOWN, "no NUMA node or no GPU"),
    ("driver.nvidia_smi_file", {("driver_files", "nvidia_smi"): None}, {}, FAIL, "no nvidia-smi"),
    ("driver.nvidia_smi_file", {("driver_files", "nvidia_smi", "unsafe"): "owned by uid 9"}, {}, FAIL, "uid 9"),
    ("driver.nvidia_smi_file", {("driver_files", "nvidia_smi", "is_file"): False}, {}, FAIL, "no program"),
    ("driver.libraries", {("driver_files", "libraries", "libcuda.so.1"): None}, {}, FAIL, "libcuda.so.1 is not there"),
    ("driver.libraries", {("driver_files", "libraries", "libcuda.so.1"): "535.1"}, {}, FAIL, "libcuda.so.1 is 535.1"),
    ("driver.libraries", {(*NVIDIA, "loaded"): None}, {}, FAIL, "no nvidia module"),
    (
        "driver.fabric_manager",
        {("switches",): 2, ("fabric_manager",): "inactive"},
        {},
        FAIL,
        "nvidia-fabricmanager is inactive",
    ),
    (
        "driver.fabric_manager",
        {("switches",): 4, ("fabric_manager_version",): "580.105.08"},
        {},
        FAIL,
        "nvidia-fabricmanager is 580.105.08, the driver 580.95.05",
    ),
    ("driver.fabric_manager", {("switches",): 4, ("fabric_manager_version",): None}, {}, UNKNOWN, "fabric_manager_ver"),
    ("driver.fabric_manager", {}, {}, SKIP, "no NVSwitch"),
    ("host.environment", {("host", "environment"): ["LANG", "CUDA_LAUNCH_BLOCKING"]}, {}, WARN, "CUDA_LAUNCH_BLOCKING"),
    ("host.clock_source", {("host", "clock_source"): "hpet"}, {}, WARN, "hpet"),
    ("host.cpu_governor", {("host", "governors"): ["performance", "powersave"]}, {}, WARN, "powersave"),
    (
        "host.cpu_governor",
        {("host", "governors"): ["schedutil"], TUNING: TUNED_CPU},
        {},
        PASS,
        "schedutil, as system_t",
    ),
    ("host.cpu_governor", {TUNING: TUNED_CPU}, {}, WARN, "performance instead of schedutil, as system_tuning was told"),
    ("host.cpu_governor", {("tuning",): None}, {}, PASS, "run with performance"),
    ("host.cpu_governor", {("tuning",): {"unreadable": "not JSON"}}, {}, UNKNOWN, "not JSON"),
    ("host.cpu_governor", {TUNING: {**TUNED_CPU, "wanted": "unknown"}}, {}, UNKNOWN, "wanted"),
    ("host.clock_source", {("host", "container"): "podman"}, {}, SKIP, "a container (podman)"),
    ("host.cpu_governor", {("host", "container"): "lxc"}, {}, SKIP, "a container (lxc)"),
    ("host.cpu_governor", {("host", "governors"): None}, {}, SKIP, "does not scale"),
    ("host.disk_space", {(*DISKS, "/var", "free_mib"): 511}, {}, FAIL, "511 MiB free on /var"),
    ("host.disk_space", {(*DISKS, "/var", "free_mib"): 512}, {}, WARN, "512 MiB free on /var"),
    ("host.disk_space", {(*DISKS, "/var", "free_mib"): 4096}, {}, PASS, "4096 MiB free on /var"),
    ("host.disk_space", {(*DISKS, "/boot", "free_mib"): 127}, {}, WARN, "127 MiB free on /boot"),
    ("host.disk_space", {(*DISKS, "/boot", "free_mib"): 128}, {}, PASS, "MiB free on /var"),
    ("host.inodes", {(*DISKS, "/var", "free_inodes"): 10000}, {}, PASS, "10000 files"),
    ("host.inodes", {(*DISKS, "/var", "free_inodes"): 0}, {}, FAIL, "0 files"),
    ("host.inodes", {(*DISKS, "/var", "free_inodes"): 9999}, {}, WARN, "9999 files"),
    ("host.inodes", {(*DISKS, "/var", "free_inodes"): None}, {}, SKIP, "no fixed number of files on /var"),
    ("host.blocked_tasks", {("host", "blocked_tasks", "nvidia"): ["nvidia-smi"]}, {}, WARN, "nvidia-smi"),
    ("host.blocked_tasks", {("host", "blocked_tasks", "others"): ["kworker"]}, {}, PASS, "1 others"),
    ("host.tuning", {(*TUNING, "found"): "60"}, {}, WARN, "vm.swappiness: found 60, wanted 10"),
    ("host.tuning", {("tuning",): None}, {}, SKIP, "is not tuned"),
    ("host.tuning", {("tuning",): []}, {}, UNKNOWN, "no setting"),
    ("host.tuning", {("tuning",): {"unreadable": "tuning.json is not JSON"}}, {}, UNKNOWN, "is not JSON"),
    ("host.tuning", {(*TUNING, "found"): {"unreadable": "this kernel has no x"}}, {}, UNKNOWN, "has no x"),
    ("host.tuning", {(*TUNING, "name"): "vm.unheard_of"}, {}, UNKNOWN, "vm.unheard_of"),
    ("containers.gpu", {CONTAINERS: None}, {}, SKIP, "no containers are meant to run here"),
    ("containers.gpu", {CONTAINERS: {"unreadable": "containers.json is not JSON"}}, {}, UNKNOWN, "is not JSON"),
    ("containers.gpu", {(*CONTAINERS, "program"): False}, {}, FAIL, "podman is not installed"),
    ("containers.gpu", {(*CONTAINERS, "engine"): "lxc"}, {}, UNKNOWN, "lxc"),
    ("containers.gpu", {SPEC: None}, {}, FAIL, "no CDI specification"),
    ("containers.gpu", {SPEC: {"unreadable": "nvidia.yaml names no kind"}}, {}, UNKNOWN, "names no kind"),
    ("containers.gpu", {(*SPEC, "kind"): "amd.com/gpu"}, {}, FAIL, "is for amd.com/gpu"),
    ("containers.gpu", {(*SPEC, "cards"): []}, {}, FAIL, "lists 0 of 1 GPUs"),
    ("containers.gpu", {(*SPEC, "cards"): ["/dev/nvidia0", "/dev/nvidia1"]}, {}, FAIL, "lists 2 of 1 GPUs"),
    ("containers.gpu", {(*SPEC, "cards"): ["/dev/nvidiactl"]}, {}, UNKNOWN, "/dev/nvidiactl"),
    ("containers.gpu", {(*SPEC, "all"): False}, {}, FAIL, "no device for all GPUs"),
    ("containers.gpu", {(*SPEC, "driver"): "580.82.07"}, {}, FAIL, "written for driver 580.82.07, loaded is 580.95.05"),
    ("containers.gpu", {(*NVIDIA, "loaded"): None}, {}, FAIL, "no nvidia module"),
    ("containers.gpu", {}, {"gpu_count": 0}, SKIP, "expects no GPU"),
    ("kernel.xid", {(*LOG, "xids"): [event(13), event(79, XID_79)]}, {}, FAIL, "79 on 0000:3b:00: the GPU has fallen"),
    ("kernel.xid", {(*LOG, "xids"): [event(31)]}, {}, WARN, "31 on 0000:3b:00: a program used memory"),
    ("kernel.xid", {(*LOG, "xids"): [event(999)]}, {}, WARN, "999 on 0000:3b:00: not in the catalogue"),
    ("kernel.xid", {(*LOG, "xids"): [event(0)]}, {}, WARN, "0 on 0000:3b:00: not in the catalogue"),
    ("kernel.xid", {(*LOG, "xids"): [event(106)]}, {}, PASS, "no Xid that needs an action"),
    ("kernel.xid", {LOG: None}, {}, SKIP, "is a container"),
    ("kernel.xid", {LOG: {"unreadable": "no permission"}}, {}, UNKNOWN, "no permission"),
    ("kernel.xid", {(*LOG, "whole"): False, (*LOG, "xids"): [event(79)]}, {}, FAIL, "79 on"),
    ("kernel.xid", {(*LOG, "whole"): False, (*LOG, "xids"): [event(13)]}, {}, UNKNOWN, "longer than"),
    ("kernel.xid", {(*LOG, "from_boot"): False}, {}, WARN, "does not reach back to the boot"),
    ("kernel.xid", {(*LOG, "lines"): 0}, {}, UNKNOWN, "is empty"),
    ("kernel.sxid", {(*LOG, "sxids"): [event(20034, "SXid (PCI): 20034, Fatal, Link 30")]}, {}, FAIL, "20034 on"),
    ("kernel.sxid", {(*LOG, "sxids"): [event(28006, "SXid: 28006, Non-fatal, Link 46")]}, {}, WARN, "28006 on"),
    ("kernel.sxid", {LOG: None}, {}, SKIP, "is a container"),
    ("kernel.sxid", {(*LOG, "whole"): False}, {}, UNKNOWN, "longer than"),
    ("kernel.lockups", {(*LOG, "findings"): [kernel_said("lockup")]}, {}, FAIL, "3 times: what it said"),
    ("kernel.lockups", {(*LOG, "findings"): [kernel_said("blocked")]}, {}, WARN, "3 times: what it said"),
    ("kernel.lockups", {(*LOG, "findings"): [kernel_said("out_of_memory")]}, {}, PASS, "nothing hung"),
    ("kernel.lockups", {(*LOG, "whole"): False, (*LOG, "findings"): [kernel_said("blocked")]}, {}, UNKNOWN, "longer"),
    ("kernel.lockups", {(*LOG, "from_boot"): False}, {}, WARN, "does not reach back"),
    ("kernel.out_of_memory", {(*LOG, "findings"): [kernel_said("out_of_memory")]}, {}, WARN, "3 times: what it said"),
    ("kernel.out_of_memory", {LOG: None}, {}, SKIP, "is a container"),
    ("kernel.hardware_errors", {(*LOG, "findings"): [kernel_said("hardware")]}, {}, FAIL, "3 times: what it said"),
    ("kernel.hardware_errors", {(*LOG, "findings"): [kernel_said("hardware_corrected")]}, {}, WARN, "3 times"),
    ("kernel.pcie_errors", {(*LOG, "findings"): [kernel_said("pcie")]}, {}, FAIL, "3 times: what it said"),
    ("kernel.pcie_errors", {(*LOG, "findings"): [kernel_said("pcie_corrected")]}, {}, WARN, "3 times"),
    ("framework.lock", {(*STAMP, "locked"): False}, {}, WARN, "installed without a lock file"),
    ("framework.lock", {(*STAMP, "locked"): False}, {"pytorch.locked": False}, WARN, "installed without a lock file"),
    ("framework.lock", {}, {"pytorch.locked": False}, WARN, "the plan has no lock file"),
    ("framework.lock", {(*STAMP, "lock"): "py3.9-torch2.8.0-cu128.txt"}, {}, WARN, "made from py3.9-torch2.8.0"),
    ("framework.lock", {("stamp",): None}, {}, UNKNOWN, "has no stamp"),
    ("framework.lock", {("stamp",): {"unreadable": "it holds no JSON"}}, {}, UNKNOWN, "it holds no JSON"),
    ("framework.lock", {(*STAMP, "locked"): "yes"}, {}, UNKNOWN, "not true or false"),
    ("smoke.amp", {("smoke", "problems"): ["loss is not finite", "b"]}, {}, FAIL, "loss is not finite (+1 more)"),
    ("smoke.amp", {("smoke", "devices", 0, "device"): "cpu"}, {}, FAIL, "ran on cpu instead of cuda"),
    ("smoke.amp", {("smoke", "devices"): []}, {}, FAIL, "0 of 1 devices"),
    ("smoke.amp", {}, {"gpu_count": 2}, FAIL, "1 of 2 devices"),
    (
        "smoke.amp",
        {APPLIED: 0},
        {},
        FAIL,
        "no training step was applied in amp",
    ),
    ("smoke.amp", {("smoke", "devices", 0, "fp32", "steps_applied"): 0}, {}, FAIL, "applied in fp32"),
    ("smoke.amp", {("smoke", "devices", 0, "amp", "parameters_changed"): False}, {}, FAIL, "changed nothing"),
    ("smoke.amp", {("smoke",): {"skipped": True, "msg": "check mode"}}, {}, UNKNOWN, "skipped: check mode"),
    ("smoke.amp", {("smoke",): {"failed": False, "msg": "no venv"}}, {}, FAIL, "no venv"),
    ("smoke.amp", {("smoke",): {"smoke": None, "msg": "a: b\nc"}}, {}, FAIL, "a: b"),
    ("smoke.amp", {("smoke",): {"smoke": None}}, {}, FAIL, "no record and no reason"),
    ("smoke.amp", {("smoke",): {"smoke": healthy_node.SMOKE, "msg": "exit code 3"}}, {}, FAIL, "exit code 3"),
    ("smoke.amp", {("smoke",): {"msg": "bad", "smoke": {"problems": ["lost"]}}}, {}, FAIL, "lost"),
    ("smoke.amp", {("smoke",): {"smoke": healthy_node.SMOKE}}, {}, PASS, "trained on cuda:0 in float32 and float16"),
    ("smoke.amp", {("smoke",): ON_CPU}, {"smoke_device": "cpu"}, PASS, "trained on the CPU, as demanded"),
    ("smoke.amp", {("smoke",): ON_CPU}, {}, FAIL, "asked to run on cpu"),
    ("smoke.amp", {("smoke", "device"): "cpu"}, {"smoke_device": "cpu"}, FAIL, "ran on cuda:0"),
    ("smoke.amp", {("smoke", "age_s"): 3 * 86400}, {}, PASS, "3 days ago"),
    ("smoke.amp", {("smoke", "age_s"): 7300}, {}, PASS, "2 hours ago"),
    ("gpu.nvlink", {LINKS: link(11)}, {}, FAIL, "11 of 12 links are up"),
    ("gpu.nvlink", {LINKS: link(0)}, {}, FAIL, "0 of 12 links are up"),
    ("gpu.nvlink", {LINKS: link(0, wired=False)}, {}, SKIP, "no bridge: GPU 0"),
    ("gpu.nvlink", {LINKS: link(0, links=0, wired=False)}, {}, SKIP, "0 of 0"),
    ("gpu.nvlink", {LINKS: link(0, links=0)}, {}, FAIL, "0 of 0"),
    ("gpu.nvlink", {LINKS: link(3, links=4, wired=False)}, {}, FAIL, "3 of 4"),
    ("gpu.nvlink", {LINKS: link(4, links=6, name="Tesla V100-SXM2-16GB")}, {}, WARN, "4 of 6"),
    ("gpu.nvlink", {LINKS: link(0, links=6, name="Tesla V100-SXM2-16GB")}, {}, FAIL, "0 of 6"),
    ("gpu.nvlink", {LINKS: link(0, wired=False) + link(12, index=1)}, {}, SKIP, "no bridge"),
    ("gpu.nvlink", {LINKS: link(12) + link(12, index=1)}, {}, PASS, "2 cards"),
    ("gpu.nvlink", {LINKS: []}, {}, UNKNOWN, "names no card"),
    ("gpu.nvlink", {LINKS: {"unreadable": "exit status 9"}}, {}, UNKNOWN, "exit status 9"),
    ("gpu.nvlink", {}, {}, SKIP, "no card of this node has NVLink"),
    ("gpu.nvlink_errors", {LINKS: link(12, {"replay": 0, "crc flit": 5})}, {}, WARN, "GPU 0: 5 crc flit"),
    ("gpu.nvlink_errors", {LINKS: link(12, {})}, {}, UNKNOWN, "says nothing of 1 cards"),
    ("gpu.nvlink_errors", {LINKS: link(12) + link(12, {}, index=1)}, {}, UNKNOWN, "nothing of 1 cards"),
    ("gpu.nvlink_errors", {LINKS: link(0, {})}, {}, SKIP, "no NVLink is up"),
    ("gpu.nvlink_errors", {LINKS: link(12)}, {}, PASS, "no error on 1 cards"),
    ("gpu.nvlink_errors", {}, {}, SKIP, "no card of this node has NVLink"),
    ("gpu.topology", {WAYS: [["X", "X"], ["SYS", "X"]]}, {"gpu_count": 2}, FAIL, "no way from GPU0 to GPU1"),
    ("gpu.topology", {WAYS: [["X", "SYS"], ["SYS", "X"]]}, {"gpu_count": 2}, PASS, "2 GPUs, connected by SYS"),
    ("gpu.topology", {WAYS: [["X", "SYS"], ["SYS", "X"]]}, {"gpu_count": 3}, FAIL, "shows 2 of 3"),
    ("gpu.topology", {WAYS: {"unreadable": "cannot be understood"}}, {}, UNKNOWN, "cannot be understood"),
    ("gpu.topology", {}, {}, SKIP, "one GPU"),
    ("host.infiniband", {PORTS: port(state="DOWN", physical="Polling")}, {}, WARN, "port 1 is DOWN (Polling)"),
    ("host.infiniband", {PORTS: port(link_downed=5)}, {}, WARN, "went down 5 times"),
    ("host.infiniband", {PORTS: port(link_downed=4)}, {}, PASS, "1 ports are active"),
    ("host.infiniband", {PORTS: port(link_downed=None)}, {}, UNKNOWN, "link_downed"),
    ("host.infiniband", {PORTS: []}, {}, UNKNOWN, "show no port"),
    ("host.infiniband", {}, {}, SKIP, "no InfiniBand"),
    ("host.disks", {(*DISK, "state"): "dead"}, {}, FAIL, "the kernel calls nvme0n1 dead"),
    ("host.disks", {(*DISK, "health"): health(passed=False)}, {}, FAIL, "nvme0n1 calls itself failing"),
    ("host.disks", {(*DISK, "health"): health(critical_warning=4)}, {}, FAIL, "critical warning 4"),
    ("host.disks", {(*DISK, "health"): health(percentage_used=100)}, {}, WARN, "has used 100 % of its life"),
    ("host.disks", {(*DISK, "health"): health(percentage_used=99)}, {}, PASS, "1 disks call themselves healthy"),
    (
        "host.disks",
        {DISK: {"name": "sda", "state": "running", "health": health(True, None, None)}},
        {},
        PASS,
        "1 disks",
    ),
    ("host.disks", {(*DISK, "health"): {"unreadable": "permission denied"}}, {}, UNKNOWN, "permission denied"),
    (
        "host.disks",
        {(*DISK, "health"): None},
        {},
        SKIP,
        "reaches nvme0n1; smartctl, which knows more, is not",
    ),
    ("host.disks", {("disks",): None}, {}, SKIP, "no disk of its own"),
    ("host.disks", {("disks",): []}, {}, UNKNOWN, "no disk was looked at"),
    ("host.disks", {("host", "container"): "podman", (*DISK, "state"): "dead"}, {}, SKIP, "is a container"),
    ("model.limits", {("smoke", "limits", "memlock"): "65536"}, {}, WARN, "65536 bytes of pinned memory"),
    ("model.limits", {("smoke", "limits", "memlock"): str(16 * 2**30 - 1)}, {}, WARN, "of pinned memory"),
    ("model.limits", {("smoke", "limits", "memlock"): str(16 * 2**30)}, {}, PASS, "pinned memory: 17179869184"),
    ("model.limits", {("smoke", "limits", "files"): "1024"}, {}, WARN, "held to 1024 open files"),
    ("model.limits", {("smoke", "limits", "files"): "1048575"}, {}, WARN, "held to 1048575 open files"),
    ("model.limits", {("smoke", "limits", "files"): "infinity"}, {}, PASS, "open files: infinity"),
    ("model.limits", {("smoke", "limits", "files"): "many"}, {}, UNKNOWN, "many"),
    ("model.limits", {("smoke", "limits"): None}, {}, UNKNOWN, "limits"),
    ("model.limits", {("host", "container"): "podman"}, {}, SKIP, "is a container"),
    ("framework.matrix_product", {("venv",): None}, {}, FAIL, "no venv"),
    ("framework.matrix_product", {PRODUCT: "WRONG on one of cpu, cuda:0"}, {}, FAIL, "WRONG on one of"),
    ("framework.matrix_product", {PRODUCT: "right on cpu"}, {}, FAIL, "right on cpu"),
    ("framework.matrix_product", {("venv", "torch", "devices"): []}, {}, FAIL, "shows 0 of 1 GPUs"),
    (
        "framework.matrix_product",
        {PRODUCT: "right on cpu", ("venv", "torch", "devices"): []},
        {"pytorch.build": "cpu"},
        PASS,
        "right on cpu",
    ),
    ("smoke.speed_ratio", {RATIO: 1.619}, {}, FAIL, "cuda:0: 1.619 times as fast as float32; floor 1.62"),
    ("smoke.speed_ratio", {RATIO: 1.62}, {}, WARN, "floor 1.62"),
    ("smoke.speed_ratio", {RATIO: 1.7}, {}, WARN, "floor 1.62"),
    ("smoke.speed_ratio", {RATIO: 1.701}, {}, PASS, "floor 1.62"),
    ("smoke.speed_ratio", {RATIO: None}, {}, UNKNOWN, "speed_ratio"),
    ("smoke.speed_ratio", {(*GPU, "architecture"): "hopper"}, {}, SKIP, "no published floor for hopper; measured"),
    ("smoke.speed_ratio", {("probe", "gpus"): []}, {}, UNKNOWN, "there are 0"),
    ("smoke.speed_ratio", {("smoke", "devices"): []}, {}, UNKNOWN, "one GPU at least"),
    ("smoke.speed_ratio", {("smoke",): ON_CPU}, {"smoke_device": "cpu"}, SKIP, "says nothing about a GPU"),
    ("smoke.parallel", {}, {}, SKIP, "there is one GPU"),
    ("smoke.parallel", {}, {"gpu_count": 2}, UNKNOWN, "there was no training over all GPUs"),
    ("smoke.parallel", parallel(), {"gpu_count": 3}, FAIL, "over 2 of 3 devices"),
    ("smoke.parallel", parallel(backend="gloo"), {"gpu_count": 2}, FAIL, "it ran over gloo"),
    ("smoke.parallel", parallel(gradients_equal=False), {"gpu_count": 2}, FAIL, "the gradients differ"),
    ("smoke.parallel", parallel(parameters_equal=False), {"gpu_count": 2}, FAIL, "the parameters differ"),
    ("smoke.parallel", parallel(steps_applied=0), {"gpu_count": 2}, FAIL, "applied no step"),
    ("smoke.parallel", parallel(parameters_changed=False), {"gpu_count": 2}, FAIL, "applied no step"),
    ("smoke.parallel", parallel(backend="gloo"), {"smoke_device": "cpu"}, PASS, "2 processes over gloo"),
    ("smoke.parallel", parallel(), {"smoke_device": "cpu"}, FAIL, "it ran over nccl"),
    ("smoke.sandbox", {("smoke", "sandbox"): None}, {}, WARN, "run without the service's sandbox: all 15"),
    ("smoke.sandbox", {("smoke", "sandbox"): "somewhere"}, {}, UNKNOWN, "is not a service"),
    *below("h2d_gb_s", 9),
    *below("d2h_gb_s", 9),
    *below("copy_gb_s", 562.5),
    *below("matmul_fp16_tflops", 63.75),
    *below("matmul_fp32_tflops", 10.5),
    ("performance.h2d", {SPEED: BUSY}, {}, SKIP, "the GPUs are in use, and only idle ones are measured: 0000:3b:00.0"),
    ("performance.h2d", {SPEED: CPU_SPEED}, {}, SKIP, "says nothing about a GPU"),
    ("performance.h2d", {}, {"gpu_count": 2}, UNKNOWN, "1 of 2 GPUs were measured"),
    ("performance.h2d", {SPEED: without("h2d_gb_s", "cuda:0 h2d_gb_s: lost")}, {}, UNKNOWN, "cuda:0 h2d_gb_s: lost"),
    ("performance.h2d", {SPEED: without("h2d_gb_s", None)}, {}, UNKNOWN, "cuda:0 could not be measured"),
    ("performance.h2d", {SPEED: {"unreadable": "no gpu-run"}}, {}, UNKNOWN, "no gpu-run"),
    (
        "performance.h2d",
        {(*SPEED, "devices", 0, "name"): "Tesla T4"},
        {},
        SKIP,
        "no published floor for Tesla T4; cuda:0",
    ),
    ("performance.h2d", {}, {}, PASS, "12.3 GB/s, 78 % of the published peak; floor 9 (enforced by"),
    ("performance.copy", {}, {}, PASS, "floor 562.5 (0.75 x 750: V100-SXM2"),
    ("performance.matmul_bf16", {}, {}, SKIP, "cuda:0: compute capability 7.0 has bfloat16 by emulation only"),
    ("performance.matmul_bf16", {SPEED: two_fast(matmul_bf16_tflops=203.0)}, {"gpu_count": 2}, FAIL, "cuda:1"),
    ("performance.matmul_bf16", {SPEED: two_fast(matmul_bf16_tflops=203.3)}, {"gpu_count": 2}, WARN, "cuda:1"),
    ("performance.matmul_tf32", {SPEED: two_fast(matmul_tf32_tflops=80.9)}, {"gpu_count": 2}, FAIL, "floor 81"),
    ("performance.p2p", {SPEED: two_fast(p2p_gb_s=234.9)}, {"gpu_count": 2}, FAIL, "floor 235 (enforced by"),
    ("performance.p2p", {}, {}, SKIP, "there is no second GPU"),
    ("performance.link", {(*MEASURE, "link_gt_s", "value"): 2.5}, {}, FAIL, "runs at 2.5 of 8 GT/s"),
    ("performance.link", {(*MEASURE, "link_gt_s"): None}, {}, UNKNOWN, "could not be measured"),
    ("performance.link", {(*SPEED, "devices", 0, "pci_id"): "0000:5e:00.0"}, {}, UNKNOWN, "0000:5e:00.0"),
    ("performance.link", {(*SPEED, "devices", 0, "pci_id"): None}, {}, UNKNOWN, "pci_id"),
    ("performance.link", {SPEED: BUSY}, {}, SKIP, "in use"),
    ("performance.link", {}, {"gpu_count": 2}, UNKNOWN, "1 of 2"),
    ("performance.all_reduce", {SPEED: performance_of(8, 170.9)}, {"gpu_count": 8}, FAIL, "floor 171 (0.75 x 228"),
    ("performance.all_reduce", {SPEED: performance_of(8, 171.0)}, {"gpu_count": 8}, WARN, "floor 171"),
    ("performance.all_reduce", {SPEED: performance_of(2, 30.0)}, {"gpu_count": 2}, SKIP, "no published floor for 2 x"),
    ("performance.all_reduce", {SPEED: performance_of(2)}, {"gpu_count": 2}, UNKNOWN, "could not be measured"),
    ("performance.all_reduce", {}, {}, SKIP, "there is one GPU"),
    ("performance.all_reduce", {SPEED: BUSY}, {}, SKIP, "in use"),
    ("performance.all_reduce", {}, {"gpu_count": 2}, UNKNOWN, "1 of 2"),
    (
        "performance.all_reduce",
        {SPEED: performance_of(8, 231.0), (*SPEED, "all_reduce", "gpus"): 7},
        {"gpu_count": 8},
        UNKNOWN,
        "ran over 7 of 8 GPUs",
    ),
    (
        "performance.all_reduce",
        {SPEED: performance_of(2, 231.0), (*SPEED, "devices", 0, "name"): "Tesla T4"},
        {"gpu_count": 2},
        SKIP,
        "of different models",
    ),
    (
        "performance.numa",
        {(*MEASURE, "h2d_remote_gb_s", "value"): 13.6},
        {},
        WARN,
        "12.3 GB/s from near, 13.6 GB/s from far",
    ),
    ("performance.numa", {(*MEASURE, "h2d_remote_gb_s", "value"): 13.5}, {}, PASS, "13.5 GB/s from far"),
    (
        "performance.numa",
        {(*MEASURE, "h2d_gb_s", "value"): 10.0, (*MEASURE, "h2d_remote_gb_s", "value"): 11.0},
        {},
        PASS,
        "11 GB/s from far",
    ),
    ("performance.numa", {(*MEASURE, "h2d_remote_gb_s"): None}, {}, UNKNOWN, "could not be measured"),
    (
        "performance.numa",
        {(*MEASURE, "h2d_remote_gb_s"): None, (*SPEED, "devices", 0, "left_out", "h2d_remote_gb_s"): "one NUMA node"},
        {},
        SKIP,
        "cuda:0: one NUMA node",
    ),
    ("performance.numa", {SPEED: BUSY}, {}, SKIP, "in use"),
    ("performance.numa", {}, {"gpu_count": 2}, UNKNOWN, "1 of 2"),
    ("performance.spread", {SPEED: two_fast(matmul_fp32_tflops=18.0)}, {"gpu_count": 2}, WARN, "cuda:1: 18 TFLOP/s"),
    ("performance.spread", {SPEED: two_fast(matmul_fp32_tflops=18.1)}, {"gpu_count": 2}, PASS, "cuda:1: 18.1"),
    ("performance.spread", {SPEED: two_fast(matmul_fp32_tflops=19.95)}, {"gpu_count": 2}, PASS, "cuda:1: 19.95"),
    (
        "performance.spread",
        {SPEED: performance_of(2), (*SPEED, "devices", 0, "name"): "Tesla T4"},
        {"gpu_count": 2},
        SKIP,
        "of different models",
    ),
    ("performance.spread", {}, {}, SKIP, "there is one GPU"),
    ("performance.spread", {SPEED: BUSY}, {}, SKIP, "in use"),
    ("performance.spread", {}, {"gpu_count": 2}, UNKNOWN, "1 of 2"),
]
CASES += node_rows.ROWS


@pytest.mark.parametrize(("check_id", "changes", "wishes", "status", "words"), CASES)
def test_broken_node(check_id, changes, wishes, status, words):
    record = {**healthy_node.readings(), "smoke": healthy_node.smoke()}
    for path, value in changes.items():
        healthy_node.put(record, path, value)
    expectations = healthy_node.expectations()
    for name, value in wishes.items():
        target = expectations["plan"] if "." in name else expectations
        healthy_node.put(target, tuple(name.split(".")), value)
    smoke = record.pop("smoke")
    found = next(r for r in run_checks(record, expectations, smoke, level=DEEP) if r["id"] == check_id)
    assert (found["status"], words in found["message"]) == (status, True), found
    assert bool(found["action"]) == (status not in (PASS, SKIP)), found


def of(check_id: str, smoke: dict) -> dict:
    """The record of one check on the healthy node after this smoke test."""
    records = run_checks(healthy_node.readings(), healthy_node.expectations(), smoke)
    return next(record for record in records if record["id"] == check_id)


def test_every_check_has_a_row_in_which_it_is_bad():
    bad = {check_id for check_id, _changes, _wishes, status, _words in CASES if status in (FAIL, WARN)}
    assert bad == {check.id for check in CHECKS}


def test_the_severity_of_a_check_is_the_worst_that_it_ends_in():
    worst = {check.id: WARN for check in CHECKS}
    worst.update({check_id: FAIL for check_id, _changes, _wishes, status, _words in CASES if status == FAIL})
    assert worst == {check.id: check.severity for check in CHECKS}


def test_the_action_of_nvidia_smi_is_kept():
    record = {**healthy_node.readings(), "nvidia_smi": DOWN}
    found = {r["id"]: r for r in run_checks(record, healthy_node.expectations(), healthy_node.smoke())}
    assert found["driver.reachable"]["action"] == "modprobe nvidia"


@pytest.mark.parametrize(
    ("built_for", "capability", "expected"),
    [
        (["sm_70"], "7.0", True),
        (["sm_70"], "7.5", True),
        (["sm_75"], "7.0", False),
        (["sm_70"], "8.0", False),
        (["sm_80"], "8.6", True),
        (["sm_86"], "8.0", False),
        (["compute_70"], "9.0", True),
        (["compute_90"], "8.6", False),
        (["sm_90a"], "9.0", True),
        (["sm_100a"], "10.3", False),
        (["sm_120"], "12.0", True),
        (["sm_100"], "12.0", False),
        (["sm_7", "sm_", "banana"], "7.0", False),
        ([], "7.0", False),
    ],
)
def test_code_runs_on_the_card(built_for, capability, expected):
    assert runs_on(built_for, capability) is expected


def test_without_a_named_model_one_model_is_expected():
    readings = healthy_node.readings()
    readings["probe"]["gpus"] = [{"name": "Tesla T4"}, {"name": "Tesla V100-PCIE-16GB"}]
    found = {r["id"]: r for r in run_checks(readings, healthy_node.expectations(gpu_model=""))}["gpu.model"]
    assert (found["value"], found["expected"]) == ("Tesla T4, Tesla V100-PCIE-16GB", "one model")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 seconds ago"),
        (119, "119 seconds ago"),
        (120, "2 minutes ago"),
        (7199, "119 minutes ago"),
        (7200, "2 hours ago"),
        (172799, "47 hours ago"),
        (172800, "2 days ago"),
    ],
)
def test_the_age_of_a_smoke_test(seconds, words):
    smoke = {**healthy_node.smoke(), "age_s": seconds}
    found = of("smoke.amp", smoke)
    assert found["message"] == f"trained on cuda:0 in float32 and float16, {words}"


@pytest.mark.parametrize("check_id", ["gpu.throttle", "gpu.graphics"])
def test_nothing_found_is_told_as_none(check_id):
    found = {r["id"]: r for r in run_checks(healthy_node.readings(), healthy_node.expectations())}[check_id]
    assert found["value"] == "none"


def test_one_xid_stands_alone():
    readings = healthy_node.readings()
    readings["kernel_log"]["xids"] = [event(79, XID_79)]
    found = {r["id"]: r for r in run_checks(readings, healthy_node.expectations())}["kernel.xid"]
    assert found["message"].endswith("has fallen off the bus.)") and "off and on" in found["action"]
    readings["kernel_log"]["xids"] = [event(46)]
    found = {r["id"]: r for r in run_checks(readings, healthy_node.expectations())}["kernel.xid"]
    assert "--gpu-reset -i 0000:3b:00" in found["action"]


def test_one_problem_stands_alone():
    smoke = {**healthy_node.smoke(), "problems": ["cuda:0 amp: a loss was not finite"]}
    found = of("smoke.amp", smoke)
    assert found["message"] == "cuda:0 amp: a loss was not finite"
