"""What the readings say of the driver and its files where every check passes."""

from __future__ import annotations

from typing import Any

from node_names import KERNEL, Changes


def board(key: str, *needs: str) -> dict[str, Any]:
    """The probe's record of a board with switches; B200's are reached through bridges."""
    seen: dict[str, Any] = {"switches": {}, "bridges": 4 if key == "hgx-b200" else 0, "known": True, "because": ""}
    return {"id": key, "name": key, "needs": list(needs), **seen}


# The device nodes and their numbers, of those that the kernel keeps for local use.
NODES = {"nvidia0": (240, 0), "nvidiactl": (240, 255), "nvidia-uvm": (241, 0)}

READINGS: dict[str, Any] = {
    "persistenced": "active",
    "fabric_manager": "active",
    "fabric_manager_version": "580.95.05",
    "switches": 0,
    "nvlsm": None,
    "imex": None,
    "driver_files": {
        "libraries": {"libcuda.so.1": "580.95.05", "libnvidia-ml.so.1": "580.95.05"},
        "nvidia_smi": {"is_file": True, "executable": True, "mode": "0755", "unsafe": ""},
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
    "device_nodes": {
        path: {"readable": True, "writable": True, "mode": "0666", "owner": "0:0", "group": "root"}
        for path in ("/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl")
    },
    "card_nodes": [{"pci_id": "0000:3b:00.0", "node": "/dev/nvidia0"}],
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
}
# Checks that make sense on other nodes only, and what makes this one such a node.
OTHER_NODES: dict[str, Changes] = {
    "driver.modules": {("kernel_modules",): {"gdrdrv": "live"}, ("expectations", "modules"): ["gdrdrv"]},
    "driver.fabric_manager": {("switches",): 4},
    "driver.nvlsm": {
        ("probe", "platform"): board("hgx-b200", "fabric_manager", "nvlsm"),
        ("nvlsm",): {"installed": True, "running": True},
    },
    "driver.imex": {
        ("probe", "platform"): board("nvl72", "imex"),
        ("imex",): {"state": "active", "version": "580.95.05"},
    },
}
NOT_TRIED = {
    "driver.nvlsm": "not tried: as driver.fabric_manager, whose service starts it",
    "driver.imex": "not tried: as driver.fabric_manager, of a rack that tests have no answer of",
}
