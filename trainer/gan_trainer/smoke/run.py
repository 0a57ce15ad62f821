# SPDX-License-Identifier: Apache-2.0
"""The training runs of gan_trainer.smoke, and what is wrong with them.

A loss scaler that skips every step, and training that silently ran on the CPU, raise no exception. So what counts here
is what the training did: where its tensors are, which steps were applied, what the losses and parameters became.
"""

from __future__ import annotations

import math
import statistics
import time
import traceback
from typing import Any, Callable, NamedTuple

import torch

from ..config import Config, make_config
from ..data.loader import SyntheticImages
from ..engine.loop import Trainer
from ..precision import Capability, Precision, choose_precision
from .problem import Problem, from_error, prefixed

DISTINCT_BATCHES = 4
# GAN losses rise and fall for good reasons; beside a generator this slow the discriminator's loss must fall.
RATES = {"lr_discriminator": 1e-3, "lr_generator": 1e-5}
GPU_SIZE = {"image_size": 64, "channels": 64, "batch_size": 64, "latent_dim": 128}
CPU_SIZE = {"image_size": 32, "channels": 8, "batch_size": 8, "latent_dim": 16}
# About 3 TFLOP in a step: some 10 ms of an H200's work, where launching its kernels takes 2 to 4 ms.
SPEED_SIZE = {"image_size": 128, "channels": 128, "batch_size": 64, "latent_dim": 128}
SPEED_WARM_UP, SPEED_STEPS, SPEED_HALVINGS = 4, 12, 3
FP32 = Precision("fp32", "the reference")


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


def try_target(target: Target, steps: int) -> tuple[dict[str, Any], list[Problem]]:
    """Train in both precisions; the device's record (see docs/parts/smoke-test.md) and its problems."""
    amp = choose_amp(target.capability)
    dtype = str(amp.dtype).replace("torch.", "")
    record: dict[str, Any] = {"device": target.device, "name": target.name}
    record.update(amp_dtype=dtype, amp_dtype_because=amp.because)
    problems: list[Problem] = []
    for mode, precision in (("fp32", FP32), ("amp", amp)):
        record[mode], faults = guarded(measure, target, precision, steps)
        problems += [prefixed(f"{target.device} {mode}: ", fault) for fault in faults]
    record["speed"], record["speed_ratio"] = None, None
    # CPUs do not compute half precision at speed, so their ratio would be misleading.
    if target.capability is not None:
        record["speed"], faults = guarded(compare_speed, target, amp)
        problems += [prefixed(f"{target.device} speed: ", fault) for fault in faults]
        record["speed_ratio"] = record["speed"] and record["speed"]["ratio"]
    return record, problems


def guarded(work: Callable[..., Any], *arguments: Any) -> tuple[Any, list[str]]:
    """What `work` returns, or (None, [what it raised])."""
    try:
        return work(*arguments)
    # Of many kinds: no kernel image for the GPU, a lost GPU, not enough memory.
    except Exception as error:
        traceback.print_exc()
        return None, [from_error(error, f"{type(error).__name__}: {' '.join(str(error).split())[:500]}")]


def compare_speed(target: Target, amp: Precision) -> tuple[dict[str, Any], list[str]]:
    """Images per second and peak memory of both precisions, on a network that keeps the GPU busy.

    The small network of the other tests waits for its kernel launches, and half precision cannot make those faster. A
    card without memory for the whole batch gets half of it, and so on.
    """
    for halvings in range(SPEED_HALVINGS + 1):
        network = {**SPEED_SIZE, "batch_size": SPEED_SIZE["batch_size"] >> halvings}
        try:
            record = {"network": network, **time_both(target, amp, network)}
            break
        except torch.cuda.OutOfMemoryError:
            if halvings == SPEED_HALVINGS:
                raise
    record["ratio"] = round(record["amp"]["images_per_s"] / record["fp32"]["images_per_s"], 3)
    return record, judge_memory(record["fp32"]["peak_memory_mib"], record["amp"]["peak_memory_mib"])


def time_both(target: Target, amp: Precision, network: dict[str, int]) -> dict[str, Any]:
    device, found = torch.device(target.device), {}
    for mode, precision in (("fp32", FP32), ("amp", amp)):
        trainer = Trainer(make_config({**RATES, **network}), device, precision)
        found[mode] = time_steps(trainer)
        # Before the next one is made.
        del trainer
    return found


def time_steps(trainer: Trainer) -> dict[str, Any]:
    """Images per second from the median step after a warm-up, and the peak of the memory that tensors hold."""
    device, config = trainer.device, trainer.config
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    batches = [batch.to(device) for batch in make_batches(config, seed=0)]
    times = []
    for step in range(SPEED_WARM_UP + SPEED_STEPS):
        begin = time.perf_counter()
        trainer.step(batches[step % DISTINCT_BATCHES])
        if on_gpu:
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - begin)
    seconds = statistics.median(times[SPEED_WARM_UP:])
    memory = torch.cuda.max_memory_allocated(device) >> 20 if on_gpu else None
    return {"images_per_s": round(config.batch_size / seconds, 1), "peak_memory_mib": memory}


def judge_memory(fp32: int | None, amp: int | None) -> list[str]:
    """Half precision is also meant to save memory; None if it is not counted."""
    if fp32 is None or amp is None or amp < fp32:
        return []
    return [f"mixed precision took {amp} MiB of memory at its peak, float32 {fp32} MiB"]


def choose_amp(capability: Capability) -> Precision:
    """Half precision in any case, even if training would be better off with float32."""
    if capability is None:
        return choose_precision("bf16", None)
    if capability < (7, 0):
        return Precision("fp16", "compute capability {}.{}: float16 without tensor cores".format(*capability))
    return choose_precision("auto", capability)


def measure(target: Target, precision: Precision, steps: int) -> tuple[dict[str, Any], list[str]]:
    """Train; the mode's record and what is wrong with it."""
    device = torch.device(target.device)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    trainer = Trainer(target.config, device, precision)
    record, finite, ran_on = train_steps(trainer, steps)
    faults = judge(record, finite, trainer.scaler.get_scale() if trainer.scaler.is_enabled() else None)
    if ran_on != {device}:
        faults.append(f"ran on {', '.join(sorted(map(str, ran_on)))}")
    return record, faults


def make_batches(config: Config, seed: int) -> tuple[torch.Tensor, ...]:
    images = SyntheticImages(config.image_size, DISTINCT_BATCHES * config.batch_size, seed=seed)
    return torch.stack([images[index] for index in range(len(images))]).split(config.batch_size)


def train_steps(trainer: Trainer, steps: int, seed: int = 0) -> tuple[dict[str, Any], bool, set[torch.device]]:
    """Train; the mode's record, whether all losses were finite, and where parameters and losses are."""
    device = trainer.device
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
    batches = make_batches(trainer.config, seed)
    parameters = [weight for network in trainer.networks.values() for weight in network.parameters()]
    before = [parameter.detach().clone() for parameter in parameters]

    losses, skipped = [], 0
    start = time.perf_counter()
    for step in range(steps):
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
    return record, finite, {tensor.device for tensor in (*parameters, trainer.losses)}


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
