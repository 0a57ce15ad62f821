"""One way of starting a training, measured when it is asked: transfers to the device and back, and training steps.

It is started once for each way, so that the ways take turns without importing PyTorch each time. For each line on its
input it prints a record; with --once it prints one and ends.
"""

from __future__ import annotations

import json
import os
import sys
import time

import torch
from gan_trainer.bench.training import make_batches, make_trainer
from gan_trainer.config import make_config
from gan_trainer.performance import measures

GPU = {"image_size": 64, "batch_size": 64}
TRIAL = {"image_size": 32, "channels": 8, "latent_dim": 16, "batch_size": 8}
WARM_UP, STEPS, TRIAL_STEPS = 5, 40, 4


def main() -> None:
    device = torch.device(sys.argv[1])
    on_gpu = device.type == "cuda"
    sizes = measures.GPU_SIZES._replace(transfer=64 * measures.MIB, warm_up=0.02) if on_gpu else measures.CPU_SIZES
    config = make_config({"device": device.type, "data": "synthetic", "compile": "off", **(GPU if on_gpu else TRIAL)})
    batches = make_batches(config, config.batch_size, pinned=on_gpu)
    trainer = make_trainer(config, device)

    def steps(count: int) -> float:
        begin = time.perf_counter()
        for number in range(count):
            trainer.step(batches[number % len(batches)])
        if on_gpu:
            torch.cuda.synchronize()
        return count * config.batch_size / (time.perf_counter() - begin)

    steps(WARM_UP if on_gpu else 1)

    def tell(**values: object) -> None:
        sys.stdout.write("RESULT " + json.dumps(values) + "\n")
        sys.stdout.flush()

    def measured() -> dict[str, float]:
        to_device, back = measures.transfer_rates(device, sizes)
        rate = steps(STEPS if on_gpu else TRIAL_STEPS)
        return {"to the device, GB/s": to_device, "back, GB/s": back, "training images/s": rate}

    if "--once" in sys.argv:
        found = measured()
        tell(**found)
        print(f"rate {found['training images/s']:.3f}", flush=True)
        return
    tell(cpus=len(os.sched_getaffinity(0)), threads=torch.get_num_threads())
    for _line in sys.stdin:
        tell(**measured())


if __name__ == "__main__":
    main()
