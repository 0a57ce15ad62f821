"""What the probe says of the healthy node."""

from __future__ import annotations

from typing import Any

from node_names import KERNEL, PCI_ID

MODULE = {"version": "580.95.05", "flavour": "proprietary", "licence": "NVIDIA"}

READINGS: dict[str, Any] = {
    "probe": {
        "schema": 1,
        "hostname": "a5-01",
        "kernel": {
            "running": KERNEL,
            "next_boot": KERNEL,
            "installed": [KERNEL],
            "with_headers": [KERNEL],
            "boot_id": "3f0c2a9e-5d41-4c1b-9a77-6f2f0d1e8b54",
            "build": "#1 SMP Wed Apr 5 13:35:01 EDT 2023",
            "boot_entry": {"kind": "saved", "text": "${saved_entry}", "first": KERNEL},
            "owners": {KERNEL: {"package": "kernel-core", "version": KERNEL.partition(".x86_64")[0]}},
            "metapackages": [],
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
        "platform": {
            "id": None,
            "name": "",
            "needs": [],
            "switches": {},
            "bridges": 0,
            "known": True,
            "because": "",
        },
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
            "half_replaced": [],
            "nouveau_unblocked": [],
        },
        "nouveau_loaded": False,
        "reboot": {"required": False, "reasons": [], "codes": []},
    },
}
