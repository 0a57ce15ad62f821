"""What a training step of the trainer holds in memory at the end of each of its phases, by the trainer's own report."""

from __future__ import annotations

import gc
import os
import sys
from functools import partial
from typing import Any

import torch
from evidence_result import Found
from gan_trainer.bench.training import make_batches, make_trainer
from gan_trainer.config import make_config
from gan_trainer.engine.memory import use_expandable_segments

TRIAL = {"image_size": 32, "channels": 8, "latent_dim": 16, "batch_size": 8}


def phases(device: torch.device, settings: dict[str, Any]) -> dict[str, Any]:
    config = make_config({"device": device.type, "data": "synthetic", "compile": "off", **settings})
    trainer = make_trainer(config, device)
    batches = make_batches(config, config.batch_size, pinned=device.type == "cuda")
    for number in range(2):
        trainer.step(batches[number])
    return {"precision": trainer.precision.name, "phases": trainer.memory.phases}


def main() -> None:
    device = torch.device(sys.argv[1])
    use_expandable_segments(os.environ)
    found = Found()
    for size in (64, 256):
        for precision in ("fp32", "auto"):
            settings = {"image_size": size, "batch_size": 128} if device.type == "cuda" else TRIAL
            name = f"{settings['image_size']} px, batch {settings['batch_size']}, {precision}"
            found.attempt(name, partial(phases, device, {**settings, "precision": precision}))
            gc.collect()
            if device.type == "cuda":
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
