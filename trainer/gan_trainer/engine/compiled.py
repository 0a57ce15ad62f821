# SPDX-License-Identifier: Apache-2.0
"""torch.compile, trusted only after it has agreed with eager mode on numbers.

Gradient penalties differentiate twice. Compiled code has been silently wrong there (pytorch issue 91469), and now
refuses it. Compiled code is
slow or wrong on Volta and older: Triton has no tensor cores there, and float16 products came out as zero (pytorch
issue 127157). So `auto` is on from compute capability 8.0 only. Anything else that a task has compiled, such as a GAN's
penalty, goes through the same check.
"""

from __future__ import annotations

from functools import partial
from typing import Callable, Sequence

import torch
from torch import Tensor, nn

from ..precision import Capability, Precision, autocast
from .loop import Trainer

Compiler = Callable[[Callable], Callable]
# Largest relative error of a value or gradient in float32: compiled code adds in another order, and fuses what eager
# mode rounds. In half precision both are held against float32, and compiled code may be this many times as far from it
# as eager mode: a fixed limit that rounding never reaches would let a few percent of fault through.
TOLERANCE = 1e-3
TIMES_EAGER = 2.0
# Nobody asked for eager mode, and a line among others is easily missed.
FALLEN_BACK = "WARNING: compile is auto and cannot be used: this run is slower than it could be ({}): train-gan doctor"
EXACT = Precision("fp32", "what half precision is held against")
LARGEST_ERROR = 1e6


def choose_compile(wanted: str, capability: Capability) -> tuple[bool, str]:
    """Whether to compile for a GPU of this capability (None is a CPU), and why."""
    if wanted != "auto":
        return wanted == "on", f"compile is {wanted}"
    if capability is None:
        return False, "on a CPU compiling takes longer than it gains"
    version = "compute capability {}.{}".format(*capability)
    if capability < (8, 0):
        return False, f"{version}: Triton makes no use of its tensor cores"
    return True, version


def compile_networks(trainer: Trainer, compiler: Compiler = torch.compile) -> list[str]:
    """Compile the trainer's networks and penalty if that is wanted and proves right; one line for each path."""
    capability = torch.cuda.get_device_capability(trainer.device) if trainer.on_gpu else None
    wanted, because = choose_compile(trainer.config.compile, capability)
    if not wanted:
        trainer.ran_without["torch.compile"] = f"torch.compile is off: {because}"
        return [trainer.ran_without["torch.compile"]]
    count = max(1, trainer.ranks.share(trainer.config.batch_size) // trainer.config.accumulate)
    images = torch.rand(count, 3, trainer.config.image_size, trainer.config.image_size, device=trainer.device) * 2 - 1
    images = images.to(memory_format=trainer.layout)
    # Separate random numbers: the training run's continue as without compilation.
    random = torch.Generator(trainer.device).manual_seed(trainer.config.seed)
    batch = {**trainer.task.draw(count, random), "images": images}
    if trainer.config.classes:
        batch["labels"] = torch.arange(count, device=trainer.device) % trainer.config.classes
    examples = trainer.task.examples(batch)
    lines, done = [], set()
    for name, inputs in examples.items():
        network = trainer.networks[name]
        if trainer.ranks.world > 1 and any(isinstance(part, nn.SyncBatchNorm) for part in network.modules()):
            # Its forward pass waits for all processes, and one that cannot compile would not join.
            reason = f"its batch norm takes statistics over {trainer.ranks.world} processes"
            lines.append(runs_eagerly(trainer, name, reason))
            continue
        eager = network.forward
        # Set on the object: DistributedDataParallel and state_dict see the same network as before.
        found, line = compile_checked(trainer, compiler, name, network, eager, eager, *inputs)
        lines.append(line)
        if found is not eager:
            network.forward = found
            done.add(name)
    lines += trainer.task.compiled(done, batch, partial(compile_checked, trainer, compiler))
    if "torch.compile" in trainer.ran_without and trainer.config.compile == "auto":
        lines.append(FALLEN_BACK.format(trainer.ran_without["torch.compile"]))
    return lines


def compile_checked(
    trainer: Trainer,
    compiler: Compiler,
    name: str,
    network: nn.Module,
    eager: Callable,
    traceable: Callable,
    *inputs: Tensor,
    precision: Precision | None = None,
) -> tuple[Callable, str]:
    """`traceable` compiled, if it gives the same as `eager` on all ranks, else `eager`; and a line about it."""
    precision = precision or trainer.precision
    compiled, fault = try_to_compile(compiler, traceable)
    fault = fault or compare(network, eager, compiled, inputs, precision)
    if agreed(trainer, fault):
        return eager, runs_eagerly(trainer, name, fault or "compiling failed on another process")
    return compiled, f"{name} is compiled, {accuracy(precision)}"


def runs_eagerly(trainer: Trainer, name: str, reason: str) -> str:
    """The line about a part that is not compiled; the trainer remembers the first of them."""
    line = f"{name} runs eagerly: {reason}"
    trainer.ran_without.setdefault("torch.compile", line)
    return line


def try_to_compile(compiler: Compiler, function: Callable) -> tuple[Callable, str]:
    """The compiled function and '', or the function itself and why not: no exception, since the ranks must agree."""
    try:
        return compiler(function), ""
    # A compiler fails in more ways than can be listed.
    except Exception as error:
        return function, in_one_line(error)


def in_one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def accuracy(precision: Precision) -> str:
    if precision.dtype == torch.float32:
        return f"equal to eager mode within {TOLERANCE:g}"
    return f"at most {TIMES_EAGER:g} times as far from float32 as eager mode"


def agreed(trainer: Trainer, fault: str) -> bool:
    """Whether any rank has a fault: all must take the same path."""
    return bool(trainer.ranks.largest(torch.tensor([bool(fault)], dtype=torch.int64)))


def compare(
    network: nn.Module, eager: Callable, compiled: Callable, inputs: Sequence[Tensor], precision: Precision
) -> str:
    """'' if both give the same values and parameter gradients, else what differs; the network is left as it was."""
    buffers = [buffer.clone() for buffer in network.buffers()]
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]

    def run(function: Callable, precision: Precision) -> Sequence[Tensor]:
        for buffer, before in zip(network.buffers(), buffers):
            buffer.data.copy_(before)
        with autocast(precision, inputs[0].device.type):
            output = function(*inputs)
        # A penalty gives no gradient to the last bias.
        gradients = torch.autograd.grad(output.float().square().mean(), parameters, allow_unused=True)
        return [output.detach(), *(torch.zeros_like(p) if g is None else g for p, g in zip(parameters, gradients))]

    try:
        exact = run(eager, EXACT)
        usual = exact if precision.dtype == torch.float32 else run(eager, precision)
        found = run(compiled, precision)
    # A compiler fails in more ways than can be listed.
    except Exception as error:
        return in_one_line(error)
    finally:
        for buffer, before in zip(network.buffers(), buffers):
            buffer.data.copy_(before)
    if precision.dtype != torch.float32:
        return farther(found, usual, exact)
    worst = max(map(relative_error, found, exact))
    return "" if worst <= TOLERANCE else f"compiled code differs from eager mode by {worst:.2g}, allowed: {TOLERANCE:g}"


def farther(found: Sequence[Tensor], usual: Sequence[Tensor], exact: Sequence[Tensor]) -> str:
    """'' if compiled code is about as close to the exact values as eager mode: all together, and the worst tensor."""
    compiled, eager = (errors_of(values, exact) for values in (found, usual))
    for of_compiled, of_eager in zip(compiled, eager):
        if of_compiled > TIMES_EAGER * of_eager + TOLERANCE:
            return f"compiled code differs from float32 by {of_compiled:.2g}, eager mode by {of_eager:.2g}"
    return ""


def errors_of(found: Sequence[Tensor], exact: Sequence[Tensor]) -> tuple[float, float]:
    """Root mean square and maximum of the relative errors of all tensors: the first sees a small fault everywhere, the
    second one that is in a single tensor.
    """
    errors = [min(relative_error(new, old), LARGEST_ERROR) for new, old in zip(found, exact)]
    return (sum(error**2 for error in errors) / len(errors)) ** 0.5, max(errors)


def relative_error(found: Tensor, expected: Tensor) -> float:
    """|found - expected| / |expected| in the Euclidean norm; infinite if either is not finite."""
    difference = (found.double() - expected.double()).norm()
    error = float(difference / expected.double().norm().clamp_min(1e-12))
    return error if error == error else float("inf")
