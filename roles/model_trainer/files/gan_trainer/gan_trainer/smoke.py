# SPDX-License-Identifier: Apache-2.0
"""python -m gan_trainer.smoke: a short real training in float32 and in mixed precision on every GPU, or on the CPU.

Prints one line of JSON. Exit codes: 0 no problems, 1 problems, 2 wrong command line. A loss scaler that skips every
step, or a training that quietly ran on the CPU, leaves no exception behind; so what is asked here is what the training did.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from typing import Any, NamedTuple

from .config import Config, make_config

EXIT_PROBLEMS = 1
MODES = ("fp32", "amp")
DISTINCT_BATCHES = 4
# A GAN's losses go up and down for good reasons; a generator this slow lets the discriminator's loss fall for sure.
RATES = {"lr_discriminator": 1e-3, "lr_generator": 2e-5, "channels_last": True}
GPU_SIZE = {"image_size": 64, "channels": 64, "batch_size": 64, "latent_dim": 128}
CPU_SIZE = {"image_size": 32, "channels": 8, "batch_size": 8, "latent_dim": 16}


class Plan(NamedTuple):
    """One device to train on: `capability` is its CUDA compute capability, None for the CPU."""

    device: str
    name: str
    capability: Any
    config: Config


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m gan_trainer.smoke", description=__doc__, allow_abbrev=False)
    parser.add_argument("--device", choices=("cuda", "cpu"), required=True, help="where it must run")
    parser.add_argument("--steps", type=int, default=50, help="training steps in each precision, from 10 (default: 50)")
    parser.add_argument("--json", action="store_true", help="print one line of JSON (otherwise it is indented)")
    options = parser.parse_args(arguments)
    if not 10 <= options.steps <= 100_000:
        parser.error(f"--steps {options.steps}: expected 10 to 100000")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    result = smoke(options.device, options.steps)
    print(json.dumps(result, indent=None if options.json else 2), flush=True)
    return EXIT_PROBLEMS if result["problems"] else 0


def smoke(device: str, steps: int) -> dict[str, Any]:
    """The report; whatever goes wrong becomes one of its `problems`."""
    report = {"schema": 1, "torch": None, "cuda": None, "device": device, "steps": steps, "devices": [], "problems": []}
    try:
        import torch
    except Exception as error:
        traceback.print_exc()
        report["problems"].append(f"torch cannot be imported: {error}")
        return report
    report.update(torch=torch.__version__, cuda=torch.version.cuda)
    plans = list_plans(device)
    if not plans:
        built = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "for the CPU only"
        report["problems"].append(f"device cuda was demanded, but torch {torch.__version__}, built {built}, finds no GPU")
    for plan in plans:
        record = try_device(plan, steps, report["problems"])
        report["devices"].append(record)
    return report


def list_plans(device: str) -> list[Plan]:
    """The CPU, or every visible GPU; empty when a GPU is wanted and there is none."""
    import torch

    if device == "cpu":
        return [Plan("cpu", "CPU", None, make_config({**RATES, **CPU_SIZE, "device": "cpu"}))]
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    config = make_config({**RATES, **GPU_SIZE, "device": "cuda"})
    return [
        Plan(f"cuda:{index}", torch.cuda.get_device_name(index), torch.cuda.get_device_capability(index), config)
        for index in range(count)
    ]


def try_device(plan: Plan, steps: int, problems: list[str]) -> dict[str, Any]:
    """Train in both precisions on one device and add what is wrong to `problems`."""
    amp = choose_amp(plan.capability)
    record = {"device": plan.device, "name": plan.name, "amp_dtype": dtype_name(amp), "amp_dtype_because": amp.because}
    rates = {}
    for mode, precision in zip(MODES, (fp32(), amp)):
        try:
            record[mode], rates[mode] = measure(plan, precision, steps)
        except Exception as error:
            # Its kind is not known beforehand: a missing kernel image, a lost GPU, memory that is too small.
            traceback.print_exc()
            record[mode] = None
            problems.append(f"{plan.device} {mode}: {type(error).__name__}: {' '.join(str(error).split())[:500]}")
            continue
        problems += [f"{plan.device} {mode}: {fault}" for fault in judge(record[mode], steps)]
    # A CPU emulates half precision, so the ratio would be a false statement about speed.
    comparable = plan.capability is not None and len(rates) == len(MODES)
    record["speed_ratio"] = round(rates["amp"] / rates["fp32"], 3) if comparable else None
    return record


def fp32() -> Any:
    from .precision import Precision

    return Precision("fp32", "the reference")


def choose_amp(capability: Any) -> Any:
    """Half precision in any case, also where training itself would rather choose float32."""
    from .precision import Precision, choose_precision

    if capability is None:
        return choose_precision("bf16", None)
    if capability < (7, 0):
        return Precision("fp16", "compute capability {}.{}: a check of float16 without tensor cores".format(*capability))
    return choose_precision("auto", capability)


def dtype_name(precision: Any) -> str:
    return str(precision.dtype).replace("torch.", "")


def measure(plan: Plan, precision: Any, steps: int) -> tuple[dict[str, Any], float]:
    """Train `steps` steps; the record of the contract, and images per second without the warm-up."""
    import torch

    from .data import SyntheticImages
    from .loop import Trainer

    config, device = plan.config, torch.device(plan.device)
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.set_device(device)
        torch.cuda.reset_peak_memory_stats(device)
    images = SyntheticImages(config.image_size, DISTINCT_BATCHES * config.batch_size, seed=0)
    batches = torch.stack([images[index] for index in range(len(images))]).split(config.batch_size)
    trainer = Trainer(config, device, precision)
    trained = (trainer.generator, trainer.discriminator)
    before = [parameter.detach().clone() for network in trained for parameter in network.parameters()]
    losses, skipped, warm_up = [], 0, steps // 5
    start = begin = time.perf_counter()
    for step in range(steps):
        if step == warm_up:
            begin = time.perf_counter()
        scale = trainer.scaler.get_scale()
        trainer.step(batches[step % len(batches)])
        # The scaler tells of a skipped step only by lowering its scale.
        skipped += trainer.scaler.get_scale() < scale
        losses.append(trainer.losses.tolist())
    end = time.perf_counter()
    after = [parameter for network in trained for parameter in network.parameters()]
    d_losses = [d_loss for d_loss, _ in losses]
    tail = d_losses[-max(1, steps // 5) :]
    ran_on = {parameter.device.type for parameter in after} | {trainer.losses.device.type}
    record = {
        "steps_applied": steps - skipped,
        "steps_skipped": skipped,
        "loss_first": finite_or_none(d_losses[0]),
        "loss_last": finite_or_none(sum(tail) / len(tail)),
        "losses_finite": all(finite_or_none(value) is not None for pair in losses for value in pair),
        "parameters_changed": all(not torch.equal(old, new) for old, new in zip(before, after)),
        "ran_on": "cuda" if ran_on == {"cuda"} else "cpu",
        "loss_scale": trainer.scaler.get_scale(),
        "peak_memory_mib": torch.cuda.max_memory_allocated(device) >> 20 if on_gpu else None,
        "seconds": round(end - start, 3),
    }
    return record, (steps - warm_up) * config.batch_size / (end - begin)
