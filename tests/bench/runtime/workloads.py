"""What the launchers are compared on; run by the Python that has torch, prints one JSON object as its last line."""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sys
import time
from pathlib import Path

IMAGE_SIZE = 64
BATCH = 16
# An allocator that gives memory back after 5 s has done so by then.
SECONDS_AFTER = 12


def cpu_seconds() -> float:
    """CPU time of this process and of its ended children."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def loader_speed(folder: str, workers: int, images: int) -> tuple[float, float]:
    """(images per second, CPU milliseconds per image) of a plain DataLoader over JPEG files."""
    from gan_trainer.data.images import FolderImages
    from torch.utils.data import DataLoader, RandomSampler

    data = FolderImages(folder, IMAGE_SIZE, 0)
    sampler = RandomSampler(data, replacement=True, num_samples=images + BATCH * workers)
    used = cpu_seconds()
    batches = iter(DataLoader(data, batch_size=BATCH, sampler=sampler, num_workers=workers))
    # The workers' start is no part of the speed.
    for _ in range(workers):
        next(batches)
    start = time.perf_counter()
    seen = sum(len(batch) for batch in batches)
    seconds = time.perf_counter() - start
    del batches
    return seen / seconds, 1000.0 * (cpu_seconds() - used) / (seen + BATCH * workers)


def training_speed(steps: int) -> float:
    """Images per second of a small convolutional discriminator, forward, backward and optimiser, on the CPU."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(before, after, 4, 2, 1), nn.BatchNorm2d(after), nn.LeakyReLU(0.2)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(1))
    images = torch.rand(BATCH, 3, IMAGE_SIZE, IMAGE_SIZE)
    model(images)
    optimiser = torch.optim.Adam(model.parameters())
    start = 0.0
    for step in range(steps + 2):
        if step == 2:
            start = time.perf_counter()
        optimiser.zero_grad()
        model(images).mean().backward()
        optimiser.step()
    return BATCH * steps / (time.perf_counter() - start)


def speed(folder: str, images: int, steps: int) -> dict:
    result = {}
    for workers in (1, 2, 4):
        per_second, cpu = loader_speed(folder, workers, images)
        result[f"images/s, {workers} workers"] = per_second
        result[f"CPU ms per image, {workers} workers"] = cpu
    result["training images/s"] = training_speed(steps)
    return result


def allowed_cpus(_: object = None) -> str:
    status = Path("/proc/self/status").read_text()
    return next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list"))


def affinity() -> dict:
    """CPUs of the main thread and of a DataLoader worker."""
    from torch.utils.data import DataLoader

    worker = next(iter(DataLoader([0, 1], num_workers=2, collate_fn=allowed_cpus)))
    return {"main thread": allowed_cpus(), "DataLoader worker": worker}


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def churn(seconds: float) -> dict:
    """Resident memory while tensors of mixed size and life are made and dropped; about 200 MiB live at any time."""
    import torch

    torch.set_num_threads(1)
    chance = random.Random(0)
    live: list[torch.Tensor] = []
    held = 0
    samples = []
    start = now = time.perf_counter()
    made = 0
    while now - start < seconds:
        for _ in range(200):
            tensor = torch.ones(int(chance.lognormvariate(9, 2)) + 16, dtype=torch.uint8)
            live.append(tensor)
            held += tensor.numel()
            made += 1
            while held > 200 * 2**20 or len(live) > 20000:
                position = chance.randrange(len(live))
                live[position], live[-1] = live[-1], live[position]
                held -= live.pop().numel()
        now = time.perf_counter()
        samples.append((now - start, resident_mib()))
    live.clear()
    time.sleep(SECONDS_AFTER)
    # The first quarter fills the memory.
    settled = [mib for moment, mib in samples if moment > seconds / 4] or [samples[-1][1]]
    return {
        "resident MiB after a quarter": settled[0],
        "resident MiB at the end": settled[-1],
        f"resident MiB {SECONDS_AFTER} s after all was freed": resident_mib(),
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "million allocations": made / 1e6,
    }


def bandwidth() -> dict:
    """GB/s of copying 256 MiB within memory, the best of ten."""
    import numpy

    source = numpy.ones(2**25)
    target = numpy.zeros_like(source)
    best = float("inf")
    for _ in range(10):
        start = time.perf_counter()
        numpy.copyto(target, source)
        best = min(best, time.perf_counter() - start)
    return {"GB/s": 2 * source.nbytes / best / 1e9}


def make_images(folder: str, count: int) -> dict:
    """JPEG files of smooth noise, 256 pixels wide, about as hard to decode as photographs."""
    import numpy
    from PIL import Image

    for number in range(count):
        coarse = numpy.random.default_rng(number).integers(0, 256, (24, 24, 3), dtype=numpy.uint8)
        Image.fromarray(coarse).resize((256, 256), Image.BICUBIC).save(Path(folder) / f"{number:04}.jpg", quality=90)
    return {"images": count}


def mapped_allocators() -> list[str]:
    """Allocators that this process really has loaded: ld.so only warns of a library that it cannot preload."""
    text = Path("/proc/self/maps").read_text()
    return [name for name in ("jemalloc", "tcmalloc") if f"/lib{name}" in text]


def memory() -> dict:
    """What decides how this process allocates."""
    return {"allocators": mapped_allocators(), "malloc_conf": os.environ.get("MALLOC_CONF", "")}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("nothing", "affinity", "speed", "churn", "bandwidth", "images"))
    parser.add_argument("--folder", default="")
    parser.add_argument("--images", type=int, default=0)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0)
    options = parser.parse_args()
    if options.what == "nothing":
        result: dict = {}
    elif options.what == "affinity":
        result = affinity()
    elif options.what == "speed":
        result = speed(options.folder, options.images, options.steps)
    elif options.what == "churn":
        result = churn(options.seconds)
    elif options.what == "bandwidth":
        result = bandwidth()
    else:
        result = make_images(options.folder, options.images)
    result.update(memory())
    sys.stdout.write("RESULT " + json.dumps(result) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
