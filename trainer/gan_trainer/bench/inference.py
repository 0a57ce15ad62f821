# SPDX-License-Identifier: Apache-2.0
"""Latency and throughput of the generator: eager, cudnn.benchmark, torch.compile, CUDA graphs, half precision."""

from __future__ import annotations

import copy
import math
import statistics
import time
from functools import partial
from typing import Any, Callable, NamedTuple, Sequence

import torch
from torch import Tensor, nn

from ..engine.compiled import in_one_line
from ..runs.samples import sizes
from .conditions import NotAsNamed, cudnn_works, runs_compiled
from .ladder import NEEDS_GPU
from .timing import synchronise

LATENCY_RUNS, THROUGHPUT_RUNS, WARM_UP = 50, 10, 3
BATCH = 64
# Largest difference of a pixel in [-1, 1] that rounding explains, in float32 and in half precision.
MOST_DIFFERENCE, MOST_DIFFERENCE_HALF = 0.02, 0.25

Network = Callable[[Tensor], Tensor]


class FirstClass(nn.Module):
    """A generator with classes, that draws the first one."""

    def __init__(self, generator: nn.Module) -> None:
        super().__init__()
        self.generator = generator

    def forward(self, noise: Tensor) -> Tensor:
        return self.generator(noise, torch.zeros(noise.shape[0], dtype=torch.int64, device=noise.device))


class Way(NamedTuple):
    """A way to run it. `make` takes a network in eval mode and example noise, and returns the callable to time."""

    name: str
    make: Callable[[nn.Module, Tensor], Network]
    needs_gpu: bool = True
    cudnn_benchmark: bool = False
    half: bool = False


def plain(network: nn.Module, noise: Tensor) -> Network:
    return network


def compiled(network: nn.Module, noise: Tensor) -> Network:
    return torch.compile(network)


def graphed(network: nn.Module, noise: Tensor) -> Network:
    """A recorded forward pass; noise is copied into its place and the images are copied out."""
    place = noise.clone()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            network(place)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        images = network(place)

    def replay(given: Tensor) -> Tensor:
        place.copy_(given)
        graph.replay()
        return images.clone()

    return replay


WAYS = (
    Way("eager", plain, needs_gpu=False),
    Way("cudnn.benchmark", plain, cudnn_benchmark=True),
    Way("CUDA graphs", graphed, cudnn_benchmark=True),
    Way("half", plain, cudnn_benchmark=True, half=True),
    Way("half, CUDA graphs", graphed, cudnn_benchmark=True, half=True),
    Way("torch.compile", compiled, needs_gpu=False, cudnn_benchmark=True),
    Way("torch.compile, half", compiled, cudnn_benchmark=True, half=True),
)


@torch.no_grad()
def bench_inference(
    generator: nn.Module, shape: int | Sequence[int], device: torch.device, compile_on_cpu: bool = False
) -> list[dict[str, Any]]:
    """Rows `{name, latency_ms, latency_p95_ms, images_per_s, difference, not_run}`; all numbers None, and not_run the
    reason, where a way needs a GPU, fails, or does not do what its name says.

    Latency is for one image, throughput for batches of 64. `difference` is the largest one of a pixel in [-1, 1] from
    eager float32. The generator is in eval mode and float32.
    """
    on_gpu = device.type == "cuda"
    generator = generator.to(device)
    # An image must not depend on the rest of its batch: the same noise for all ways.
    one, many = (
        torch.randn(n, *sizes(shape), generator=torch.Generator().manual_seed(0)).to(device) for n in (1, BATCH)
    )
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    expected = generator(many)
    rows = []
    for way in WAYS:
        row: dict[str, Any] = {"name": way.name, **dict.fromkeys(("latency_ms", "latency_p95_ms", "images_per_s"))}
        rows.append({**row, "difference": None, "not_run": ""})
        compiles = way.make is compiled
        if (way.needs_gpu and not on_gpu) or (compiles and not on_gpu and not compile_on_cpu):
            rows[-1]["not_run"] = NEEDS_GPU if way.needs_gpu else "left out (--compile)"
            continue
        try:
            rows[-1].update(measure_way(way, generator, one, many, expected))
        # A compiler and a recording fail in more ways than can be listed; the other ways are measured all the same.
        except Exception as error:
            rows[-1]["not_run"] = str(error) if isinstance(error, NotAsNamed) else f"failed: {in_one_line(error)}"
    return rows


def measure_way(way: Way, generator: nn.Module, one: Tensor, many: Tensor, expected: Tensor) -> dict[str, Any]:
    """The numbers of a row; NotAsNamed if they would be another way's."""
    device = one.device
    torch.backends.cudnn.benchmark = way.cudnn_benchmark
    if way.cudnn_benchmark and device.type == "cuda" and not cudnn_works(device):
        raise NotAsNamed("not measured: cuDNN cannot be used")
    network = copy.deepcopy(generator).half() if way.half else generator
    cast = torch.float16 if way.half else torch.float32
    single, batch = (way.make(network, noise.to(cast)) for noise in (one, many))
    times = sorted(latency(single, one.to(cast), device))
    rate = throughput(batch, many.to(cast), device)
    for run, noise in ((single, one.to(cast)), (batch, many.to(cast))):
        if way.make is compiled and not runs_compiled(partial(run, noise)):
            raise NotAsNamed("not measured: no compiled code runs")
    compare(single(one.to(cast)), generator(one), cast)
    return {
        "latency_ms": round(statistics.median(times), 3),
        "latency_p95_ms": round(times[int(len(times) * 0.95)], 3),
        "images_per_s": round(rate, 1),
        "difference": compare(batch(many.to(cast)), expected, cast),
    }


def compare(images: Tensor, expected: Tensor, cast: torch.dtype) -> float:
    """The largest difference of a pixel; NotAsNamed where these are no images of the generator in this format."""
    if images.dtype != cast:
        raise NotAsNamed(f"not measured: its images are of {images.dtype}, not of {cast}")
    difference = float((images.float() - expected).abs().max())
    if not math.isfinite(difference):
        raise NotAsNamed("not measured: its images are not finite")
    if difference > (MOST_DIFFERENCE_HALF if cast == torch.float16 else MOST_DIFFERENCE):
        raise NotAsNamed(f"not measured: its images differ from eager float32's by {difference:.2g}")
    return difference


def latency(network: Network, noise: Tensor, device: torch.device) -> list[float]:
    """Milliseconds of each call until its image is there."""
    times = []
    for _ in range(WARM_UP + LATENCY_RUNS):
        synchronise(device)
        start = time.perf_counter()
        network(noise)
        synchronise(device)
        times.append((time.perf_counter() - start) * 1e3)
    return times[WARM_UP:]


def throughput(network: Network, noise: Tensor, device: torch.device) -> float:
    """Images per s of calls that are not waited for individually."""
    for _ in range(WARM_UP):
        network(noise)
    synchronise(device)
    start = time.perf_counter()
    for _ in range(THROUGHPUT_RUNS):
        network(noise)
    synchronise(device)
    return THROUGHPUT_RUNS * len(noise) / (time.perf_counter() - start)


def as_text(rows: list[dict[str, Any]]) -> str:
    lines = [f"{'generator':<22}{'latency ms':>12}{'p95 ms':>10}{'images/s':>12}{'difference':>12}"]
    for row in rows:
        if row["latency_ms"] is None:
            lines.append(f"{row['name']:<22}  {row['not_run']:>44}")
            continue
        times = f"{row['latency_ms']:>12.3f}{row['latency_p95_ms']:>10.3f}"
        lines.append(f"{row['name']:<22}{times}{row['images_per_s']:>12.0f}{row['difference']:>12.2g}")
    return "\n".join(lines)
