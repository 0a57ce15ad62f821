"""What the readings say of the host where every check passes."""

from __future__ import annotations

import os
import time
from typing import Any

from host_tree import HostTree
from node_names import Changes

DISK_HEALTH = {"passed": True, "critical_warning": 0, "percentage_used": 3}

READINGS: dict[str, Any] = {
    "host": {
        "container": None,
        "clock_source": "tsc",
        "governors": ["performance"],
        "blocked_tasks": {"nvidia": [], "others": []},
        "environment": [],
        "swap_mib": 4095,
        "uptime_s": 86400.0,
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
    "services": {
        "toolkit": [
            {"unit": "gpuwright-boot-check.service", "active": "inactive", "enabled": "enabled"},
            {"unit": "gpuwright-check.timer", "active": "active", "enabled": "enabled"},
        ],
        "inventory": [],
    },
    "tuning": [{"name": "vm.swappiness", "wanted": "10", "found": "10", "reason": "Keep the trainer in memory."}],
    "infiniband": None,
    "link_errors": None,
    "parts": {"disks": [{"name": "nvme0n1", "gb": 1000.2}], "ethernet": [{"name": "eno1", "gbits": 10.0}], "rdma": []},
    "disks": [{"name": "nvme0n1", "model": "INTEL SSDPE2KX010T8", "state": "live", "health": DISK_HEALTH}],
    "held_updates": {"manager": "dnf", "updates": [], "days": 1},
    "repositories": None,
    "repository_files": None,
    "training_user": {
        "uid": 991,
        "gids": [991],
        "groups": ["trainer"],
        "shell": "/sbin/nologin",
        "password": "locked",
    },
}
# Checks that make sense on other nodes only, and what makes this one such a node.
REPOSITORY = "/etc/yum.repos.d/cuda-rhel8-x86_64.repo"
OTHER_NODES: dict[str, Changes] = {
    "host.repositories": {
        ("repositories",): {
            "manager": "dnf",
            "relied": ["cuda-rhel8-x86_64", "epel"],
            "problems": [],
            "weak": [],
            "files": {REPOSITORY: "1f2e3d4c5b6a7988"},
        }
    },
    "host.repository_files": {
        ("repository_files",): {
            "now": {REPOSITORY: "1f2e3d4c5b6a7988"},
            "then": {REPOSITORY: "1f2e3d4c5b6a7988"},
            "problems": [],
        }
    },
    "host.size": {("expectations", "host"): {"sockets": 2, "cpus": 20, "memory_gib": 128, "swap_gib": 4}},
    "host.infiniband_errors": {
        ("link_errors",): [
            {
                "name": "mlx5_0 port 1",
                "since_s": 5400.0,
                "rises": [{"counter": "symbol_error", "rise": 1}],
                "full": [],
                "layer": "InfiniBand",
                "counters": {"symbol_error": 4},
            }
        ]
    },
    "host.infiniband": {
        ("infiniband",): [
            {
                "name": "mlx5_0 port 1",
                "state": "ACTIVE",
                "physical": "LinkUp",
                "rate": "100 Gb/sec (4X EDR)",
                "layer": "InfiniBand",
                "link_downed": 0,
                "recovered": 0,
                "firmware": "20.31.2006",
                "usable": True,
            }
        ]
    },
}


def put_files(host: HostTree) -> None:
    for path, text in (
        ("/sys/block/nvme0n1/size", "1953525168"),
        ("/sys/block/nvme0n1/removable", "0"),
        ("/sys/block/nvme0n1/device/model", "INTEL SSDPE2KX010T8"),
        ("/sys/class/net/eno1/type", "1"),
        ("/sys/class/net/eno1/speed", "10000"),
        ("/sys/class/net/eno1/device/vendor", "0x8086"),
    ):
        host.put(path, text + "\n")
    lists = "var/cache/dnf/baseos-1a2b/repodata/repomd.xml"
    host.put(lists)
    os.utime(host.folder / lists, (time.time() - 130_000,) * 2)
    host.put("/etc/os-release", 'ID="rhel"\nVERSION_ID="8.8"\n')
    host.put("/etc/dnf/plugins/versionlock.list", "nvidia-driver-cuda-3:580.95.05-1.el8.*\n")
