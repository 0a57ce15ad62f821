# SPDX-License-Identifier: Apache-2.0
"""The path of a batch to the device: pinned uint8, copied and normalised on a separate CUDA stream."""

from __future__ import annotations

import queue
import threading
import time
from functools import partial
from typing import Any, Callable, Iterable, Iterator

import torch
from torch import Tensor

# Batches ready in addition to the one in use.
DEPTH = 2


def normalise(images: Tensor, device: torch.device, layout: torch.memory_format = torch.contiguous_format) -> Tensor:
    """uint8 (N, 3, S, S) from anywhere to float32 in [-1, 1] on the device; waits for nothing if `images` is pinned."""
    pixels = images.to(device, non_blocking=True)
    return pixels.to(torch.float32, memory_format=layout).div_(127.5).sub_(1.0)


def to_device(batch: Any, device: torch.device, layout: torch.memory_format) -> Any:
    """Normalised images; if there are classes, they are copied unchanged."""
    if isinstance(batch, Tensor):
        return normalise(batch, device, layout)
    images, labels = batch
    return normalise(images, device, layout), labels.to(device, non_blocking=True)


class Prefetcher:
    """Normalised batches on the device, each prepared while the step before still computes; with classes, pairs.

    On a GPU a second stream copies and normalises, and a thread takes the batches from the loader, for a loader without
    workers would otherwise decode on the training's time. On a CPU, or with `ahead` false, each batch is prepared when
    it is asked for. `waited` is the time in s that the training has waited for data.
    """

    def __init__(self, batches: Iterable[Any], device: torch.device, layout: torch.memory_format, ahead: bool) -> None:
        self.batches, self.device, self.layout = batches, device, layout
        self.ahead = ahead and device.type == "cuda"
        self.waited = 0.0

    def __iter__(self) -> Iterator[Any]:
        batches = self.on_side_stream() if self.ahead else self.in_turn()
        while True:
            asked = time.perf_counter()
            batch = next(batches, None)
            self.waited += time.perf_counter() - asked
            if batch is None:
                return
            yield batch

    def in_turn(self) -> Iterator[Any]:
        for images in self.batches:
            yield to_device(images, self.device, self.layout)

    def on_side_stream(self) -> Iterator[Any]:
        stream = torch.cuda.Stream(self.device)
        batches = in_background(self.batches, DEPTH, partial(torch.cuda.set_device, self.device))

        def prepare() -> Any:
            images = next(batches, None)
            if images is None:
                return None
            with torch.cuda.stream(stream):
                return to_device(images, self.device, self.layout)

        following = prepare()
        while following is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_stream(stream)
            # Allocated on the side stream, used on this one: its memory is free only after both are done.
            for tensor in (following,) if isinstance(following, Tensor) else following:
                tensor.record_stream(current)
            batch, following = following, None
            yield batch
            # At this point, the step's kernels are queued, and the copy runs beside them.
            following = prepare()


def in_background(items: Iterable[Any], depth: int, begin: Callable[[], None] = lambda: None) -> Iterator[Any]:
    """The same items, taken by a thread that stays `depth` ahead; its exception is raised here, in order.

    The thread calls `begin` first: a new thread uses GPU 0 by default.
    """
    ready: queue.Queue = queue.Queue(depth)
    ended = threading.Event()

    def put(kind: str, value: Any) -> bool:
        while not ended.is_set():
            try:
                ready.put((kind, value), timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            begin()
            for item in items:
                if not put("item", item):
                    return
            put("end", None)
        # Whatever goes wrong belongs to the caller's thread.
        except BaseException as error:
            put("error", error)

    thread = threading.Thread(target=work, name="prefetch", daemon=True)
    thread.start()
    try:
        while True:
            kind, value = ready.get()
            if kind == "error":
                raise value
            if kind == "end":
                return
            yield value
    finally:
        ended.set()
        thread.join()
