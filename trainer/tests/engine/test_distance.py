"""The distance to the data during a training: what it tells, that it changes nothing, and which generator is kept."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TINY

from gan_trainer import cli
from gan_trainer.config import make_config
from gan_trainer.data.images import SyntheticImages
from gan_trainer.engine.distance import Distance, FixedFeatures, frechet_distance, kernel_distance, real_images
from gan_trainer.engine.train import train
from gan_trainer.errors import UsageError
from gan_trainer.models.networks import build
from gan_trainer.runs.drift import check_drift
from gan_trainer.tasks import make_task

CPU = torch.device("cpu")
SMALL = {**TINY, "distance_every": 2, "distance_images": 8, "log_every": 1, "device": "cpu", "steps": 4}


def discs(count: int, seed: int) -> torch.Tensor:
    images = SyntheticImages(32, count, seed)
    return torch.stack([images[index] for index in range(count)])


def test_it_grows_with_the_difference() -> None:
    network, real = FixedFeatures(), discs(96, 0)
    same, noise = discs(96, 7), torch.randint(0, 256, (96, 3, 32, 32), dtype=torch.uint8)
    mixed = torch.cat([same[:48], noise[:48]])
    one_colour = same[:1].expand(96, -1, -1, -1)
    near, half, far, collapsed = (kernel_distance(network(real), network(x)) for x in (same, mixed, noise, one_colour))
    assert abs(near) < 0.1 < half < far and collapsed > 0.5
    # Of a set and itself it is about nothing, and of an order that does not matter.
    assert kernel_distance(network(real), network(same.flip(0))) == pytest.approx(near)


def test_the_frechet_distance_is_that_of_normal_distributions() -> None:
    """Of two of them it is known: |m1 - m2|^2 + sum of (s1 - s2)^2 where their axes are the same."""
    random = torch.Generator().manual_seed(0)
    one = torch.randn(4000, 3, generator=random)
    other = torch.randn(4000, 3, generator=random) * torch.tensor([1.0, 2.0, 3.0]) + torch.tensor([2.0, 0.0, 0.0])
    assert frechet_distance(one, other) == pytest.approx(4 + 1 + 4, rel=0.05)
    assert frechet_distance(one, one) == pytest.approx(0.0, abs=1e-6)
    # Fewer images than features: no covariance can be inverted, and none has to be.
    assert 0.0 < frechet_distance(one[:2], other[:2]) < 100.0


class Brightness(torch.nn.Module):
    """A feature network of somebody: mean and spread of each image."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        flat = images.float().flatten(1)
        return torch.stack((flat.mean(1), flat.std(1)), 1)


def test_the_features_may_be_those_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "brightness.pt"
    torch.jit.script(Brightness()).save(str(file))
    own = {**SMALL, "distance": "frechet", "distance_features": str(file)}
    train(make_config({**own, "run_dir": str(tmp_path / "run")}))
    best = torch.load(tmp_path / "run/best.pt", weights_only=True)
    assert best["kind"] == "frechet brightness.pt" and best["distance"] == min(distances(tmp_path / "run").values())
    # A value of another kind is no record to be beaten.
    torch.save({**best, "distance": -1.0}, tmp_path / "run/best.pt")
    train(make_config({**SMALL, "run_dir": str(tmp_path / "run"), "steps": 6}))
    assert torch.load(tmp_path / "run/best.pt", weights_only=True)["kind"] == "kernel"


def test_a_file_that_is_no_network_ends_it_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "bad.pt").write_text("no network")
    config = {**SMALL, "run_dir": str(tmp_path / "run"), "distance_features": str(tmp_path / "bad.pt")}
    with pytest.raises(UsageError, match="features: .*bad.pt cannot be loaded as TorchScript"):
        train(make_config(config))
    assert not (tmp_path / "run/stats.jsonl").read_text()


def test_the_features_are_the_same_everywhere() -> None:
    images = discs(4, 0)
    assert torch.equal(FixedFeatures()(images), FixedFeatures()(images))
    torch.manual_seed(123)
    first, second = (dict(FixedFeatures().named_buffers())["weight0"] for _ in range(2))
    assert torch.equal(first, second)
    assert FixedFeatures()(images).shape == (4, 448)


def test_real_images_are_from_all_of_the_data(tmp_path: Path) -> None:
    config = make_config({**TINY, "distance_images": 8})
    images = SyntheticImages(32, 32, config.seed)
    assert torch.equal(real_images(config)[0][1], images[4]) and len(real_images(config)[0]) == 8
    assert len(real_images(make_config({**TINY, "distance_images": 1000}))[0]) == 32


def distances(folder: Path) -> dict[int, float]:
    lines = map(json.loads, (folder / "distance.jsonl").read_text().splitlines())
    return {line["step"]: line["distance"] for line in lines}


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["d_loss"] for line in (folder / "stats.jsonl").read_text().splitlines()]


def test_a_run_measures_keeps_the_nearest_and_trains_as_without(tmp_path: Path) -> None:
    train(make_config({**SMALL, "run_dir": str(tmp_path / "with")}))
    train(make_config({**SMALL, "distance_every": 0, "run_dir": str(tmp_path / "without")}))
    assert losses(tmp_path / "with") == losses(tmp_path / "without")
    assert not list((tmp_path / "without").glob("best.pt")) and not list((tmp_path / "without").glob("distance*"))
    found = distances(tmp_path / "with")
    assert list(found) == [2, 4]
    best = torch.load(tmp_path / "with/best.pt", weights_only=True)
    assert best["step"] == min(found, key=lambda step: found[step]) and best["distance"] == min(found.values())


def test_the_best_one_can_be_drawn(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(make_config({**SMALL, "run_dir": str(run)}))
    (tmp_path / "c.yml").write_text(f"run_dir: {run}\n")
    words = ["--checkpoint", str(run / "best.pt"), "--output", str(tmp_path / "grid.png")]
    assert cli.main(["sample", "--config", str(tmp_path / "c.yml"), *words]) == 0
    assert (tmp_path / "grid.png").stat().st_size > 100


def test_a_nearer_one_of_before_a_stop_is_not_replaced(tmp_path: Path) -> None:
    train(make_config({**SMALL, "run_dir": str(tmp_path), "steps": 2}))
    kept = torch.load(tmp_path / "best.pt", weights_only=True)
    torch.save({**kept, "distance": -100.0}, tmp_path / "best.pt")
    train(make_config({**SMALL, "run_dir": str(tmp_path), "steps": 6}))
    assert list(distances(tmp_path)) == [2, 4, 6]
    assert torch.load(tmp_path / "best.pt", weights_only=True)["step"] == 2
    # A damaged one is.
    (tmp_path / "best.pt").write_bytes(b"torn")
    train(make_config({**SMALL, "run_dir": str(tmp_path), "steps": 8}))
    assert torch.load(tmp_path / "best.pt", weights_only=True)["step"] == 8


def test_numbers_that_are_none_are_never_the_best(tmp_path: Path) -> None:
    config = make_config({**SMALL, "run_dir": str(tmp_path)})
    generator = build(config).generator.eval()
    for weight in generator.parameters():
        weight.data.fill_(float("nan"))
    distance = Distance(config, tmp_path, CPU)
    features: Any = distance.network
    features.weight0.fill_(float("nan"))
    assert math.isnan(distance.after(make_task(config), generator, 1))
    assert not (tmp_path / "best.pt").exists() and distances(tmp_path) == {1: None}


def test_no_room_for_it_ends_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def full(self: Distance, *words: object) -> float:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(Distance, "after", full)
    train(make_config({**SMALL, "run_dir": str(tmp_path)}))
    assert "no distance at step 2: CUDA out of memory" in capsys.readouterr().out


def test_a_link_in_the_place_of_its_file_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/distance.jsonl").symlink_to(tmp_path / "elsewhere")
    config = make_config({**SMALL, "run_dir": str(tmp_path / "run")})
    with pytest.raises(OSError, match="symbolic links"):
        Distance(config, tmp_path / "run", CPU).after(make_task(config), build(config).generator.eval(), 1)
    assert not (tmp_path / "elsewhere").exists()


def test_it_is_no_part_of_the_experiment() -> None:
    saved = dict(vars(make_config(TINY)))
    assert check_drift(saved, make_config({**TINY, "distance_every": 10, "distance_images": 5}), False) == ""
