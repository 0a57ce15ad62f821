# SPDX-License-Identifier: Apache-2.0
"""Numbers reported for the A5 servers (Tesla V100 16 GB). They are as reported: nobody has measured them again.

The data set, the network and the image size behind them were not reported, so only ratios can be compared.
"""

from __future__ import annotations

from typing import Any

GPU = "Tesla V100-PCIE-16GB"
PRECISION = {
    "fp32": {"epoch_min": 12.5, "memory_percent": 55, "fid": 53.2},
    "amp": {"epoch_min": 7.0, "memory_percent": 89, "fid": 51.0},
    "amp_2_gpus": {"epoch_min": 3.8, "memory_percent": 92, "fid": 50.1},
}
BATCH = {
    32: {"epoch_min": 12.0, "memory_percent": 45},
    64: {"epoch_min": 8.5, "memory_percent": 71},
    128: {"epoch_min": 6.7, "memory_percent": 88},
}
# Speed-up of all optimisations together; and the share of memory that mixed precision was said to save.
OVERALL = 2.5
AMP_MEMORY_SAVED = (0.3, 0.5)
# Images/s of the largest over the smallest batch, training on V100 and A100: nnU-Net 32 to 128 in float32 and in mixed
# precision, SSD 32 to 64, HiFi-GAN 32 to 64 (NVIDIA/DeepLearningExamples, tables of the models' READMEs).
PUBLISHED_BATCH_GAIN = (1.07, 1.29)
# Images/s in mixed precision over float32 on V100: HiFi-GAN 2.16, pix2pixHD 1.8, nnU-Net 1.8 to 2.1, ResNet-50 3.3.
PUBLISHED_AMP_GAIN = (1.6, 3.3)
# Two GPUs over one: StyleGAN2-ADA and StyleGAN3 1.9 to 1.98, HiFi-GAN four GPUs 78 %.
PUBLISHED_TWO_GPU_GAIN = (1.6, 2.0)


def contradictions(batch_gain: float | None) -> list[str]:
    """Sentences on claims that are impossible or do not follow; `batch_gain`: images/s at 128 over 32, if measured."""
    reported = BATCH[32]["epoch_min"] / BATCH[128]["epoch_min"]
    low, high = PUBLISHED_BATCH_GAIN
    here = "not measured here" if batch_gain is None else f"measured here {batch_gain:.2f} times"
    found = []
    if reported > high:
        found.append(
            f"Batch 32 to 128 was reported as {reported:.1f} times the speed; published figures for networks that keep "
            f"a GPU busy are {low} to {high} times ({here}). So large a gain means that small batches left the GPU "
            "waiting for launches or data, which CUDA graphs or a faster loader cure without a larger batch."
        )
    if PRECISION["amp"]["memory_percent"] > PRECISION["fp32"]["memory_percent"]:
        found.append(
            "Mixed precision was reported with more memory used (89 % against 55 %); at an equal batch it takes less, "
            "so the batches differed, or the allocator's reserve was counted, and the two times per epoch do not show "
            "what mixed precision alone gives."
        )
    found += _out_of_range("Mixed precision over float32", _gain("fp32", "amp"), PUBLISHED_AMP_GAIN)
    found += _out_of_range("Two GPUs over one", _gain("amp", "amp_2_gpus"), PUBLISHED_TWO_GPU_GAIN)
    return found


def _gain(slow: str, fast: str) -> float:
    return PRECISION[slow]["epoch_min"] / PRECISION[fast]["epoch_min"]


def _out_of_range(what: str, gain: float, published: tuple[float, float]) -> list[str]:
    low, high = published
    if low <= gain <= high:
        return []
    return [f"{what} was reported as {gain:.1f} times; published figures are {low} to {high} times."]


def with_reported(rows: list[dict[str, Any]], key: str, table: dict) -> list[dict[str, Any]]:
    """Each row with the reported numbers of its `key` beside the measured ones, None if none were reported."""
    return [{**row, "reported": dict(table[row[key]]) if row[key] in table else None} for row in rows]
