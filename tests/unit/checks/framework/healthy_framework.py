"""What the readings say of the Python environment where every check passes."""

from __future__ import annotations

from typing import Any

from healthy_plan import PLAN

NOT_TRIED = {"framework.tensorflow": "not tried: the action shows the devices, and a person looks at them"}
READINGS: dict[str, Any] = {
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
    "tensorflow": {
        "version": "2.20.0",
        "built_for": "cuda",
        "cards": 1,
        "devices": [
            {"device": "cpu:0", "product": True, "learns": True, "there": True},
            {"device": "gpu:0", "product": True, "learns": True, "there": True},
        ],
        "lost": [],
    },
    "environment": {
        "distributions": 2,
        "files": 2,
        "hashed": 0,
        "problem_count": 0,
        "problems": [],
        "damaged": [],
        "closed_count": 0,
        "closed": [],
    },
    "stamp": {"schema": 1, "python": "3.11", "pytorch": PLAN["pytorch"]},
}
