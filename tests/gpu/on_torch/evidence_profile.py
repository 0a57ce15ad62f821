"""What bounds the trainer's step: how long the GPU works in it, how many kernels it runs, and which take longest."""

from __future__ import annotations

import gc
import os
import sys
import time
from functools import partial
from typing import Any

import torch
from evidence_result import Found
from gan_trainer.bench.training import make_batches, make_trainer
from gan_trainer.config import make_config
from gan_trainer.engine.memory import use_expandable_segments
from torch.profiler import ProfilerActivity, profile

WARM_UP, STEPS, COSTLIEST = 12, 10, 15
TRIAL = {"image_size": 32, "channels": 8, "latent_dim": 16, "batch_size": 8}


def profiled(device: torch.device, settings: dict[str, Any]) -> dict[str, Any]:
    """ms of a step, the part of it in which the GPU works, kernels of a step, the costliest [{name, share, calls}]."""
    on_gpu = device.type == "cuda"
    config = make_config({"device": device.type, "data": "synthetic", "compile": "off", **settings})
    trainer = make_trainer(config, device)
    batches = [batch.to(device) for batch in make_batches(config, config.batch_size, pinned=on_gpu)]

    def steps(count: int) -> float:
        begin = time.perf_counter()
        for number in range(count):
            trainer.step(batches[number % len(batches)])
        if on_gpu:
            torch.cuda.synchronize()
        return (time.perf_counter() - begin) / count

    steps(WARM_UP if on_gpu else 2)
    # Without the profiler, which makes each launch dearer.
    step_s = steps(STEPS if on_gpu else 2)
    with profile(activities=[ProfilerActivity.CUDA] if on_gpu else [ProfilerActivity.CPU]) as seen:
        steps(STEPS if on_gpu else 2)
    rows = []
    for row in seen.key_averages():
        # The name of this column changed in torch 2.3.
        spent = getattr(row, "self_device_time_total", 0) if on_gpu else row.self_cpu_time_total
        if spent:
            rows.append({"name": row.key[:100], "us": spent / (STEPS if on_gpu else 2), "calls": row.count})
    rows.sort(key=lambda row: -row["us"])
    total = sum(row["us"] for row in rows)
    return {
        "step_ms": round(step_s * 1e3, 3),
        "busy_ms": round(total / 1e3, 3),
        "kernels": round(sum(row["calls"] for row in rows) / (STEPS if on_gpu else 2)),
        "costliest": [
            {"name": row["name"], "share": round(row["us"] / total, 3), "calls": row["calls"]}
            for row in rows[:COSTLIEST]
        ],
    }


def main() -> None:
    device = torch.device(sys.argv[1])
    use_expandable_segments(os.environ)
    found = Found()
    for size in (64, 256):
        for name, more in {"eager": {}, "CUDA graphs": {"cuda_graphs": True}}.items():
            if device.type != "cuda":
                found.attempt(f"32 px, {name}", lambda: profiled(device, TRIAL))
                return
            settings = {"image_size": size, "batch_size": 128, **more}
            found.attempt(f"{size} px, {name}", partial(profiled, device, settings))
            # Recorded graphs hold their memory until the trainer is gone.
            gc.collect()
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
