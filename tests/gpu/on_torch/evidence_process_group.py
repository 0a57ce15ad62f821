"""PyTorch's "nccl" process group, the default one and the older class, with exchanges inside CUDA graphs.

From 2.15 on, "nccl" is another class; TORCH_DIST_USE_NCCL2=0 is the way back. The trainer records its steps, exchanges
included, with TORCH_NCCL_ASYNC_ERROR_HANDLING=0: this tries the two together, on one card and on two. On a CPU gloo
stands in, without graphs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from evidence_result import Found, in_one_line

VARIANTS: dict[str, dict[str, str]] = {
    "as PyTorch chooses": {},
    "TORCH_DIST_USE_NCCL2=0": {"TORCH_DIST_USE_NCCL2": "0"},
}
# As gan_trainer.parallel.distributed.join sets it for graphs.
FOR_GRAPHS = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}
ON_ONE_NODE = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
# DistributedDataParallel times its first ten passes.
WARM_UP, REPLAYS = 11, 3
SECONDS = 20


def rank(number: int, world: int, store: str) -> None:
    """What one process does. It prints its record after each step; the steps that fail are named."""
    import torch
    import torch.distributed as dist

    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", number) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    said: dict[str, Any] = {"world": world, "steps": []}

    def tried(name: str, work: Any) -> None:
        begin = time.perf_counter()
        try:
            wrong = work()
        except Exception as error:
            wrong = in_one_line(error)
        seconds = round(time.perf_counter() - begin, 2)
        said["steps"].append({"step": name, "wrong": wrong or "", "seconds": seconds})
        # A later step may hang.
        print(json.dumps(said), flush=True)

    begin = time.perf_counter()
    dist.init_process_group(
        "nccl" if on_gpu else "gloo", init_method=f"file://{store}", rank=number, world_size=world,
        timeout=timedelta(seconds=SECONDS),
    )  # fmt: skip
    group = dist.distributed_c10d._get_default_group()
    said["class"] = type(group._get_backend(device)).__name__
    said["start_s"] = round(time.perf_counter() - begin, 2)
    total = float(sum(range(1, world + 1)))

    def reduce() -> str:
        numbers = torch.full((1024,), float(number + 1), device=device)
        dist.all_reduce(numbers)
        return "" if bool((numbers == total).all()) else "the sum is wrong"

    def recorded() -> str:
        numbers = torch.zeros(1024, device=device)
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            numbers.fill_(float(number + 1))
            dist.all_reduce(numbers)
        for _ in range(REPLAYS):
            numbers.zero_()
            graph.replay()
        torch.cuda.synchronize()
        wrong = not bool((numbers == total).all())
        # NCCL waits at its end for graphs that hold its exchanges.
        graph.reset()
        return "the sum of a replay is wrong" if wrong else ""

    def training() -> str:
        stream = torch.cuda.Stream()
        network = torch.nn.Linear(256, 256, device=device)
        with torch.cuda.stream(stream):
            parallel = torch.nn.parallel.DistributedDataParallel(network, device_ids=[number])
            parallel._set_ddp_runtime_logging_sample_rate(2**31 - 1)
        optimizer = torch.optim.SGD(network.parameters(), 0.01)
        inputs = torch.randn(32, 256, device=device)

        def step() -> Any:
            optimizer.zero_grad(set_to_none=True)
            loss = parallel(inputs).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                first = step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            loss = step()
        for _ in range(REPLAYS):
            graph.replay()
        torch.cuda.synchronize()
        fell = float(loss.detach()) < float(first.detach())
        graph.reset()
        return "" if fell else "the loss did not fall over the replays"

    tried("all-reduce", reduce)
    if on_gpu:
        tried("all-reduce in a CUDA graph", recorded)
        tried("a training step with DistributedDataParallel in a CUDA graph", training)
    tried("end of the group", dist.destroy_process_group)


def variant(world: int, settings: dict[str, str]) -> dict[str, Any]:
    """The first process' record, as far as it came; {failed: why} where there is none."""
    with tempfile.TemporaryDirectory(prefix="evidence-group-") as folder:
        environment = {**os.environ, **ON_ONE_NODE, **FOR_GRAPHS, **settings}
        children = []
        for number in range(world):
            command = [sys.executable, __file__, "--rank", str(number), str(world), str(Path(folder, "store"))]
            # Files: NCCL may say more than a pipe holds.
            with Path(folder, f"{number}.out").open("wb") as out, Path(folder, f"{number}.err").open("wb") as err:
                children.append(subprocess.Popen(command, env=environment, stdout=out, stderr=err))
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and any(child.poll() is None for child in children):
            time.sleep(0.1)
        late = [child for child in children if child.poll() is None]
        for child in late:
            child.kill()
        told = Path(folder, "0.out").read_text(errors="replace").splitlines()
        errors = [" ".join(Path(folder, f"{n}.err").read_text(errors="replace").split())[-400:] for n in range(world)]
    lines = [line for line in told if line.startswith("{")]
    found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    wrong = f"{len(late)} of {world} processes did not end within {SECONDS} s" if late else ""
    for child, said in zip(children, errors, strict=True):
        if child.returncode and child not in late:
            wrong = wrong or f"a process ended with {child.returncode}: {said}"
    if wrong and not found:
        return {"failed": wrong}
    if wrong:
        found["steps"].append({"step": "the processes", "wrong": wrong, "seconds": SECONDS})
    return found


def main() -> None:
    if sys.argv[1] == "--rank":
        rank(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
        return
    count = int(sys.argv[1])
    found = Found()
    for world in (1, 2) if count > 1 else (1,):
        for name, settings in VARIANTS.items():
            found.attempt(f"{name}, {world}", partial(variant, world, settings))


if __name__ == "__main__":
    main()
