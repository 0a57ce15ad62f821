"""What the smoke test says where every check passes."""

from __future__ import annotations

from typing import Any

from node_names import Changes

SMOKE: dict[str, Any] = {
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
    "compile": {
        "device": "cuda",
        "steps": [
            {"name": "triton", "what": "Triton's helper in C", "fault": "none", "words": "", "seconds": 1.2},
            {"name": "extension", "what": "a PyTorch extension in C++", "fault": "none", "words": "", "seconds": 0.9},
            {
                "name": "torch.compile",
                "what": "a function under torch.compile",
                "fault": "none",
                "words": "",
                "seconds": 21.0,
            },
            {
                "name": "nvrtc",
                "what": "a function that PyTorch compiles by NVRTC",
                "fault": "none",
                "words": "",
                "seconds": 3.1,
            },
        ],
        "left_out": [],
        "problems": [],
    },
    "limits": {"memlock": "infinity", "files": "1048576"},
    "sandbox": "train-gan@.service",
    "sandbox_because": "all 15 settings of train-gan@.service",
}
OTHER_NODES: dict[str, Changes] = {
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
}
