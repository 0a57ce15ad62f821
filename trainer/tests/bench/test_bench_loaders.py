"""The loaders of tests/bench/trainer/loaders.py: what each gives, and in which words they are compared."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
import torch
from conftest import TINY

from gan_trainer.bench.data import folder_of
from gan_trainer.config import Config, make_config

REPOSITORY = Path(__file__).resolve().parents[3]
# The later ones have a module `arms` too.
sys.path.extend(str(REPOSITORY / "tests" / name) for name in ("bench/trainer", "bench/runtime", "node_library"))
loaders, report = (import_module(name) for name in ("loaders", "report"))
EIGHT = [100.0, 101.0, 99.0, 102.0, 98.0, 100.0, 103.0, 97.0]


@pytest.fixture
def config() -> Config:
    return replace(make_config({**TINY, "device": "cpu", "data": "synthetic"}), image_size=32, batch_size=16)


@pytest.mark.parametrize(
    ("factors", "word"),
    [
        ([1.2] * 8, "faster than"),
        ([0.8] * 8, "slower than"),
        ([0.97, 1.0, 1.01, 1.02, 0.99, 1.0, 1.03, 0.98], "equal within 5% to"),
        ([0.8, 1.3, 0.9, 1.2, 1.1, 0.7, 1.4, 1.0], "inconclusive beside"),
        ([1.2] * 3, "inconclusive beside"),
    ],
)
def test_words_follow_from_the_paired_rounds(factors: list[float], word: str) -> None:
    base = EIGHT[: len(factors)]
    rates = {"mine": [factor * rate for factor, rate in zip(factors, base)], "its": base}
    found = loaders.verdict(rates, "mine", "its")
    assert found["word"] == word
    low, high = found["interval"]
    assert low <= found["ratio"] and (high is None) == (len(factors) < 6)


def test_webdataset_gives_every_image_once_in_an_epoch(config: Config, tmp_path: Path) -> None:
    with folder_of(config) as (folder, _):
        files = sorted(Path(folder).glob("*.jpg"))
        tar = loaders.pack(files, tmp_path)
        batches = list(loaders.webdataset_batches(config, tar, len(files) // config.batch_size))
    images = torch.cat(batches)
    assert images.shape == (len(files), 3, config.image_size, config.image_size) and images.dtype == torch.float32
    assert -1.0 <= images.min() < -0.5 and 0.5 < images.max() <= 1.0
    assert len(torch.unique(images.flatten(1), dim=0)) == len(files)


def test_torchvision_gives_the_same_kind_of_batch(config: Config, tmp_path: Path) -> None:
    reason = loaders.why_missing("torchvision")
    if reason:
        pytest.skip(reason)
    with folder_of(config) as (folder, _):
        files = sorted(Path(folder).glob("*.jpg"))
        batch = next(iter(loaders.torchvision_batches(config, files, tmp_path, 1)))
    assert batch.shape == (config.batch_size, 3, config.image_size, config.image_size)
    assert -1.0 <= batch.min() < -0.5 and 0.5 < batch.max() <= 1.0


OWN_OPERATORS = """
import torch
for name in ("one_of_cpp", "another_of_cpp"):
    @torch.library.register_fake(f"torchvision::{name}")
    def fake(*inputs):
        raise NotImplementedError
from . import datasets
"""


def test_a_torchvision_for_cuda_is_imported_without_its_operators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As PyPI's is, beside a torch for CPUs: it describes operators that only its C++ library has."""
    for name, text in {"__init__": OWN_OPERATORS, "datasets": "ImageFolder = 'Python alone'\n"}.items():
        (tmp_path / "torchvision").mkdir(exist_ok=True)
        (tmp_path / "torchvision" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(RuntimeError, match="operator torchvision::one_of_cpp does not exist"):
        import_module("torchvision")
    assert loaders.why_missing("torchvision") == ""
    assert sys.modules["torchvision"].datasets.ImageFolder == "Python alone"
    for name in ("torchvision", "torchvision.datasets"):
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "torchvision/__init__.py").write_text("raise RuntimeError('another reason\\nand more')\n")
    assert loaders.why_missing("torchvision") == "another reason"


@pytest.mark.parametrize(("factor", "met", "word"), [(2.6, True, "met"), (2.4, False, "not met"), (0.0, None, "incon")])
def test_the_goal_is_told_with_the_part_of_the_decoder_that_it_takes(factor: float, met: bool, word: str) -> None:
    plain = [10.0, 10.1, 9.9, 10.2, 9.8, 10.0]
    own = [factor * rate for rate in plain] if factor else [24.0, 26.0, 23.0, 27.0, 24.0, 26.0]
    rates = {loaders.FOLDER: own, loaders.PLAIN: plain, loaders.DECODER: [30.0] * 6}
    found = loaders.goal(rates, loaders.FOLDER)
    assert found["met"] is met and found["needs"] == pytest.approx(0.833, abs=2e-3)
    assert found["of_decoder"] == pytest.approx(sum(own) / 180, abs=2e-2)
    assert f"goal 2.5 times: {word}" in report.goal_line(found, {"goal": loaders.GOAL})


def test_an_arm_whose_library_is_not_there_is_left_out_in_words(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = {"torchvision": "operator torchvision::nms does not exist"}
    monkeypatch.setattr(loaders, "why_missing", reasons.get)
    found = loaders.measure(config, 1)
    arms = [loaders.FOLDER, loaders.TAR, loaders.WEBDATASET, loaders.PLAIN, loaders.DECODER]
    assert [row["name"] for row in found["rows"]] == arms
    assert [(row["ours"], row["other"]) for row in found["verdicts"]] == [(loaders.TAR, loaders.WEBDATASET)]
    text = report.loaders_part(report.summary(found))
    assert f"* {loaders.TORCHVISION}: left out, operator torchvision::nms does not exist" in text
    assert f"* {loaders.TAR}: inconclusive beside {loaders.WEBDATASET}" in text and "95 % interval 0.00 to ?" in text


def test_a_run_from_before_says_that_they_were_not_part_of_it() -> None:
    assert "not part of this run" in report.loaders_part(None)


def test_the_steps_of_a_loader_add_up_to_all_of_its_time(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaders, "why_missing", {"torchvision": "not here"}.get)
    found = loaders.measure(config, 2)
    assert [part["loader"] for part in found["steps"]] == [loaders.FOLDER, loaders.TAR]
    for part, reads in zip(found["steps"], loaders.READS.values(), strict=True):
        assert part["steps"][0]["name"] == reads and len(part["steps"]) == 6
        assert sum(step["us"] for step in part["steps"]) == pytest.approx(part["us"], abs=0.5)
        assert part["steps"][2]["name"] == "the JPEG decoder"
        # A step is the difference of two rates: which takes longest depends on what else the machine does.
        shares = [step["us"] / part["us"] for step in part["steps"]]
        assert [step["share"] for step in part["steps"]] == pytest.approx(shares, abs=0.01)
    text = report.loaders_part(report.summary(found))
    assert f"| {loaders.TAR}: step | us for an image | of " in text and text.count("| the JPEG decoder | ") == 2
    assert not any(loaders.READS[loaders.TAR] == row["name"] for row in found["rows"])
