"""The smoke test's own training, in every number format that this card computes in."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import torch
from evidence_result import Found
from gan_trainer.performance.measures import why_no_format
from gan_trainer.precision import PrecisionError, choose_precision
from gan_trainer.smoke.run import Target, list_targets, measure

FORMATS = ("fp32", "tf32", "fp16", "bf16")


def one(target: Target, name: str, steps: int) -> dict[str, Any]:
    try:
        precision = choose_precision(name, target.capability)
    except PrecisionError as error:
        return {"left_out": str(error)}
    why = why_no_format(name, target.capability)
    record, faults = measure(target, precision, steps)
    return {"record": record, "faults": faults, "slow_because": why}


def main() -> None:
    device, steps = sys.argv[1], int(sys.argv[2])
    if device == "cpu":
        torch.set_num_threads(1)
    found = Found(torch=torch.__version__)
    for target in list_targets(device)[:1]:
        for name in FORMATS:
            found.attempt(name, partial(one, target, name, steps))


if __name__ == "__main__":
    main()
