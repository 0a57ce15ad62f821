"""Paths in the readings, and values to put there, that rows of more than one file use."""

from __future__ import annotations

import healthy_node

GPU = ("probe", "gpus", 0)
SMI = ("nvidia_smi",)
SMI_GPU = ("nvidia_smi", "gpus", 0)
HEALTH = (*SMI_GPU, "health")
NVIDIA = ("probe", "nvidia")
V100 = healthy_node.READINGS["nvidia_smi"]["gpus"][0]
DOWN = {
    "reachable": False,
    "rc": 9,
    "status": "driver_not_loaded",
    "message": "not loaded",
    "action": "modprobe nvidia",
}
A100 = {
    **V100,
    "name": "NVIDIA A100-PCIE-40GB",
    "architecture": "ampere",
    "retired_pages_pending": None,
    "remapped_rows_pending": False,
    "remapped_rows_failure": False,
}
GEFORCE = {
    **V100,
    "name": "NVIDIA GeForce RTX 3090",
    "ecc_mode": None,
    "ecc_uncorrected_volatile": None,
    "retired_pages_pending": None,
}
TUNING = ("tuning", 0)
