"""FSDP2 and tensor parallelism in two processes: the same losses as the unsharded networks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import forked
import pytest
import torch
import torch.distributed as dist
from conftest import PACKAGE, PATIENCE, TINY, trainer_environment
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gan_trainer.config import make_config
from gan_trainer.models.losses import discriminator_loss, generator_loss
from gan_trainer.models.networks import build
from gan_trainer.parallel import sharding as parallel

RANKS, STEPS, BATCH = 2, 3, 4
CONFIG = make_config(TINY)


def networks() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    return build(CONFIG)


def train(generator: nn.Module, discriminator: nn.Module, rank: int) -> Tensor:
    """Losses (STEPS, 2) of a GAN training on this rank's own images."""
    random = torch.Generator().manual_seed(100 + rank)
    optimizers = [torch.optim.Adam(network.parameters(), 2e-3) for network in (generator, discriminator)]
    losses = []
    for _ in range(STEPS):
        real = torch.rand(BATCH, 3, CONFIG.image_size, CONFIG.image_size, generator=random) * 2 - 1
        fake = generator(torch.randn(BATCH, CONFIG.latent_dim, generator=random))
        both = discriminator(torch.cat((real, fake.detach())))
        d_loss = discriminator_loss("nonsaturating", both[:BATCH], both[BATCH:])
        optimizers[1].zero_grad()
        d_loss.backward()
        optimizers[1].step()
        discriminator.requires_grad_(False)
        g_loss = generator_loss("nonsaturating", discriminator(fake))
        optimizers[0].zero_grad()
        g_loss.backward()
        optimizers[0].step()
        discriminator.requires_grad_(True)
        losses.append(torch.stack((d_loss, g_loss)).detach())
    return torch.stack(losses)


def sharded_and_whole(rank: int) -> dict:
    whole = [DistributedDataParallel(network, broadcast_buffers=False) for network in networks()]
    expected = train(whole[0], whole[1], rank)
    mesh = parallel.make_mesh("cpu", RANKS)
    halves = [parallel.shard(network, mesh["data"], min_parameters=1) for network in networks()]
    # A sharded parameter is a DTensor, whose to_local() the types of Module do not know.
    sharded: dict[str, Any] = dict(halves[0].named_parameters())
    shapes = {name: tuple(value.to_local().shape) for name, value in sharded.items()}
    found = train(halves[0], halves[1], rank)
    state = parallel.full_state(halves[0])
    other = {name: value.clone() for name, value in whole[0].module.state_dict().items()}
    weights = [name for name, value in networks()[0].named_parameters() if value.ndim == 4]
    return {"expected": expected, "found": found, "shapes": shapes, "state": state, "other": other, "weights": weights}


def test_sharded_training_has_the_losses_and_weights_of_the_whole_one(ranks: list[dict]) -> None:
    first, second = (rank["sharded_and_whole"] for rank in ranks)
    for result in (first, second):
        assert torch.allclose(result["found"], result["expected"], rtol=1e-4, atol=1e-5)
    # Each rank saw images of its own, so equal losses without any exchange would be a test of nothing.
    assert not torch.allclose(first["expected"], second["expected"], rtol=1e-2)
    whole = dict(networks()[0].named_parameters())
    for name in first["weights"]:
        held = [result["shapes"][name][0] for result in (first, second)]
        assert sum(held) == whole[name].shape[0] and max(held) < whole[name].shape[0], name
        assert torch.allclose(first["state"][name], first["other"][name], rtol=1e-3, atol=1e-5), name
    assert second["state"] == {}


class Wide(nn.Module):
    """Noise (N, 8) to logits (N,), with a pair of linear layers, one to cut by columns, and one by rows."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = nn.Sequential(nn.Linear(8, 32), nn.LeakyReLU(0.2), nn.Linear(32, 8))
        self.start, self.verdict = nn.Linear(8, 64), nn.Linear(64, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.verdict(torch.relu(self.start(self.pair(x)))).flatten()


def split_and_whole(rank: int) -> dict:
    mesh = parallel.make_mesh("cpu", 1, RANKS)["tensor"]
    losses, splits = [], {}
    for split in (False, True):
        torch.manual_seed(0)
        network = Wide()
        splits = parallel.split_linear_layers(network, mesh, min_parameters=1) if split else {}
        optimizer = torch.optim.Adam(network.parameters(), 1e-2)
        random, mine = torch.Generator().manual_seed(1), []
        for _ in range(5):
            loss = generator_loss("nonsaturating", network(torch.randn(16, 8, generator=random)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mine.append(float(loss.detach()))
        losses.append(mine)
    sharded: dict[str, Any] = dict(network.named_parameters())
    local = {name: tuple(value.to_local().shape) for name, value in sharded.items()}
    return {"losses": losses, "splits": splits, "local": local}


def test_split_layers_train_like_whole_ones(ranks: list[dict]) -> None:
    for result in (rank["split_and_whole"] for rank in ranks):
        whole, split = result["losses"]
        assert split == pytest.approx(whole, rel=1e-4) and whole[-1] < 0.9 * whole[0]
        assert result["splits"] == {"pair.0": "columns", "pair.2": "rows", "start": "columns", "verdict": "rows"}
        assert result["local"]["pair.0.weight"] == (16, 8) and result["local"]["pair.2.weight"] == (8, 16)
        assert result["local"]["start.weight"] == (32, 8) and result["local"]["verdict.weight"] == (1, 32)


def refuse(rank: int) -> dict:
    said = []
    for attempt in (
        lambda: parallel.make_mesh("cpu", 3),
        lambda: parallel.split_linear_layers(networks()[1], parallel.make_mesh("cpu", 1, RANKS)["tensor"]),
    ):
        try:
            attempt()
        except parallel.ParallelError as error:
            said.append(str(error))
    return {"said": said}


def run_rank(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    try:
        done = {work.__name__: work(rank) for work in (sharded_and_whole, split_and_whole, refuse)}
        torch.save(done, f"{folder}/{rank}.pt")
    finally:
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """What each function returned on each of two ranks."""
    folder = tmp_path_factory.mktemp("ranks")
    code = "import os, sys, test_sharding; test_sharding.run_rank(int(os.environ['RANK']), sys.argv[1])"
    here = Path(__file__).parent
    path = {"PYTHONPATH": os.pathsep.join(map(str, (PACKAGE, here, here.parent)))}
    forked.run_ranks(RANKS, ["-c", code, str(folder)], trainer_environment(path), PATIENCE)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(RANKS)]


def test_what_cannot_be_spread_is_refused(ranks: list[dict]) -> None:
    mesh, layers = ranks[0]["refuse"]["said"]
    assert mesh == "mesh: 3 x 1 is 3 ranks, but 2 were started"
    assert layers.startswith("this network has no linear layer of 100000 parameters") and "(FSDP2)" in layers


def test_older_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.distributed.fsdp

    monkeypatch.delattr(torch.distributed.fsdp, "fully_shard")
    monkeypatch.setattr(torch, "__version__", "2.0.1")
    for call in (parallel.shard, parallel.split_linear_layers):
        with pytest.raises(parallel.ParallelError, match=r"needs torch 2.6 or newer .* this is torch 2.0.1"):
            call(nn.Linear(2, 2), None)
