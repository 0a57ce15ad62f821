# SPDX-License-Identifier: Apache-2.0
"""Findings about the limits of a job or container, not about the node; for checks that ask the driver."""

from typing import Optional, Tuple

from ..verdict.evidence import Evidence, Unreadable

NAMES = {"slurm": "Slurm", "kubernetes": "Kubernetes", "docker": "Docker", "pbs": "PBS", "htcondor": "HTCondor"}
# These hide cards only through the control group; their device nodes stay visible.
JOBS = ("slurm", "kubernetes", "pbs", "htcondor")
SLURM_ACTION = (
    "Run it inside an allocation with GPUs (srun --gres=gpu:1, or --gpus=1), or as root outside of the job, "
    "where it sees the whole node."
)
POD_ACTION = "Give the pod GPUs (resources.limits: nvidia.com/gpu), or run gpu-doctor on the node itself."
CONTAINER_ACTION = (
    "Start the container with the GPUs (docker run --gpus all; podman run --device nvidia.com/gpu=all), or run "
    "gpu-doctor on its host."
)
JOB_ACTION = "Ask the batch system for GPUs for this job, or run gpu-doctor as root outside of it."
ACTIONS = {"slurm": SLURM_ACTION, "kubernetes": POD_ACTION, "pbs": JOB_ACTION, "htcondor": JOB_ACTION}


def kept_away(readings: Evidence) -> Optional[Tuple[str, str]]:
    """(why, what to do) if a job or container keeps the loaded driver's cards from this process; else None."""
    try:
        if readings.absent("confinement", "manager") or readings.absent("probe", "nvidia", "loaded"):
            # Without the module, it is the node that lacks something, even in a job.
            return None
        manager = readings.text("confinement", "manager")
        cards, denied = _cards(readings, manager)
        silent = manager == "slurm" and not readings.flag("confinement", "granted")
        if not silent and denied < max(cards, 1) and cards:
            return None
        who = _who(readings, manager)
    except Unreadable:
        return None
    return f"{who} has no GPU: this says nothing about the node", ACTIONS.get(manager, CONTAINER_ACTION)


def given_some(readings: Evidence) -> Optional[Tuple[int, str, str]]:
    """(how many cards are withheld, why, what to do) if a job or container has only some of the cards; else None."""
    try:
        if readings.absent("confinement", "manager"):
            return None
        manager = readings.text("confinement", "manager")
        cards, denied = _cards(readings, manager)
        away = denied or max(0, len(readings.each("probe", "gpus")) - cards)
        if not away or denied == cards:
            return None
        return away, f"{_who(readings, manager)} has some of the GPUs", ACTIONS.get(manager, CONTAINER_ACTION)
    except Unreadable:
        return None


def _cards(readings: Evidence, manager: str) -> Tuple[int, int]:
    """(existing card nodes, those that may not be opened)."""
    cards, denied = (len(readings.each("confinement", name)) for name in ("cards", "denied"))
    # A container that was given no card has no node of it; one that has nodes is meant to act as a node itself.
    return cards, denied if manager in JOBS else 0


def hidden_from_programs(readings: Evidence) -> bool:
    """Whether CUDA_VISIBLE_DEVICES is set so that no program finds a GPU."""
    try:
        return readings.flag("confinement", "hidden")
    except Unreadable:
        return False


def _who(readings: Evidence, manager: str) -> str:
    job = readings.wish("confinement", "job")
    name = NAMES.get(manager, manager)
    if job:
        return f"this {name} job ({job})"
    return "this {} {}".format(name, {"kubernetes": "pod", "slurm": "job"}.get(manager, "container"))
