"""train-gan bench: its arithmetic, its tables and pictures, and that the arms train alike."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import PACKAGE, TINY
from PIL import Image

from gan_trainer import cli
from gan_trainer.bench import data, ladder, reported, tables, timing
from gan_trainer.bench.inference import bench_inference
from gan_trainer.bench.newcomer import NewcomersLoop
from gan_trainer.bench.table_text import _claim
from gan_trainer.bench.training import Measured, make_batches, make_trainer, measure, measure_ranks, run_rank
from gan_trainer.commands import bench as bench_command
from gan_trainer.config import Config, ConfigError, make_config
from gan_trainer.data.pixels import decode_image
from gan_trainer.errors import UserError
from gan_trainer.models.networks import build

CPU = torch.device("cpu")
CONFIG = make_config({**TINY, "device": "cpu", **ladder.PLAIN})
REPORT_KEYS = ["schema", "time", "device", "torch", "image_size", "images_per_epoch", "reduced"]
REPORT_KEYS += ["rounds", "precision", "batch", "ladder", "claims", "contradictions"]


# -- arithmetic


def test_arms_take_turns() -> None:
    calls: list[str] = []

    def measured(name: str) -> float:
        calls.append(name)
        return 1.0

    arms: dict[str, Callable[[], float]] = {name: partial(measured, name) for name in "abc"}
    timing.take_turns(arms, 3)
    assert "".join(calls) == "abccbaabc"


def test_ratio_is_the_median_of_paired_ratios() -> None:
    first, second = timing.summarise({"plain": [100.0, 110.0, 104.0], "fast": [200.0, 231.0, 208.0]})
    assert first.ratio == 1.0 and second.ratio == pytest.approx(2.0) and second.rate == 208.0


@pytest.mark.parametrize(
    "rates", [{"plain": [100, 120, 100], "fast": [200, 200, 200]}, {"plain": [1, 1], "fast": [2, 3]}]
)
def test_noise_gives_no_ratio(rates: dict) -> None:
    assert timing.summarise(rates)[1].ratio is None


def test_one_bad_round_of_many_does_not_hide_a_ratio() -> None:
    rates = {"plain": [100.0] * 8 + [50.0], "fast": [200.0] * 8 + [120.0]}
    assert timing.summarise(rates)[1].ratio == 2.0
    half = {"plain": [100.0, 150.0] * 5, "fast": [200.0] * 10}
    assert timing.summarise(half)[1].ratio is None


def test_contradictions_are_told_with_what_was_measured() -> None:
    batch, memory = reported.contradictions(1.21)
    assert "1.8 times the speed" in batch and "1.07 to 1.29" in batch and "measured here 1.21 times" in batch
    assert "not measured here" in reported.contradictions(None)[0]
    assert "89 % against 55 %" in memory


def test_numbers_that_fit_are_no_contradiction(monkeypatch: pytest.MonkeyPatch) -> None:
    possible = {32: {"epoch_min": 12.0, "memory_percent": 45}, 128: {"epoch_min": 10.0, "memory_percent": 88}}
    monkeypatch.setattr(reported, "BATCH", possible)
    assert not any("Batch 32" in line for line in reported.contradictions(None))
    slow = {**reported.PRECISION, "amp": {"epoch_min": 1.0, "memory_percent": 20, "fid": 51.0}}
    monkeypatch.setattr(reported, "PRECISION", slow)
    assert [line.split(" was")[0] for line in reported.contradictions(None)] == [
        "Mixed precision over float32",
        "Two GPUs over one",
    ]


# -- arms


@pytest.mark.parametrize(("read_losses", "float_on_host"), list(itertools.product((True, False), repeat=2)))
def test_newcomers_loop_trains_like_the_trainer(read_losses: bool, float_on_host: bool) -> None:
    newcomer, trainer = NewcomersLoop(CONFIG, CPU, read_losses, float_on_host), make_trainer(CONFIG, CPU)
    for images in make_batches(CONFIG, CONFIG.batch_size, pinned=False):
        newcomer.step(images)
        trainer.step(images)
        assert torch.allclose(newcomer.losses, trainer.losses, rtol=1e-4, atol=1e-6)
    for own, other in zip(newcomer.average.parameters(), trainer.average.parameters(), strict=True):
        assert torch.allclose(own, other, rtol=1e-3, atol=1e-6)


def test_every_rung_adds_one_thing() -> None:
    known = set(CONFIG.__dataclass_fields__)
    for before, rung in itertools.pairwise(ladder.RUNGS):
        changed = len(rung.settings)
        if rung.loop:
            assert before.loop is not None, rung.name
            changed = sum(before.loop[key] != rung.loop[key] for key in rung.loop)
        assert changed == 1 or (before.loop and not rung.loop and not rung.settings), rung.name
        assert set(rung.settings) <= known
    assert set(ladder.PLAIN) <= known
    settings = {key: value for rung in ladder.RUNGS for key, value in rung.settings.items()}
    make_config({**TINY, **ladder.PLAIN, **settings, "device": "auto"})


def test_unsound_training_is_not_stable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measure(CONFIG, CPU, 2).stable
    monkeypatch.setattr("gan_trainer.tasks.gan.discriminator_loss", lambda kind, real, fake: real.mean() * float("nan"))
    assert not measure(CONFIG, CPU, 2).stable


@pytest.mark.long
def test_training_in_two_processes_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the row of two GPUs does, here over gloo."""
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE))
    found = measure_ranks(CONFIG, 2, 2)
    assert found.stable and found.images_per_s > 0 and found.memory_fraction is None


def test_failing_processes_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process says why beside its job; torchrun's own words are about exit codes."""

    def torchrun(command: list[str], **options: object) -> subprocess.CompletedProcess:
        job = Path(command[-1])
        given = json.loads(job.read_text())
        job.write_text(json.dumps({**given, "config": {**given["config"], "batch_size": 0}}))
        with pytest.raises(ConfigError):
            run_rank(job)
        return subprocess.CompletedProcess(command, 1, "", "exitcode: 1")

    monkeypatch.setattr(subprocess, "run", torchrun)
    with pytest.raises(UserError, match="in 2 processes failed: ConfigError: batch_size: 0 is out of range"):
        measure_ranks(CONFIG, 2, 1)


# -- the whole


class Means(torch.nn.Module):
    """Features: the mean of each colour."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.float().mean(dim=(2, 3))


def save_features(file: Path) -> str:
    torch.jit.script(Means()).save(str(file))
    return str(file)


@pytest.fixture(scope="module")
def bench_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Folder and output of `train-gan bench` with small batches."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "given.yml").write_text(f"run_dir: {folder}\ndevice: cpu\nbatch_size: 8\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "ROUNDS", 2)
        patch.setitem(bench_command.FID_IMAGES, "cpu", 32)
        printed: list[str] = []
        patch.setattr("builtins.print", lambda *words, **options: printed.append(" ".join(map(str, words))))
        words = ["--steps", "1", "--features", save_features(folder / "features.pt"), "--fid-steps", "2"]
        assert cli.main(["bench", "--config", str(folder / "given.yml"), *words]) == 0
    return folder / "bench", "\n".join(printed)


def test_report_has_the_agreed_shape(bench_run: tuple[Path, str]) -> None:
    report = json.loads((bench_run[0] / "bench.json").read_text())
    assert list(report) == REPORT_KEYS
    assert report["schema"] == 1 and report["reduced"] is True and report["torch"] == torch.__version__
    assert [row["name"] for row in report["precision"]] == ["fp32", "tf32", "amp", "amp_2_gpus"]
    assert [row["gpus"] for row in report["precision"]] == [1, 1, 1, 2]
    assert report["precision"][0]["reported"] == {"epoch_min": 12.5, "memory_percent": 55, "fid": 53.2}
    assert report["precision"][0]["epoch_s"] > 0 and report["precision"][0]["stable"] is True
    assert report["precision"][0]["fid"] > 0
    for row in report["precision"][1:]:
        assert row["epoch_s"] is row["memory_fraction"] is row["stable"] is row["fid"] is None
    assert [row["batch_size"] for row in report["batch"]] == [32, 64, 128]
    assert all(row["epoch_s"] > 0 and row["memory_fraction"] is None for row in report["batch"])
    assert report["batch"][2]["reported"] == {"epoch_min": 6.7, "memory_percent": 88}
    assert report["rounds"] == 2 and all(row["spread"] >= 0 for row in report["batch"])
    assert report["precision"][1]["reported"] is None
    assert [(row["reported"], row["measured"]) for row in report["claims"]] == [
        ([2.5, 2.5], None),
        ([0.3, 0.5], None),
        ([1.791, 1.791], None),
    ]
    names = [rung.name for rung in ladder.RUNGS]
    assert [row["name"] for row in report["ladder"]] == names
    for row, rung in zip(report["ladder"], ladder.RUNGS, strict=True):
        assert set(row) == {"name", "images_per_s", "ratio", "peak_memory_mib", "not_run"}
        assert (row["images_per_s"] is None) is rung.needs_gpu
        assert row["not_run"] == ("needs a GPU" if rung.needs_gpu else "")
    assert len(report["contradictions"]) == 2


def test_tables_say_what_needs_a_gpu_and_what_was_reported(bench_run: tuple[Path, str]) -> None:
    text = bench_run[1]
    lines = {line.split("  ")[0]: line for line in text.splitlines()}
    assert (
        "needs a GPU" in lines["amp"]
        and "needs a GPU" in lines["amp_2_gpus"]
        and "needs a GPU" in lines["+ CUDA graphs"]
    )
    assert lines["fp32 strict"].split()[-4:] == ["12.5", "1.00", "55%", "53.2"]
    assert "not run: needs a GPU" in lines["tf32"]
    overall, saved = (
        next(line for line in text.splitlines() if line.startswith(name)) for name in ("everything", "memory")
    )
    assert "2.5 times" in overall and "30 to 50 %" in saved and overall.count("not run: needs a GPU") == 1
    assert "6.7" in lines["128"] and "as reported" in text and "a trial" in text
    assert "1.07 to 1.29 times" in text


def test_plots_are_pictures_with_something_on_them(bench_run: tuple[Path, str]) -> None:
    assert not list(bench_run[0].glob("*.tmp"))
    for name in ("precision", "batch", "ladder"):
        with Image.open(bench_run[0] / f"{name}.png") as image:
            assert image.size[0] > 600 and len(image.convert("RGB").getcolors(10**6)) > 20


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Two made-up A100, whose trainings are measured by answers; the value is the order in which they were asked."""
    asked: list[str] = []
    rates = {"fp32": itertools.cycle([100.0, 104.0]), "tf32": itertools.cycle([200.0, 206.0])}
    memory = {"fp32": (0.6, 0.5), "tf32": (0.6, 0.5), "auto": (0.5, 0.3)}

    def answer(config: Config, *rest: object, named: tuple = ()) -> Measured:
        asked.append(config.precision)
        rate = next(rates.get(config.precision, itertools.cycle([300.0])))
        reserved, allocated = memory[config.precision]
        return Measured(rate, reserved, 10, True, (1.0, 1.0), allocated)

    def ranks(config: Config, count: int, steps: int, named: tuple = ()) -> Measured:
        asked.append("ranks")
        return answer(config)._replace(images_per_s=570.0)

    monkeypatch.setattr(tables, "measure", answer)
    monkeypatch.setattr(tables, "measure_ranks", ranks)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    yield asked


def test_the_tables_are_paired_rounds(two_gpus: list[str]) -> None:
    rows = tables.precision_rows(CONFIG, torch.device("cuda"), 1, 3, lambda line: None, 50, None)
    forth = ["fp32", "tf32", "auto", "ranks", "auto"]
    assert two_gpus == [*forth, "ranks", "auto", "auto", "tf32", "fp32", *forth]
    found = {row["name"]: (row["images_per_s"], row["ratio"], row["spread"]) for row in rows}
    assert found["fp32"] == (100.0, 1.0, 0.04) and found["tf32"] == (200.0, 2.0, 0.03)
    assert found["amp_2_gpus"][0] == 570.0 and [row["note"] for row in rows] == [""] * 4
    assert (rows[2]["memory_fraction"], rows[2]["allocated_fraction"]) == (0.5, 0.3)


def test_tf32_is_not_run_where_there_is_none(two_gpus: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 0))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    rows = tables.precision_rows(CONFIG, torch.device("cuda"), 1, 2, lambda line: None, 50, None)
    assert {row["name"]: row["not_run"] for row in rows} == {
        "fp32": "",
        "tf32": "needs compute capability 8.0",
        "amp": "",
        "amp_2_gpus": "needs 2 GPUs",
    }
    assert set(two_gpus) == {"fp32", "auto"}


def test_noise_in_the_tables_gives_no_ratio(two_gpus: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = itertools.cycle([100.0, 160.0])
    monkeypatch.setattr(tables, "measure", lambda *_: Measured(next(noisy), None, None, True, (1.0, 1.0)))
    rows = tables.batch_rows(CONFIG, CPU, 1, 3, lambda line: None, 50)
    assert all(row["images_per_s"] for row in rows) and rows[1]["ratio"] is None


def test_claims_stand_beside_what_was_measured(two_gpus: list[str]) -> None:
    precision = tables.precision_rows(CONFIG, torch.device("cuda"), 1, 2, lambda line: None, 50, None)
    batch = [{"ratio": 1.0}, {"ratio": 1.1}, {"ratio": 1.21}]
    rungs: list[dict[str, Any]] = [
        {"ratio": 1.0, "images_per_s": 5.0, "name": "plain"},
        {"ratio": 3.4, "images_per_s": 17.0, "name": "+ a"},
    ]
    # What this GPU cannot run is no end of the ladder.
    rungs.append({"ratio": None, "images_per_s": None, "name": "+ TF32"})
    assert [row["measured"] for row in tables.claims(precision, batch, rungs)] == [3.4, 0.4, 1.21]
    assert tables.claims(precision, batch, rungs)[0]["name"] == "everything on but for TF32, over the plain fp32 loop"
    noise = [{"ratio": None, "images_per_s": 5.0, "name": "plain"}]
    assert [row["measured"] for row in tables.claims(precision, noise, noise)] == [None, 0.4, None]
    # What was too noisy or did not fit a GPU does not need one.
    assert [("needs a GPU" in _claim(row)) for row in tables.claims(precision, noise, noise)] == [False, False, False]
    assert all("needs a GPU" in _claim(row) for row in tables.claims(precision, noise, noise, measured=False)[::2])


def test_what_does_not_fit_is_a_note_and_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure_small(config: Any, *rest: object) -> Measured:
        if config.batch_size > 32:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return Measured(100.0, 0.5, 10, True, (1.0, 1.0))

    monkeypatch.setattr(tables, "measure", measure_small)
    rows = tables.batch_rows(CONFIG, CPU, 1, 2, lambda line: None, 50)
    assert [row["note"] for row in rows] == ["", *["does not fit the GPU's memory"] * 2]
    assert rows[0]["epoch_s"] == 0.5 and rows[1]["epoch_s"] is None
    assert rows[2]["ratio"] is None


def test_missing_matplotlib_is_told_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "gan_trainer.bench.plots", raising=False)
    monkeypatch.setattr(tables, "bench", lambda *arguments: pytest.fail("measured"))
    (tmp_path / "given.yml").write_text(f"run_dir: {tmp_path}\ndevice: cpu\n")
    assert cli.main(["bench", "--config", str(tmp_path / "given.yml")]) == 1
    assert "a library is missing: " in capsys.readouterr().err


def test_an_epoch_is_as_long_as_the_folder(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.png").write_bytes(b"")
    assert tables.images_per_epoch(make_config({"data": str(tmp_path), "batch_size": 1})) == 3
    assert tables.images_per_epoch(CONFIG) == CONFIG.synthetic_images
    with pytest.raises(UserError, match="is not a folder"):
        tables.images_per_epoch(make_config({"data": str(tmp_path / "none")}))


@pytest.mark.parametrize(
    "words", [["nonsense"], ["data", "inference"], ["--steps", "-1"], ["training", "batch_size=x"]]
)
def test_wrong_words_are_refused(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "given.yml").write_text("")
    assert cli.main(["bench", "--config", str(tmp_path / "given.yml"), f"run_dir={tmp_path}", *words]) == 2
    assert "train-gan: " in capsys.readouterr().err


# -- data path


def test_data_stages_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "IMAGES", 12)
    monkeypatch.setattr(data, "JPEG_SIZE", 64)
    (tmp_path / "given.yml").write_text(f"run_dir: {tmp_path}\ndevice: cpu\nimage_size: 32\nbatch_size: 4\n")
    assert cli.main(["bench", "data", "--config", str(tmp_path / "given.yml")]) == 0
    report = json.loads((tmp_path / "bench" / "data.json").read_text())
    assert report["data"] == "12 JPEG files of 64 px made for this bench"
    stages = [row["name"] for row in report["stages"]]
    assert stages == ["read the file", "decode", "crop, resize, to uint8", "collate", "to cpu, normalise"]
    assert all(row["images_per_s"] > 0 for row in report["stages"] + report["paths"])
    assert [row["name"] for row in report["paths"]][0] == data.PLAIN and len(report["paths"]) == 4
    told = capsys.readouterr().out
    assert "memory map, whole batches" in told
    # Each file was read before: nothing is said of a disk.
    assert "disk" not in told and told.count("page cache") == 2


def test_a_stage_on_one_core_takes_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the table's head says of all but the last one."""
    monkeypatch.setattr(data, "IMAGES", 4)
    threads: list[int] = []
    stack = torch.stack

    def counted(images: Any) -> torch.Tensor:
        threads.append(torch.get_num_threads())
        return stack(images)

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with data.folder_of(CONFIG) as (folder, _):
            arms = data.stage_arms(sorted(Path(folder).iterdir()), CONFIG, CPU)
            monkeypatch.setattr(torch, "stack", counted)
            assert arms["collate"]() > 0 and set(threads) == {1} and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_folders_of_classes_are_measured_without_them(tmp_path: Path) -> None:
    """With classes there is no cache, and the path named after it would decode every image anew."""
    for name in ("cats", "dogs"):
        (tmp_path / name).mkdir()
        for number in range(4):
            Image.new("RGB", (40, 40), (number * 20, 0, 0)).save(tmp_path / name / f"{number}.jpg")
    config = make_config({**TINY, "device": "cpu", "data": str(tmp_path), "classes": 2, "batch_size": 2})
    rows = data.bench_data(config, CPU)["paths"]
    assert len(rows) == 4 and all(row["images_per_s"] > 0 for row in rows)


def test_a_path_named_after_the_memory_map_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "IMAGES", 8)
    monkeypatch.setattr(data, "JPEG_SIZE", 64)
    real = data.open_loader
    monkeypatch.setattr(
        data, "open_loader", lambda config, *rest, **more: real(replace(config, cache_dir=""), *rest, **more)
    )
    rows = {row["name"]: row for row in data.bench_data(CONFIG, CPU)["paths"]}
    assert rows["memory map, whole batches"]["images_per_s"] is None
    assert "not measured" in rows["memory map, whole batches"]["not_run"]


def test_plain_loader_gives_the_pictures_of_the_trainer(tmp_path: Path) -> None:
    """Otherwise the data bench would compare different work."""
    with data.folder_of(CONFIG) as (folder, _):
        file = sorted(Path(folder).iterdir())[0]
        plain = data.PlainImageFolder([file], 64)[0]
        ours = decode_image(file, 64).float() / 127.5 - 1.0
    assert plain.shape == ours.shape and float((plain - ours).abs().mean()) < 0.05


def test_bench_measures_the_folder_that_is_configured(tmp_path: Path) -> None:
    config = make_config({**TINY, "data": str(tmp_path)})
    with data.folder_of(config) as (folder, what):
        assert folder == what == str(tmp_path)


# -- inference


def test_inference_is_measured_against_eager() -> None:
    generator = build(CONFIG).generator.eval()
    rows = {row["name"]: row for row in bench_inference(generator, CONFIG.latent_dim, CPU)}
    assert rows["eager"]["difference"] == 0.0 and rows["eager"]["images_per_s"] > 0
    assert 0 < rows["eager"]["latency_ms"] <= rows["eager"]["latency_p95_ms"]
    assert all(row["latency_ms"] is None for name, row in rows.items() if name != "eager")


def test_inference_command_takes_the_checkpoint_or_says_untrained(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "given.yml").write_text("".join(f"{key}: {value}\n" for key, value in TINY.items()))
    assert cli.main(["bench", "inference", "--config", str(tmp_path / "given.yml"), f"run_dir={tmp_path}"]) == 0
    assert "dcgan, 32 px, untrained, on cpu" in capsys.readouterr().out
    report = json.loads((tmp_path / "bench" / "inference.json").read_text())
    assert report["generator"] == "untrained" and report["rows"][0]["name"] == "eager"
