"""What the readings say of the container engine, and that nothing confines the process where every check passes."""

from __future__ import annotations

from typing import Any

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

READINGS: dict[str, Any] = {
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
}
