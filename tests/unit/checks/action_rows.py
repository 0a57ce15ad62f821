"""Rows of test_actions: what is to be done depends on what is found, and so does what must not be in it."""

from __future__ import annotations

from host_rows import TUNED_CPU, TUNING
from node_names import KERNEL, Changes
from package_rows import PACKAGES, PARTS, package
from row_values import DOWN, SMI, SMI_GPU, V100
from smoke_rows import fault

ABSENT = {**DOWN, "status": "not_installed", "reachable": False, "rc": None}
IDLE: Changes = {("persistenced",): "inactive"}
INSTALLED: Changes = {PACKAGES: [package("nvidia-driver-cuda"), package("nvidia-persistenced")]}
UBUNTU: Changes = {PACKAGES: [package("nvidia-driver-580"), package("nvidia-compute-utils-580")]}
SLOW: Changes = {("host", "governors"): ["powersave"]}
ODD: Changes = {PACKAGES: [package("a"), package("b"), package("c", "575.64")]}
TWO_DOWN = [{"unit": "slurmd", "active": "failed"}, {"unit": "munge", "active": "active"}]
NO_JEMALLOC: Changes = {("allocators", "jemalloc", "problem"): "there is no such file"}
STALE = {("initramfs", "version"): "535.261.03"}
NAMELESS: Changes = {(*SMI_GPU, "name"): "NVIDIA B400", (*SMI_GPU, "device_id"): "unknown"}


RESET = "nvidia-smi --gpu-reset -i 0000:3b:00.0"


def waits(mode: str, later: str) -> Changes:
    """A card whose MIG mode is another one after a reset."""
    return {(*SMI_GPU, "mig_mode"): mode, (*SMI_GPU, "health", "mig_pending"): later}


def asked(*words: str | None) -> Changes:
    """The driver asks for something of each card; None: it does not say."""
    cards = [
        {**V100, "pci_id": f"0000:{0x3B + number:02x}:00.0", "recovery_action": word}
        for number, word in enumerate(words)
    ]
    return {(*SMI, "gpus"): cards}


def smi(status: str, rc: int = 255, message: str = "it failed") -> Changes:
    return {SMI: {**DOWN, "status": status, "rc": rc, "message": message}}


def given(changes: Changes) -> tuple[Changes, dict[str, object]]:
    """(changes of the readings, of the expectations) of a row, whose paths of the latter begin with "expectations"."""
    asked = {str(path[1]): value for path, value in changes.items() if path[0] == "expectations"}
    return {path: value for path, value in changes.items() if path[0] != "expectations"}, asked


def next_step(record: dict) -> str:
    """What the rows look for their words in: the action, and the remedy in brackets."""
    return f"{record['action']} [{record['remedy']}]"


# (check, {path in the readings or expectations: value}, words of the next step, whether they are in it)
ROWS: list[tuple[str, Changes, str, bool]] = [
    ("gpu.recovery_action", asked("drain p2p", "node reboot"), "[reboot]", True),
    ("gpu.recovery_action", asked(None, "gpu reset"), "[reset]", True),
    ("gpu.recovery_action", asked("gpu reset", "none", "gpu reset"), " -i 0000:3b:00.0,0000:3d:00.0", True),
    ("gpu.mig_mode", {("expectations", "mig"): {"all": ["3g.20gb"]}}, "Run: ", False),
    ("gpu.mig_mode", {**waits("Disabled", "Enabled"), ("expectations", "mig"): {"all": ["3g.20gb"]}}, RESET, True),
    ("gpu.mig_mode", {**waits("Enabled", "Disabled"), ("expectations", "mig"): {"all": []}}, RESET, True),
    ("gpu.mig_mode", {**waits("Disabled", "Enabled"), ("expectations", "mig"): {"all": []}}, RESET, False),
    ("gpu.mig_mode", {**waits("Disabled", "Disabled"), ("expectations", "mig"): {"all": ["3g.20gb"]}}, RESET, False),
    (
        "gpu.mig_mode",
        {**waits("Disabled", "Disabled"), ("expectations", "mig"): {"all": ["3g.20gb"]}},
        "Correct",
        False,
    ),
    ("gpu.known_card", NAMELESS, "lspci -nn", True),
    ("gpu.known_card", {**NAMELESS, (*SMI_GPU, "device_id"): "2abc"}, "lspci -nn", False),
    ("driver.reachable", {SMI: DOWN}, "modprobe nvidia", True),
    ("driver.reachable", smi("gpu_lost"), "[power-cycle]", True),
    ("driver.reachable", smi("reset_required"), "[reboot]", True),
    ("driver.reachable", smi("failed", 4), "[drain]", True),
    ("driver.reachable", smi("failed", 255, "no permission to query the driver"), "[drain]", True),
    ("gpu.recovery_action", {(*SMI_GPU, "recovery_action"): "node reboot"}, "systemctl reboot", True),
    ("gpu.recovery_action", {(*SMI_GPU, "recovery_action"): "gpu reset"}, "systemctl reboot", False),
    ("driver.reachable", {SMI: ABSENT}, "dnf reinstall -y $(rpm -qf /usr/bin/nvidia-smi)", True),
    ("driver.reachable", {SMI: {**ABSENT, "rc": 12, "message": "libnvidia-ml.so is gone"}}, "libnvidia-ml.so.1)", True),
    ("driver.reachable", {SMI: {**ABSENT, "status": "timeout"}}, "reinstall", False),
    ("driver.persistence", {**IDLE, **INSTALLED}, "dnf install", False),
    ("driver.persistence", {**IDLE, **UBUNTU}, "dnf install", False),
    (
        "driver.persistence",
        {**IDLE, PACKAGES: [package("nvidia-driver-cuda")]},
        "dnf install -y nvidia-persisten",
        True,
    ),
    ("driver.persistence", {**IDLE, PACKAGES: []}, "dnf install", False),
    ("driver.persistence", {**IDLE, PARTS: None}, "dnf install", False),
    ("runtime.allocator", NO_JEMALLOC, "dnf reinstall -y $(rpm -qf /usr/lib64/libjemalloc.so.2) # Where no", True),
    ("runtime.allocator", NO_JEMALLOC, "site.yml --tags system_runtime", True),
    ("host.cpu_governor", SLOW, "cpupower frequency-set -g performance", True),
    ("host.cpu_governor", {**SLOW, TUNING: TUNED_CPU}, "cpupower", False),
    ("host.services", {("services", "inventory"): TWO_DOWN}, "systemctl enable --now slurmd #", True),
    ("driver.packages", ODD, "dnf distro-sync", True),
    ("driver.packages", {**ODD, (*PARTS, "manager"): "dpkg"}, "--allow-downgrades c=580.95.05* #", True),
    ("driver.initramfs", STALE, f"dracut -f --kver {KERNEL}", True),
    ("driver.initramfs", {**STALE, ("initramfs", "image"): f"/boot/initrd.img-{KERNEL}"}, "update-initramfs -u", True),
    # What the toolkit installs is installed again; what nobody has named is looked at by hand, where it was found.
    ("smoke.compile", fault(0, "no-compiler"), "site.yml --tags framework,model,verify", True),
    ("smoke.compile", fault(1, "noexec"), "in a drop-in of train-gan@.service", True),
    ("smoke.compile", fault(1, "timeout"), "gan_trainer.compiling --device cuda", True),
    ("smoke.compile", fault(1, "of a newer trainer"), "site.yml --tags framework,model,verify", True),
]
