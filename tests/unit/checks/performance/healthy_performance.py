"""What the readings say of the measured speed where every check passes."""

from __future__ import annotations

import copy
from typing import Any

from gpuwright.training.performance import record
from node_names import PCI_ID, Changes

# What gan_trainer.performance says of a V100 that is as fast as others have measured.
MEASURED = {
    "device": "cuda:0",
    "name": "Tesla V100-PCIE-16GB",
    "pci_id": PCI_ID,
    "measures": {
        "h2d_gb_s": 12.3,
        "d2h_gb_s": 12.9,
        "h2d_remote_gb_s": 9.5,
        "d2h_remote_gb_s": 8.7,
        "link_gt_s": 8.0,
        "copy_gb_s": 751.0,
        "matmul_fp16_tflops": 88.0,
        "matmul_bf16_tflops": None,
        "matmul_tf32_tflops": None,
        "matmul_fp32_tflops": 13.2,
        "p2p_gb_s": None,
    },
    "left_out": {
        "matmul_bf16_tflops": "compute capability 7.0 has bfloat16 by emulation only",
        "matmul_tf32_tflops": "compute capability 7.0 has no TF32",
        "p2p_gb_s": "there is no second GPU",
    },
}


def measured(number: int, name: str = "NVIDIA A100-SXM4-80GB", **changes: float) -> list[dict]:
    """What it says of `number` such cards."""
    good = {"h2d_gb_s": 25.0, "d2h_gb_s": 26.0, "h2d_remote_gb_s": 20.0, "d2h_remote_gb_s": 19.0, "link_gt_s": 16.0}
    good.update(copy_gb_s=1700.0, matmul_fp16_tflops=270.0, matmul_bf16_tflops=271.0, matmul_tf32_tflops=130.0)
    good.update(matmul_fp32_tflops=19.0, p2p_gb_s=270.0, **changes)
    common = {"name": name, "pci_id": PCI_ID, "left_out": {}, "measures": good}
    return [{"device": f"cuda:{index}", **copy.deepcopy(common)} for index in range(number)]


def performance_of(number: int, busbw: float | None = None, name: str = "NVIDIA A100-SXM4-80GB") -> dict:
    """The report's record of them."""
    reduced = busbw and {"gpus": number, "value": busbw}
    return record(measured(number, name), reduced or None, [], f"measured on {number} idle GPUs", [])


READINGS: dict[str, Any] = {
    "performance": record([MEASURED], None, [], "measured on 1 idle GPUs as user trainer", []),
}
# Checks that make sense on other nodes only, and what makes this one such a node.
OTHER_NODES: dict[str, Changes] = {
    "performance.all_reduce": {("performance",): performance_of(8, 231.0), ("expectations", "gpu_count"): 8},
    **{
        f"performance.{name}": {("performance",): performance_of(2), ("expectations", "gpu_count"): 2}
        for name in ("matmul_bf16", "matmul_tf32", "p2p", "spread")
    },
}
