"""Rows of test_checks_sad_paths: packages of the driver and their source, signer, initramfs, jobs and containers."""

from __future__ import annotations

from gpuwright.verdict.check import FAIL, PASS, SKIP, UNKNOWN, WARN
from healthy_node import READINGS
from node_names import KERNEL, MOK, PCI_ID, Changes
from row_values import DOWN, NVIDIA, SMI

PARTS = ("driver_packages",)
PACKAGES = (*PARTS, "packages")
UNOWNED = (*PARTS, "unowned")
INSTALLER = (*PARTS, "installer")
CONTAINER = {("host", "container"): "podman"}
SIGNED = ("module_signature", "file")
ENROLLED = ("module_signature", "enrolled")
KERNEL_KEYS = ("module_signature", "kernel")
SECURE = ("probe", "secure_boot")
IMAGE = ("initramfs", "version")
CONFINED = ("confinement",)
CARDS = ("venv", "torch", "cuda_available")
OTHER = "6a00000000000000000000000000000000000001"
LOG, UNINSTALL = "/var/log/nvidia-installer.log", "/usr/bin/nvidia-uninstall"
LIBRARY = "/usr/lib64/libnvidia-ml.so.580.95.05"


def package(name: str, version: str = "580.95.05", maker: str = "NVIDIA", bound: bool = True) -> dict:
    return {"name": name, "version": version, "maker": maker, "bound": bound}


def with_packages(*more: dict) -> Changes:
    return {PACKAGES: [*READINGS["driver_packages"]["packages"], *more]}


def confined(manager: str, cards: int = 1, denied: int = 0, **more: object) -> Changes:
    names = [f"/dev/nvidia{number}" for number in range(cards)]
    return {CONFINED: {**READINGS["confinement"], "manager": manager, "cards": names, "denied": names[:denied], **more}}


NO_CARD: Changes = {SMI: {**DOWN, "rc": 6, "status": "no_devices", "message": "finds no GPU that it can drive"}}
IN_JOB: Changes = {**NO_CARD, **confined("slurm", 1, 1, job="4711")}
TWO: Changes = {
    ("probe", "gpus"): [READINGS["probe"]["gpus"][0], {**READINGS["probe"]["gpus"][0], "pci_id": "0000:5e:00.0"}]
}
MIXED = [*(package(f"lib{n}", "575.64") for n in range(3)), *(package(f"nv{n}", f"580.{n}") for n in range(2))]
MANY = [*(package(f"lib{n}") for n in range(9)), *(package(f"odd{n}", "535.1") for n in range(5))]
FM = package("nvidia-fabricmanager", "580.82.07")
TOOL = package("nvidia-settings", "510.47.03", "unnamed", False)

# (check, {path in the readings: value}, {expectation: value}, status, words of the message)
ROWS = [
    ("driver.packages", with_packages(FM), {}, FAIL, "nvidia-fabricmanager 580.82.07; the other packages"),
    (
        "driver.packages",
        with_packages(*(package(f"libnvidia-{letter}", "575.64") for letter in "abcd")),
        {},
        FAIL,
        "libnvidia-a 575.64, libnvidia-b 575.64, libnvidia-c 575.64, libnvidia-d 575.64; the other packages",
    ),
    (
        "driver.packages",
        with_packages(*(package(f"libnvidia-{letter}", "575.64") for letter in "abcde")),
        {},
        FAIL,
        "nvidia-driver-cuda 580.95.05, nvidia-persistenced 580.95.05; the other packages of the driver are 575.64",
    ),
    ("driver.packages", {PACKAGES: [package("a", "575.64"), package("b")]}, {}, FAIL, "a 575.64; the other"),
    (
        "driver.packages",
        {PACKAGES: [package("a", "575.64"), package("b", "580.1")], (*NVIDIA, "user_space"): None},
        {},
        FAIL,
        "b 580.1; the other",
    ),
    ("driver.packages", {PACKAGES: MIXED}, {}, FAIL, "nv0 580.0, nv1 580.1; the other"),
    ("driver.packages", {PACKAGES: MANY}, {}, FAIL, "odd3 535.1 and 1 more; the other"),
    ("driver.packages", with_packages(TOOL), {}, PASS, "4 packages, all 580.95.05"),
    ("driver.packages", {PACKAGES: [TOOL]}, {}, SKIP, "no package"),
    ("driver.packages", {(*PACKAGES, 0, "version"): "unknown"}, {}, UNKNOWN, ""),
    ("driver.packages", {PARTS: {"unreadable": "rpm: error"}}, {}, UNKNOWN, "rpm: error"),
    ("driver.packages", {PACKAGES: []}, {}, SKIP, "no package"),
    ("driver.packages", CONTAINER, {}, SKIP, "container (podman)"),
    (
        "driver.source",
        {UNOWNED: [LIBRARY], INSTALLER: [UNINSTALL, LOG]},
        {},
        FAIL,
        f"NVIDIA's installer (.run) installed {LIBRARY} ({UNINSTALL} is left over from it)",
    ),
    ("driver.source", {UNOWNED: [LIBRARY], INSTALLER: [LOG]}, {}, FAIL, f"(.run) installed {LIBRARY}"),
    ("driver.source", {UNOWNED: [LIBRARY]}, {}, FAIL, f"{LIBRARY} belongs to no package"),
    ("driver.source", {INSTALLER: [UNINSTALL]}, {}, WARN, "is left over from NVIDIA's"),
    ("driver.source", {INSTALLER: [LOG]}, {}, PASS, "of NVIDIA"),
    ("driver.source", with_packages(package("dkms-nvidia", maker="negativo17")), {}, WARN, "from negativo17"),
    ("driver.source", {PACKAGES: [package("akmod-nvidia", maker="RPM Fusion")]}, {}, WARN, "comes from RPM Fusion"),
    ("driver.source", with_packages(package("x", maker="distribution")), {}, WARN, "two sources: kmod-nvidia"),
    ("driver.source", with_packages(package("x", maker="unnamed")), {}, PASS, "belong to packages of NVIDIA"),
    ("driver.source", {PACKAGES: [package("x", maker="unnamed")]}, {"driver.source": "nvidia"}, PASS, "to packages"),
    ("driver.source", {}, {"driver.source": "distribution"}, WARN, "NVIDIA, but the plan installs from distribution"),
    ("driver.source", {}, {"driver.source": "nvidia"}, PASS, "of NVIDIA"),
    ("driver.source", {}, {"driver.source": ""}, PASS, "of NVIDIA"),
    ("driver.source", {PACKAGES: []}, {}, SKIP, "no driver is installed"),
    ("driver.source", {UNOWNED: {"unreadable": "rpm -qf"}}, {}, UNKNOWN, "rpm -qf"),
    ("driver.source", CONTAINER, {}, SKIP, "container (podman)"),
    ("driver.module_signer", {(*SIGNED, "key"): OTHER}, {}, FAIL, "another key with this name is enrolled"),
    (
        "driver.module_signer",
        {SIGNED: {"signer": "NVIDIA", "key": OTHER}},
        {},
        FAIL,
        f"signed by NVIDIA, whose key {OTHER} is not trusted here",
    ),
    ("driver.module_signer", {SIGNED: {"signer": "", "key": ""}}, {}, FAIL, "is not signed"),
    ("driver.module_signer", {(*SIGNED, "key"): "d939395a3c4c0e2a"}, {}, PASS, "whose key is enrolled"),
    (
        "driver.module_signer",
        {SIGNED: {"signer": "Rocky kernel signing key", "key": OTHER}},
        {},
        PASS,
        "whose key is built into the kernel",
    ),
    (
        "driver.module_signer",
        {(*SIGNED, "key"): OTHER, (*KERNEL_KEYS, 0, "name"): "DKMS module signing key"},
        {},
        FAIL,
        "another key with this name",
    ),
    ("driver.module_signer", {(*SIGNED, "key"): OTHER, (*KERNEL_KEYS, 0, "numbers"): [OTHER]}, {}, PASS, "built into"),
    ("driver.module_signer", {ENROLLED: []}, {}, FAIL, f"whose key {MOK} is not trusted here"),
    ("driver.module_signer", {ENROLLED: {"unreadable": "mokutil"}}, {}, UNKNOWN, "mokutil"),
    ("driver.module_signer", {ENROLLED: [], KERNEL_KEYS: {"unreadable": "no keys"}}, {}, UNKNOWN, "no keys"),
    ("driver.module_signer", {KERNEL_KEYS: {"unreadable": "no keys"}}, {}, PASS, "enrolled"),
    ("driver.module_signer", {SIGNED: None}, {}, UNKNOWN, "no module"),
    ("driver.module_signer", {SIGNED: {"unreadable": "modinfo"}}, {}, UNKNOWN, "modinfo"),
    ("driver.module_signer", {SECURE: "disabled"}, {}, SKIP, "Secure Boot is disabled"),
    ("driver.module_signer", {SECURE: "unsupported"}, {}, SKIP, "Secure Boot is unsupported"),
    ("driver.module_signer", {SECURE: "maybe"}, {}, UNKNOWN, "maybe"),
    (
        "driver.module_signer",
        {SECURE: "disabled", ("module_signature", "enforced"): True, SIGNED: {"signer": "", "key": ""}},
        {},
        FAIL,
        "is not signed",
    ),
    ("driver.module_signer", CONTAINER, {}, SKIP, "container (podman)"),
    ("driver.initramfs", {IMAGE: "535.261.03"}, {}, FAIL, "img loads 535.261.03, but 580.95.05"),
    ("driver.initramfs", {IMAGE: "580.95.05"}, {}, PASS, "as on disk"),
    ("driver.initramfs", {IMAGE: "580.95.05", (*NVIDIA, "modules", KERNEL): None}, {}, UNKNOWN, "none on disk"),
    ("driver.initramfs", {("initramfs",): None}, {}, SKIP, f"no initramfs of kernel {KERNEL}"),
    ("driver.initramfs", {("initramfs",): {"unreadable": "not known"}}, {}, UNKNOWN, "not known"),
    ("driver.initramfs", {("initramfs", "image"): "/boot/initramfs-5.1.img"}, {}, UNKNOWN, "a kernel other than"),
    ("driver.initramfs", CONTAINER, {}, SKIP, "container (podman)"),
    (
        "containers.one_specification",
        {("containers", "others"): ["/etc/cdi/nvidia.yaml"]},
        {},
        WARN,
        "also described in /etc/cdi/nvidia.yaml",
    ),
    ("containers.one_specification", {("containers",): None}, {}, SKIP, "this node is not set up for containers"),
    ("containers.one_specification", {("containers", "others"): {"unreadable": "x"}}, {}, UNKNOWN, "x"),
    # The job's or the container's own limit is no finding of the node.
    ("driver.reachable", IN_JOB, {}, UNKNOWN, "this Slurm job (4711) has no GPU"),
    ("driver.reachable", {**NO_CARD, **confined("slurm", 4, 0, job="4711")}, {}, UNKNOWN, "this Slurm job (4711)"),
    ("driver.reachable", {**NO_CARD, **confined("slurm", 4, 0, job="4711", granted=True)}, {}, FAIL, "finds no GPU"),
    ("driver.reachable", {**NO_CARD, **confined("slurm", 4, 3, job="4711", granted=True)}, {}, FAIL, "finds no GPU"),
    ("driver.reachable", {**NO_CARD, **confined("slurm", 4, 4, job="4711", granted=True)}, {}, UNKNOWN, "Slurm"),
    ("driver.reachable", {**NO_CARD, **confined("docker", 0)}, {}, UNKNOWN, "this Docker container has no GPU"),
    ("driver.reachable", {**NO_CARD, **confined("kubernetes", 2, 2)}, {}, UNKNOWN, "this Kubernetes pod has no GPU"),
    ("driver.reachable", {**NO_CARD, **confined("docker", 2, 2)}, {}, FAIL, "finds no GPU"),
    ("driver.reachable", {**NO_CARD, **confined("kubernetes", 2, 1)}, {}, FAIL, "finds no GPU"),
    ("driver.reachable", {**NO_CARD, **confined("kubernetes", 0)}, {}, UNKNOWN, "pod has no GPU"),
    ("driver.reachable", {SMI: {**NO_CARD[SMI], "status": "not_installed"}, **confined("docker", 0)}, {}, FAIL, ""),
    ("driver.reachable", {**NO_CARD, **confined("docker", 1, 0)}, {}, FAIL, "finds no GPU"),
    ("driver.reachable", {**IN_JOB, (*NVIDIA, "loaded"): None}, {}, FAIL, "finds no GPU"),
    ("driver.reachable", {**IN_JOB, SMI: {**NO_CARD[SMI], "status": "gpu_lost"}}, {}, FAIL, "finds no GPU"),
    ("driver.reachable", {**NO_CARD, CONFINED: {"unreadable": "x"}}, {}, FAIL, "finds no GPU"),
    ("driver.reachable", NO_CARD, {}, FAIL, "finds no GPU"),
    ("framework.cuda_build", {CARDS: False, **confined("slurm", 1, 1, job="4711")}, {}, UNKNOWN, "Slurm"),
    ("framework.cuda_build", {CARDS: False, (*CONFINED, "hidden"): True}, {}, UNKNOWN, "CUDA_VISIBLE_DEVICES"),
    ("framework.cuda_build", {CARDS: False, CONFINED: {"unreadable": "x"}}, {}, FAIL, "finds no GPU"),
    ("gpu.count", {**TWO, **confined("slurm", 2, 1, job="7")}, {"gpu_count": 2}, UNKNOWN, "Slurm job (7) has some"),
    ("gpu.count", {**TWO, **confined("docker", 1)}, {"gpu_count": 2}, UNKNOWN, "this Docker container has some"),
    ("gpu.count", {**TWO, **confined("slurm", 2, 0, job="7")}, {"gpu_count": 2}, FAIL, "does not show 0000:5e:00.0"),
    ("gpu.count", TWO, {"gpu_count": 2}, FAIL, "does not show 0000:5e:00.0"),
    ("gpu.count", {**TWO, CONFINED: {"unreadable": "x"}}, {"gpu_count": 2}, FAIL, "does not show"),
    (
        "gpu.count",
        {("probe", "gpus"): [{"pci_id": PCI_ID}, {"pci_id": "0000:5e:00.0"}, {"pci_id": "0000:5f:00.0"}],
         **confined("slurm", 3, 1, job="7")},
        {"gpu_count": 3},
        FAIL,
        "does not show 0000:5e:00.0, 0000:5f:00.0",
    ),
]  # fmt: skip
