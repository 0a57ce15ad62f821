"""Conditions of a node that is finished: what is done to it or asked of it there, and what must be said."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """name     what is so on the node          script   root runs it there; it ends with what is to be judged
    says     words that must be in its output          undo  root runs it afterwards
    """

    name: str
    script: str
    says: tuple[str, ...]
    undo: str = "true"


FINDINGS = (
    Finding(
        "device files with mode 0600",
        "chmod 0600 /dev/nvidia0; gpu-doctor",
        ("FAIL", "driver.device_nodes", "trainer may not use /dev/nvidia0 (mode 0600, group root)"),
        "chmod 0666 /dev/nvidia0",
    ),
    Finding(
        "device files of a group that the trainer is not in",
        "chgrp video /dev/nvidia0; chmod 0660 /dev/nvidia0; gpu-doctor",
        (
            "FAIL",
            "trainer may not use /dev/nvidia0 (mode 0660, group video, which has access)",
            "usermod -aG video trainer",
        ),
        "chgrp root /dev/nvidia0; chmod 0666 /dev/nvidia0",
    ),
    Finding(
        "a Slurm job without GPUs",
        # As nvidia-smi says it where the job's control group denies it the cards; no container can have one of its own.
        """echo '{"exit": 6, "text": "No devices were found"}' > /etc/fleet/nvidia-smi.json
runuser -u trainer -- env SLURM_JOB_ID=4711 SLURM_GPUS_ON_NODE=0 gpu-doctor""",
        ("this Slurm job (4711) has no GPU: this says nothing about the node", "srun --gres=gpu:1"),
        "rm /etc/fleet/nvidia-smi.json",
    ),
)
