"""The reported tables for this card, by the bench's own code: batch 32, 64 and 128, in float32 and in float16."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from evidence_result import Found
from gan_trainer.bench.reported import BATCH, PRECISION, with_reported
from gan_trainer.bench.tables import REDUCED, REDUCED_STEPS, batch_rows, precision_rows
from gan_trainer.config import make_config
from gan_trainer.engine.memory import use_expandable_segments

ROUNDS, STEPS = 3, 30
FORMATS = ("fp32", "fp16")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def beside_reported(work: Callable[[], list[dict[str, Any]]], key: str, table: dict[Any, Any]) -> list[dict[str, Any]]:
    return with_reported(work(), key, table)


def main() -> None:
    device, end = torch.device(sys.argv[1]), time.monotonic() + float(sys.argv[2])
    on_gpu = device.type == "cuda"
    use_expandable_segments(os.environ)
    config = make_config({"device": device.type, "data": "synthetic", "compile": "off"})
    if not on_gpu:
        torch.set_num_threads(1)
        config = replace(config, **REDUCED)
    steps, rounds = (STEPS, ROUNDS) if on_gpu else (REDUCED_STEPS, 2)
    found = Found(image_size=config.image_size, rounds=rounds, trial=not on_gpu)
    for name in FORMATS if on_gpu else FORMATS[:1]:
        work = partial(batch_rows, replace(config, precision=name), device, steps, rounds, say, config.synthetic_images)
        found.attempt(name, partial(beside_reported, work, "batch_size", BATCH))
    if time.monotonic() < end:
        rows = partial(precision_rows, config, device, steps, rounds, say, config.synthetic_images, None)
        found.attempt("precision", partial(beside_reported, rows, "name", PRECISION))


if __name__ == "__main__":
    main()
