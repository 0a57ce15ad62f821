# SPDX-License-Identifier: Apache-2.0
"""The trainings behind gan_trainer.smoke, and what is wrong with them.

A loss scaler that skips every step, and a training that quietly ran on the CPU, raise no exception. So what counts here
is what the training did: where its tensors are, which steps were applied, what the losses and parameters became.
"""

from __future__ import annotations

import math
import time
import traceback
from typing import Any, NamedTuple

import torch

from .config import Config, make_config
from .data import SyntheticImages
from .loop import Trainer
from .precision import Capability, Precision, choose_precision

DISTINCT_BATCHES = 4
# GAN losses rise and fall for good reasons; beside a generator this slow the discriminator's loss must fall.
RATES = {"lr_discriminator": 1e-3, "lr_generator": 1e-5}
GPU_SIZE = {"image_size": 64, "channels": 64, "batch_size": 64, "latent_dim": 128}
CPU_SIZE = {"image_size": 32, "channels": 8, "batch_size": 8, "latent_dim": 16}


class Target(NamedTuple):
    """A device to train on; `capability` is its CUDA compute capability, None for the CPU."""

    device: str
    name: str
    capability: Capability
    config: Config


def list_targets(device: str) -> list[Target]:
    """The CPU, or every visible GPU; empty when a GPU is wanted and there is none."""
    if device == "cpu":
        return [Target("cpu", "CPU", None, make_config({**RATES, **CPU_SIZE}))]
    config = make_config({**RATES, **GPU_SIZE})
    indices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    get_name, get_capability = torch.cuda.get_device_name, torch.cuda.get_device_capability
    return [Target(f"cuda:{index}", get_name(index), get_capability(index), config) for index in indices]


def try_target(target: Target, steps: int) -> tuple[dict[str, Any], list[str]]:
    """Train in both precisions; the device's record (see docs/architecture.md) and its problems."""
    amp = choose_amp(target.capability)
    dtype = str(amp.dtype).replace("torch.", "")
    record = {"device": target.device, "name": target.name, "amp_dtype": dtype, "amp_dtype_because": amp.because}
    problems, rates = [], {}
    for mode, precision in (("fp32", Precision("fp32", "the reference")), ("amp", amp)):
        try:
            record[mode], rates[mode], faults = measure(target, precision, steps)
        # Of many kinds: no kernel image for the GPU, a GPU that is lost, memory that does not suffice.
        except Exception as error:
            traceback.print_exc()
            record[mode], faults = None, [f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"]
        problems += [f"{target.device} {mode}: {fault}" for fault in faults]
    # CPUs compute half precision as a favour, so their ratio would say something false about speed.
    comparable = target.capability is not None and len(rates) == 2
    record["speed_ratio"] = round(rates["amp"] / rates["fp32"], 3) if comparable else None
    return record, problems


def choose_amp(capability: Capability) -> Precision:
    """Half precision in any case, even where a training would be better off with float32."""
    if capability is None:
        return choose_precision("bf16", None)
    if capability < (7, 0):
        return Precision("fp16", "compute capability {}.{}: float16 without tensor cores".format(*capability))
    return choose_precision("auto", capability)


def measure(target: Target, precision: Precision, steps: int) -> tuple[dict[str, Any], float, list[str]]:
    """Train; the mode's record, images per second after a warm-up of a fifth of the steps, and what is wrong."""
    config, device = target.config, torch.device(target.device)
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.set_device(device)
        torch.cuda.reset_peak_memory_stats(device)
    images = SyntheticImages(config.image_size, DISTINCT_BATCHES * config.batch_size, seed=0)
    batches = torch.stack([images[index] for index in range(len(images))]).split(config.batch_size)
    trainer = Trainer(config, device, precision)
    parameters = [*trainer.generator.parameters(), *trainer.discriminator.parameters()]
    before = [parameter.detach().clone() for parameter in parameters]

    losses, skipped, warm_up = [], 0, steps // 5
    start = time.perf_counter()
    for step in range(steps):
        if step == warm_up:
            warm = time.perf_counter()
        scale = trainer.scaler.get_scale()
        trainer.step(batches[step % DISTINCT_BATCHES])
        # Lowering its scale is the only sign that the scaler gives of a skipped step.
        skipped += trainer.scaler.get_scale() < scale
        losses.append(trainer.losses.tolist())
    end = time.perf_counter()

    d_losses = [d_loss for d_loss, _ in losses]
    last = d_losses[-max(1, steps // 5) :]
    record = {
        "steps_applied": steps - skipped,
        "steps_skipped": skipped,
        "loss_first": json_number(d_losses[0]),
        "loss_last": json_number(sum(last) / len(last)),
        "parameters_changed": all(not torch.equal(old, new) for old, new in zip(before, parameters)),
        "peak_memory_mib": torch.cuda.max_memory_allocated(device) >> 20 if on_gpu else None,
        "seconds": round(end - start, 3),
    }
    finite = all(math.isfinite(value) for pair in losses for value in pair)
    faults = judge(record, finite, trainer.scaler.get_scale() if trainer.scaler.is_enabled() else None)
    ran_on = {tensor.device for tensor in (*parameters, trainer.losses)}
    if ran_on != {device}:
        faults.append(f"ran on {', '.join(sorted(map(str, ran_on)))}")
    return record, (steps - warm_up) * config.batch_size / (end - warm), faults


def json_number(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return round(value, 6) if math.isfinite(value) else None


def judge(record: dict[str, Any], losses_finite: bool, loss_scale: float | None) -> list[str]:
    """What is wrong with a training of this record; `loss_scale` is None where nothing is scaled."""
    faults = []
    applied, skipped = record["steps_applied"], record["steps_skipped"]
    if applied == 0:
        faults.append(f"no step was applied: the loss scaler skipped all {skipped}")
    elif applied < skipped:
        faults.append(f"only {applied} of {applied + skipped} steps were applied, the loss scaler skipped the rest")
    if loss_scale is not None and loss_scale < 1.0:
        faults.append(f"the loss scale collapsed to {loss_scale:g}")
    if not losses_finite:
        faults.append("a loss was not finite")
    elif record["loss_last"] >= record["loss_first"]:
        faults.append(f"the discriminator's loss did not fall: {record['loss_first']:.4f} to {record['loss_last']:.4f}")
    if not record["parameters_changed"]:
        faults.append("some parameters did not change")
    return faults
