"""Steps of several processes, recorded and replayed: over gloo, with graphs that note the step and do it again."""

from __future__ import annotations

import json
from pathlib import Path

import forked
import pytest
import torch
from conftest import PATIENCE, trainer_environment
from test_distributed import NORM_FREE

from gan_trainer.engine.cuda_graphs import WARM_UP_OF_RANKS

STEPS = """
import json, sys, torch
from contextlib import contextmanager
from gan_trainer.config import make_config
from gan_trainer.engine import loop
from gan_trainer.engine.cuda_graphs import WARM_UP_OF_RANKS, GraphedUpdate
from gan_trainer.parallel.distributed import data_parallel, join
from gan_trainer.precision import Precision

class Stream:
    def wait_stream(self, other):
        pass

class Graph:
    # Recording computes nothing; a replay does what was recorded with the same tensors.
    recording = None
    def pool(self):
        return 1
    def reset(self):
        pass
    def replay(self):
        replays.append(trainer.steps_done)
        trainer.update_networks(*self.noted)

@contextmanager
def record(graph, **options):
    Graph.recording = graph
    timed = {name: net._get_ddp_logging_data()["iteration"] for name, net in trainer.run.items()}
    records.append([trainer.steps_done, timed])
    yield
    Graph.recording = None

@contextmanager
def on(stream):
    yield

def update(batch, rare):
    if Graph.recording:
        Graph.recording.noted = (batch, rare)
    else:
        trainer.update_networks(batch, rare)

torch.set_num_threads(1)
values, folder, steps = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for name, value in {"Stream": Stream, "CUDAGraph": Graph, "graph": record, "stream": on}.items():
    setattr(torch.cuda, name, value)
torch.cuda.current_stream = Stream
with join(on_gpu=False) as ranks:
    for way in ("graphs", "plain"):
        replays, records = [], []
        side = Stream() if way == "graphs" else None
        loop.data_parallel = lambda network, ranks, stream: data_parallel(network, ranks, side)
        trainer = loop.Trainer(make_config(values), torch.device("cpu"), Precision("fp32", ""), ranks)
        if way == "graphs":
            trainer.update = GraphedUpdate(update, trainer.task.kinds(), side, WARM_UP_OF_RANKS)
        random = torch.Generator().manual_seed(0)
        for _ in range(steps):
            whole = torch.randint(0, 256, (8, 3, 32, 32), generator=random, dtype=torch.uint8)
            trainer.step(ranks.part(whole))
        weights = [p.detach() for network in trainer.networks.values() for p in network.parameters()]
        timed = {name: net._get_ddp_logging_data()["iteration"] for name, net in trainer.run.items()}
        torch.save([weights, records, replays, timed], f"{folder}/{way}-{ranks.rank}.pt")
"""


def train_both_ways(folder: Path, values: dict, steps: int) -> dict[str, list]:
    """What each of two ranks ends with: weights, when it recorded and what was timed until then, when it replayed.

    Two processes train both ways, one after the other: starting them takes as long as the steps.
    """
    script = folder / "steps.py"
    script.write_text(STEPS)
    forked.run_ranks(2, [str(script), json.dumps(values), str(folder), str(steps)], trainer_environment(), PATIENCE)
    return {
        way: [torch.load(folder / f"{way}-{rank}.pt", weights_only=True) for rank in (0, 1)]
        for way in ("graphs", "plain")
    }


@pytest.mark.parametrize(("every", "accumulate"), [(1, 1), (4, 2)])
def test_replayed_steps_train_as_ordinary_ones_and_all_ranks_record_the_same(
    every: int, accumulate: int, tmp_path: Path
) -> None:
    values = {**NORM_FREE, "compile": "off", "penalty_every": every, "accumulate": accumulate}
    found = train_both_ways(tmp_path, values, 16)
    kinds = 1 if every == 1 else 2
    for (weights, records, replays, _), (plain, *_) in zip(found["graphs"], found["plain"], strict=True):
        assert all(torch.equal(*pair) for pair in zip(weights, plain, strict=True))
        # The first step after the warm-up is recorded in all its kinds. By then DistributedDataParallel has timed the
        # ten passes of each network that it times, for which it waits for the device.
        first = WARM_UP_OF_RANKS + 1
        assert records == [[first, {"generator": 10, "discriminator": 10}]] * kinds
        assert replays == list(range(first, 17))


@pytest.mark.long
def test_no_pass_is_timed_after_the_first_ten(tmp_path: Path) -> None:
    """The discriminator sees two batches a step, so that its hundredth pass is in the fiftieth."""
    values = {**NORM_FREE, "compile": "off", "r1_gamma": 0.0, "r2_gamma": 0.0}
    found = train_both_ways(tmp_path, values, 52)
    assert [timed["discriminator"] for *_, timed in found["graphs"]] == [10, 10]
    assert [timed["discriminator"] for *_, timed in found["plain"]] == [100, 100], "what is to be avoided has gone"
