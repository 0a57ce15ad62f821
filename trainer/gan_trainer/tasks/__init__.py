# SPDX-License-Identifier: Apache-2.0
"""What is trained. The engine knows a task only by its class (task.py): networks, losses, random numbers, samples."""

from __future__ import annotations

from ..config import Config
from ..own import OwnError, call, is_own
from .flow import Flow
from .gan import Gan
from .task import Batch, Part, Phase, Task

__all__ = ["Batch", "Part", "Phase", "Task", "make_task"]

TASKS = {"gan": Gan, "flow": Flow}


def make_task(config: Config) -> Task:
    """The task that the configuration names, from the trainer or from a user's package. Raises OwnError."""
    if not is_own(config.task):
        return TASKS[config.task](config)
    made = call("task", config.task, config)
    if not isinstance(made, Task):
        raise OwnError(f"task: {config.task}: expected a gan_trainer.tasks.Task, found {type(made).__name__}")
    return made
