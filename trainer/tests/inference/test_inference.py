"""What is done with a trained generator: samples, exports, FID."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TINY
from PIL import Image
from torch import Tensor, nn

from gan_trainer import cli
from gan_trainer.commands.sample import read_seeds
from gan_trainer.config import make_config
from gan_trainer.engine import train
from gan_trainer.errors import UsageError
from gan_trainer.inference import export
from gan_trainer.inference.trained import load_trained, make_noise
from gan_trainer.runs.checkpoint import list_checkpoints


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Configuration file of a run of 3 steps."""
    folder = tmp_path_factory.mktemp("run")
    values = {**TINY, "run_dir": str(folder), "device": "cpu", "steps": 3, "checkpoint_every": 3, "log_every": 3}
    train.train(make_config(values))
    file = folder / "given.yml"
    file.write_text("".join(f"{key}: {value}\n" for key, value in values.items()))
    return file


def call(run: Path, command: str, *words: str) -> int:
    return cli.main([command, "--config", str(run), *words])


def read_png(file: Path) -> np.ndarray:
    with Image.open(file) as image:
        return np.array(image)


# -- samples


def test_a_grid_holds_an_image_for_each_seed(run: Path, tmp_path: Path) -> None:
    many, one = tmp_path / "many.png", tmp_path / "one.png"
    assert call(run, "sample", "--seeds", "3,5-8", "--output", str(many)) == 0
    assert call(run, "sample", "--seeds", "6", "--output", str(one)) == 0
    grid, single = read_png(many), read_png(one)
    assert grid.shape == (64, 96, 3) and single.shape == (32, 32, 3)
    # Seed 6 is the third: the same picture alone and among others; the sixth place is empty.
    assert np.abs(grid[:32, 64:].astype(int) - single.astype(int)).max() <= 1
    assert grid[32:, 64:].max() == 0 and grid[32:, :64].std() > 0
    assert not list(tmp_path.glob("*.tmp"))


def test_samples_come_from_the_averaged_generator(run: Path) -> None:
    state = torch.load(list_checkpoints(run.parent)[0], weights_only=True)
    trained = load_trained(run.parent)
    for name, value in trained.generator.state_dict().items():
        assert torch.equal(value, state["average"][name])
    assert trained.step == 3 and not trained.generator.training
    assert call(run, "sample") == 0 and (run.parent / "samples-0000000003.png").exists()


def test_noise_depends_on_its_seed_alone_and_truncation_cuts_it() -> None:
    whole, cut = make_noise([1, 2], 4000), make_noise([2], 4000, truncation=0.5)
    assert torch.equal(whole[1], make_noise([2], 4000)[0])
    assert abs(float(whole.mean())) < 0.05 and abs(float(whole.std()) - 1.0) < 0.05 and whole.abs().max() > 2.5
    assert cut.abs().max() <= 0.5 and torch.equal(cut[0].sign(), whole[1].sign())


def test_seeds_are_read() -> None:
    assert read_seeds("3,5-8, 1") == [3, 5, 6, 7, 8, 1]


@pytest.mark.parametrize("text", ["", "a", "3-", "-3", "5-3", "1,,2", "0-999999999999", f"{2**63}", "0-4095,1"])
def test_bad_seeds_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--seeds"):
        read_seeds(text)


# -- exports


def test_every_form_computes_what_eager_computes(run: Path, capsys: pytest.CaptureFixture) -> None:
    forms = [name for name in export.FORMATS if name != "aoti"]
    assert call(run, "export", "--formats", ",".join(forms)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == forms
    assert all(float(line.split()[1]) <= export.TOLERANCE for line in lines[1:])
    folder = run.parent / "export"
    assert {file.name for file in folder.iterdir()} == {f"generator{export.FORMATS[name].suffix}" for name in forms}
    # Loaded as a user would, with another batch.
    noise = make_noise([1, 2, 3], TINY["latent_dim"])
    expected = load_trained(run.parent).generator(noise)
    for name in forms:
        form = export.FORMATS[name]
        assert torch.allclose(form.read(folder / f"generator{form.suffix}")(noise), expected, atol=export.TOLERANCE)


@pytest.mark.skipif(bool(export.FORMATS["aoti"].missing()), reason=export.FORMATS["aoti"].missing())
@pytest.mark.long
def test_compiled_ahead_of_time_computes_what_eager_computes(tmp_path: Path) -> None:
    """A small network: compiling a whole generator takes half a minute."""
    network = nn.Sequential(nn.Linear(8, 4), nn.Tanh()).eval()
    done = export.export(network, 8, "aoti", tmp_path)
    assert done.difference <= export.TOLERANCE and done.file == tmp_path / "generator.aoti.pt2" and done.size > 1000
    assert [file.name for file in tmp_path.iterdir()] == [done.file.name]
    noise = make_noise([1, 2, 3], 8)
    assert torch.allclose(export.read_aoti(done.file)(noise), network(noise), atol=export.TOLERANCE)


class Counting(nn.Module):
    """A trace records the batch that it saw as a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, noise: Tensor) -> Tensor:
        return noise * self.weight * float(noise.shape[0])


class Broken(Counting):
    def forward(self, noise: Tensor) -> Tensor:
        raise RuntimeError("no such luck")


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (Counting(), "torchscript: differs from the eager network by"),
        (Broken(), "torchscript: RuntimeError: no such luck"),
    ],
)
def test_an_export_that_differs_is_an_error_and_is_not_kept(network: nn.Module, message: str, tmp_path: Path) -> None:
    with pytest.raises(export.ExportError, match=message):
        export.export(network.eval(), 8, "torchscript", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_export_fails_the_command(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = export.FORMATS["torchscript"]._replace(read=lambda file: lambda noise: torch.zeros(len(noise), 3, 32, 32))
    monkeypatch.setitem(export.FORMATS, "torchscript", broken)
    assert call(run, "export", "--formats", "torchscript,onnx", "--output", str(tmp_path)) == 1
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert (
        first.startswith("torchscript   FAILED   torchscript: differs from the eager network by")
        and "FAILED" not in second
    )
    assert [file.name for file in tmp_path.iterdir()] == ["generator.onnx"]


def test_what_an_installation_lacks_is_named(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    for name in ("torchscript", "torch_export", "onnx"):
        monkeypatch.delitem(export.FORMATS, name)
    assert call(run, "export", "--output", str(tmp_path)) == 0
    assert "aoti          left out: needs a C++ compiler: no-such-compiler is not in PATH" in capsys.readouterr().out
    assert call(run, "export", "--formats", "aoti", "--output", str(tmp_path)) == 2
    assert "train-gan: --formats aoti: needs a C++ compiler" in capsys.readouterr().err


# -- FID


class Colours(nn.Module):
    """Features: mean and spread of each colour in two halves."""

    def forward(self, images: Tensor) -> Tensor:
        halves = images.float().div(255.0).reshape(images.shape[0], 6, -1)
        return torch.cat((halves.mean(dim=2), halves.std(dim=2)), dim=1)


class Flagged(nn.Module):
    """As the published Inception file: features only on demand."""

    def forward(self, images: Tensor, return_features: bool = False) -> Tensor:
        flat = images.float().mean(dim=(2, 3))
        return flat if return_features else flat.sum(dim=1)


def save_script(network: nn.Module, file: Path) -> str:
    torch.jit.script(network).save(str(file))
    return str(file)


def test_fid_without_a_network_says_which_one_to_give(run: Path, capsys: pytest.CaptureFixture) -> None:
    assert call(run, "fid") == 2
    assert "--features FILE is missing: " in (said := capsys.readouterr().err) and "inception-2015-12-05.pt" in said


def test_fid_is_the_frechet_distance_of_the_features(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    features = save_script(Colours(), tmp_path / "colours.pt")
    assert call(run, "fid", "--features", features, "--images", "30", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["images"], found["num_features"], found["step"], found["features"]) == (30, 12, 3, features)
    assert found["fid"] == pytest.approx(frechet_by_hand(run), rel=1e-3)


def frechet_by_hand(run: Path) -> float:
    """From the definition, with the square root of a matrix by its eigenvalues."""
    from gan_trainer.config import load_config
    from gan_trainer.data.loader import open_loader
    from gan_trainer.inference.trained import images_of

    trained = load_trained(run.parent)
    with open_loader(load_config(run, ["steps=8"]), 0, pin_memory=False) as batches:
        real = torch.cat(list(batches))[:30]
    fake = images_of(trained.generator, make_noise(list(range(30)), TINY["latent_dim"]))
    means, covariances = [], []
    for images in (real, fake):
        features = Colours()(images).double()
        means.append(features.mean(dim=0))
        covariances.append(torch.cov(features.T))
    root = torch.linalg.eigvals(covariances[0] @ covariances[1]).sqrt().real.sum()
    gap = (means[0] - means[1]).square().sum()
    return float(gap + covariances[0].trace() + covariances[1].trace() - 2 * root)


def test_published_form_of_the_network_is_asked_for_features(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert call(run, "fid", "--features", save_script(Flagged(), tmp_path / "f.pt"), "--images", "8") == 0
    assert "of step 3, 8 real and 8 generated images, 3 features" in capsys.readouterr().out


def test_bad_feature_networks_are_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "text.pt").write_text("no network")
    cases = {
        str(
            tmp_path / "none.pt"
        ): "is not a file. FID needs a feature network as TorchScript, for example inception-2015",
        str(tmp_path / "text.pt"): "cannot be loaded as TorchScript",
        save_script(nn.Linear(4, 2), tmp_path / "linear.pt"): "does not take uint8 images (2, 3, 32, 32)",
        save_script(nn.Identity(), tmp_path / "same.pt"): "gives (2, 3, 32, 32) for 2 images; expected (2, F)",
    }
    for file, message in cases.items():
        assert call(run, "fid", "--features", file) == 2
        error = capsys.readouterr().err
        assert message in error and "Traceback" not in error


# -- checkpoints


@pytest.mark.parametrize("command", ["sample", "export", "fid"])
def test_missing_and_damaged_checkpoints_are_named(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture, command: str
) -> None:
    features = ["--features", save_script(Colours(), tmp_path / "c.pt")] if command == "fid" else []
    (tmp_path / "bad.pt").write_bytes(b"bad")
    torch.save({"step": 1}, tmp_path / "other.pt")
    cases = {
        f"run_dir={tmp_path / 'empty'}": "holds no checkpoint; train first",
        f"--checkpoint={tmp_path / 'no.pt'}": "there is no such file",
        f"--checkpoint={tmp_path / 'bad.pt'}": "cannot be read",
        f"--checkpoint={tmp_path / 'other.pt'}": "is not a checkpoint of this release",
    }
    for word, message in cases.items():
        assert call(run, command, word, *features) == 1
        assert message in capsys.readouterr().err


def test_fid_uses_each_image_of_the_data_once(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Fewer than were asked for are told; they were counted again and again."""
    features = save_script(Colours(), tmp_path / "colours.pt")
    words = ("--features", features, "--images", "100", "synthetic_images=20", "batch_size=4")
    assert call(run, "fid", *words) == 0
    said = capsys.readouterr().out
    assert "20 real and 100 generated images" in said and "The data have 20 images, each of which was used once" in said
    assert (
        call(run, "fid", "--features", features, "--images", "100", "--json", "synthetic_images=20", "batch_size=4")
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["images"] == 100 and found["real_images"] == 20
