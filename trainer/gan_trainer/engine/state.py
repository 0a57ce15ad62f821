# SPDX-License-Identifier: Apache-2.0
"""Saves everything that the next step depends on from a Trainer, and restores it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from ..models.averaging import MARK
from .loop import Trainer
from .statistics_guard import repair

# What a resumed run takes from its configuration rather than from the checkpoint.
PRESENT = ("lr", "betas", "weight_decay", "decoupled_weight_decay", "fused", "capturable", "foreach")


def capture_state(trainer: Trainer) -> dict[str, Any]:
    """Tensors and plain values only. The sampler's position and the schedule's are the step itself."""
    state = {name: part.state_dict() for name, part in trainer.parts().items()}
    watch = trainer.watch
    state["watch"] = {"sums": watch.sums, "penalties": watch.penalties, "counts": watch.counts}
    state["schedule"] = {"lr_cut": trainer.lr_cut, "bad_steps": trainer.bad_steps}
    if trainer.task.state():
        state["task"] = trainer.task.state()
    state["random"] = {"noise": trainer.noise.get_state(), "cpu": torch.get_rng_state()}
    if trainer.on_gpu:
        state["random"]["gpu"] = torch.cuda.get_rng_state(trainer.device)
    state.update({MARK: "own", "census": trainer.census})
    state.update(step=trainer.steps_done, steps_at_restart=trainer.steps_at_restart, config=asdict(trainer.config))
    return state


def restore_state(trainer: Trainer, state: dict[str, Any]) -> None:
    """Continue from `state`, whose configuration has passed drift.py; learning rates and betas are the current ones."""
    config = trainer.config
    for name, part in trainer.parts().items():
        saved = state[name]
        for group, present in zip(saved.get("param_groups", ()), getattr(part, "param_groups", ())):
            group.update({key: present[key] for key in PRESENT if key in present})
        # A scaler that is off saves an empty state, and one that is on refuses it.
        if name != "scaler" or (saved and part.is_enabled()):
            part.load_state_dict(saved)
    for name, network in (*trainer.networks.items(), ("average", trainer.average)):
        repair(name, network)
    trainer.statistics_kept.remember()
    # A run of an earlier release: estimated before the next use.
    trainer.moved = MARK not in state
    for name, tensor in state["watch"].items():
        getattr(trainer.watch, name).copy_(tensor)
    own = trainer.task.state()
    for name, tensor in state.get("task", {}).items():
        if name in own:
            own[name].copy_(tensor)
    trainer.lr_cut, trainer.bad_steps = state["schedule"]["lr_cut"], state["schedule"]["bad_steps"]
    trainer.steps_done, trainer.steps_at_restart = state["step"], state["steps_at_restart"]
    random = state["random"]
    torch.set_rng_state(random["cpu"])
    # A generator's state fits its own kind of device; from another kind, the noise starts again, from the step.
    if random["noise"].shape == trainer.noise.get_state().shape:
        trainer.noise.set_state(random["noise"])
    else:
        trainer.noise.manual_seed(config.seed + trainer.steps_done)
    if trainer.on_gpu and "gpu" in random:
        torch.cuda.set_rng_state(random["gpu"], trainer.device)
