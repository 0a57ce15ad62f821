"""The task learns on its data: pytest tests, once the package is installed."""

from __future__ import annotations

import torch
from NAME.data import make

from gan_trainer.config import load_config
from gan_trainer.engine.loop import Trainer
from gan_trainer.precision import Precision


def test_the_loss_falls() -> None:
    config = load_config("config.yml", ["batch_size=16", "device=cpu", "lr_scaling=none"])
    trainer, data = Trainer(config, torch.device("cpu"), Precision("fp32", "")), make(config)
    images = torch.stack([data[index] for index in range(16)])
    losses = []
    for _ in range(60):
        trainer.step(images)
        losses.append(float(trainer.losses[0]))
    assert losses[-1] < losses[0] / 2
