"""The plan of the healthy node, and what the inventory expects of it."""

from __future__ import annotations

from typing import Any

PLAN: dict[str, Any] = {
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
    "pytorch": {
        "version": "2.10.0",
        "build": "cu128",
        "lock": "py3.11-torch2.10.0-cu128.txt",
        "locked": True,
        "extensions": True,
    },
    "tensorflow": {"version": "2.20.0", "cuda_from_pip": True},
    "runtime": {
        "packages": [],
        "jemalloc": "/usr/lib64/libjemalloc.so.2",
        "tcmalloc": "/usr/lib64/libtcmalloc_minimal.so.4",
    },
}

EXPECTATIONS: dict[str, Any] = {
    "schema": 1,
    "gpu_count": 1,
    "gpu_model": "Tesla V100-PCIE-16GB",
    "plan": PLAN,
    "venv": "/opt/gpuwright/venvs/current",
    "smoke_device": "cuda",
    "training_user": "trainer",
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
