"""The configuration: every fault names key, value and what is allowed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import PACKAGE, PATIENCE

from gan_trainer.commands import COMMANDS
from gan_trainer.config import Config, ConfigError, as_yaml, impossible_on_gpus, load_config, make_config

Run = Callable[..., subprocess.CompletedProcess]

FAULTS: dict[str, tuple[dict[Any, Any], str]] = {
    "unknown key": ({"batchsize": 8}, "batchsize: unknown key with value 8; did you mean batch_size?"),
    "unknown key like no other": ({"zzz": 1}, "zzz: unknown key with value 1; known keys: accumulate, "),
    "key that is no text": ({1: 2}, "1: unknown key with value 2"),
    "text for a whole number": ({"steps": "many"}, "steps: 'many' is not a whole number; allowed: 1 to 1000000000"),
    "fraction for a whole number": ({"steps": 1.5}, "steps: 1.5 is not a whole number"),
    "truth for a whole number": ({"steps": True}, "steps: True is not a whole number"),
    "nothing": ({"steps": None}, "steps: None is not a whole number"),
    "list": ({"batch_size": [1]}, "batch_size: [1] is not a whole number"),
    "text for a number": ({"beta1": "half"}, "beta1: 'half' is not a number; allowed: 0.0 to 0.9999"),
    "truth for a number": ({"beta1": False}, "beta1: False is not a number"),
    "no finite number": ({"lr_generator": float("nan")}, "lr_generator: nan is not a number"),
    "infinity as text": ({"lr_generator": "inf"}, "lr_generator: 'inf' is not a number"),
    "number for truth": ({"channels_last": 1}, "channels_last: 1 is not true or false"),
    "truth for text": ({"run_dir": True}, "run_dir: True is not text"),
    "number for text": ({"run_dir": 7}, "run_dir: 7 is not text"),
    "zero": ({"batch_size": 0}, "batch_size: 0 is out of range; allowed: 1 to 65536"),
    "negative": ({"steps": -1}, "steps: -1 is out of range"),
    "too many": ({"num_workers": 257}, "num_workers: 257 is out of range; allowed: -1 to 256"),
    "learning rate 0": ({"lr_generator": 0}, "lr_generator: 0 is out of range"),
    "size between the choices": ({"image_size": 48}, "image_size: 48 is out of range; allowed: 32, 64, 128"),
    "unknown precision": (
        {"precision": "half"},
        "precision: 'half' is out of range; allowed: auto, fp32, tf32, fp16, bf16",
    ),
    "one checkpoint leaves no fall-back": (
        {"keep_checkpoints": 1},
        "keep_checkpoints: 1 is out of range; allowed: 2 to",
    ),
    "fp16 on a CPU": ({"device": "cpu", "precision": "fp16"}, "precision: 'fp16' needs a GPU, device is 'cpu'"),
    "batch larger than the set": (
        {"synthetic_images": 4, "batch_size": 8},
        "batch_size: 8 is more than synthetic_images",
    ),
    "tf32 on a CPU": ({"device": "cpu", "precision": "tf32"}, "precision: 'tf32' needs a GPU, device is 'cpu'"),
    "graphs on a CPU": ({"device": "cpu", "cuda_graphs": True}, "cuda_graphs: true needs a GPU"),
    "batch search on a CPU": ({"device": "cpu", "auto_batch": True}, "auto_batch: true needs a GPU"),
    "graphs without the fused optimizer": (
        {"cuda_graphs": True, "fused_optimizer": False},
        "cuda_graphs: true needs the fused optimizer",
    ),
    "uneven parts": ({"batch_size": 64, "accumulate": 3}, "accumulate: 3 does not divide batch_size 64"),
    "warm-up to the end": ({"steps": 10, "warmup_steps": 10}, "warmup_steps: 10 leaves no other step; allowed: 0 to 9"),
    "cache of shards": ({"data": "a.tar", "cache_dir": "/c"}, "cache_dir: '/c' is for a folder of images"),
    "size too small": ({"image_size": 16}, "image_size: 16 is out of range; allowed: 32, 64, 128, 256, 512, 1024"),
    "unknown network": ({"model": "biggan"}, "model: 'biggan' is out of range; allowed: dcgan, residual, r3gan"),
    "unknown loss": ({"loss": "wgan"}, "loss: 'wgan' is out of range; allowed: nonsaturating, hinge, relativistic"),
    "unknown reaction": (
        {"on_nonfinite": "ignore"},
        "on_nonfinite: 'ignore' is out of range; allowed: stop, lower_lr, skip",
    ),
    "more memory than there is": ({"memory_target": 1.1}, "memory_target: 1.1 is out of range; allowed: 0.05 to 0.98"),
    "negative penalty": ({"r1_gamma": -1}, "r1_gamma: -1 is out of range; allowed: 0.0 to 10000.0"),
    "floor above the rate": ({"lr_floor": 1.5}, "lr_floor: 1.5 is out of range; allowed: 0.0 to 1.0"),
    "no batch ahead": ({"prefetch_factor": 0}, "prefetch_factor: 0 is out of range; allowed: 1 to 64"),
    "empty folder name": ({"run_dir": ""}, "run_dir: must not be empty"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_names_key_value_and_what_is_allowed(name: str) -> None:
    values, message = FAULTS[name]
    with pytest.raises(ConfigError) as caught:
        make_config(values)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("key", "path"), [("data", "~/flowers"), ("run_dir", "$HOME/runs"), ("cache_dir", "~/x")])
def test_what_only_a_shell_replaces_is_refused_of_a_person_and_not_of_a_checkpoint(
    key: str, path: str, tmp_path: Path
) -> None:
    """Such a run could begin once, in a folder of that name, and is still drawn from and exported."""
    (tmp_path / "c.yml").write_text(f"{key}: {path}\n")
    with pytest.raises(ConfigError) as refused:
        load_config(tmp_path / "c.yml")
    assert f"{key}: {path!r} has what only a shell replaces" in str(refused.value) and f"./{path}" in str(refused.value)
    assert getattr(make_config({key: path}), key) == path
    assert getattr(load_config(tmp_path / "c.yml", [f"{key}=./{path}"]), key) == f"./{path}"


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        make_config({"steps": 0, "batch_size": "x", "wat": 1})
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == ["steps", "batch_size", "wat"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "is not YAML"),
        ("- steps", "expected keys and values, found list"),
        ("steps", "expected keys and values, found str"),
        ("a: \x07", "is not YAML"),
    ],
)
def test_file_that_is_no_configuration(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert str(file) in str(caught.value) and message in str(caught.value) and "\n" not in str(caught.value)


def test_missing_file_and_wrong_encoding(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_config(tmp_path / "none.yml")
    (tmp_path / "latin1.yml").write_bytes(b"run_dir: f\xfcr\n")
    with pytest.raises(ConfigError, match="is not YAML"):
        load_config(tmp_path / "latin1.yml")


def test_overrides_replace_the_file_and_keep_their_type(tmp_path: Path) -> None:
    file = tmp_path / "config.yml"
    file.write_text("steps: 5\nlr_generator: 2e-4\n")
    config = load_config(file, ["steps=7", "run_dir=2026", "lr_discriminator=1e-3", "channels_last=false", "data=a=b"])
    assert (config.steps, config.run_dir, config.data) == (7, "2026", "a=b")
    assert (config.lr_generator, config.lr_discriminator, config.channels_last) == (2e-4, 1e-3, False)
    with pytest.raises(ConfigError, match="'steps': expected key=value"):
        load_config(file, ["steps"])
    with pytest.raises(ConfigError, match="is not a YAML value"):
        load_config(file, ["steps=["])


def test_resolved_configuration_reads_back_equal(tmp_path: Path) -> None:
    file = tmp_path / "config.yml"
    file.write_text("")
    config = load_config(file, ["lr_generator=1e-9", "run_dir=on"])
    file.write_text(as_yaml(config))
    assert load_config(file) == config
    assert list(yaml.safe_load(as_yaml(config))) == [item.name for item in fields(Config)]


def test_bare_on_and_off_of_yaml_are_words_where_words_are_allowed(tmp_path: Path) -> None:
    file = tmp_path / "config.yml"
    file.write_text("compile: on\nprogress: off\n")
    config = load_config(file, ["precision=fp32"])
    assert (config.compile, config.progress) == ("on", "off")
    file.write_text(as_yaml(config))
    assert load_config(file) == config


def test_defaults_are_a_valid_configuration() -> None:
    assert make_config({}) == Config()
    assert all(item.metadata["help"] for item in fields(Config))


NO_TORCH = "import sys; sys.modules['torch'] = None; from gan_trainer.cli import main; sys.exit(main(sys.argv[1:]))"


def test_dry_run_needs_no_torch_and_prints_the_whole_configuration(run_python: Run, tmp_path: Path) -> None:
    file = tmp_path / "config.yml"
    file.write_text("batch_size: 16\n")
    done = run_python("-c", NO_TORCH, "--config", str(file), "steps=3", "--dry-run", "precision=fp32")
    assert (done.returncode, done.stderr) == (0, "")
    assert load_text(done.stdout) == make_config({"batch_size": 16, "steps": 3, "precision": "fp32"})
    # A key a line, with its meaning and range.
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == [item.name for item in fields(Config)]
    assert all(re.fullmatch(r"\w+: .*  # \w.*", line) for line in lines)
    assert "steps: 3                    # training steps (1 to 1000000000)" in lines
    without = run_python("-c", NO_TORCH, "--config", str(file))
    assert without.returncode == 1 and "a library is missing" in without.stderr and "Traceback" not in without.stderr


def load_text(text: str) -> Config:
    return make_config(yaml.safe_load(text))


def test_a_dry_run_alone_prints_the_defaults_and_whatever_is_set(run_python: Run) -> None:
    done = run_python("-c", NO_TORCH, "--dry-run")
    assert (done.returncode, load_text(done.stdout)) == (0, Config())
    for words in (["options={depth: 3, 'name #1': 'a, b: {c'}"], ["data=/my images/#1, {x}: [y]"], ["cache_dir="]):
        done = run_python("-c", NO_TORCH, "--dry-run", *words)
        assert load_text(done.stdout) == load_config(os.devnull, words), done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--check"], "--config"),
        (["--config", "CONFIG", "--resume", "maybe"], "invalid choice: 'maybe'"),
        (["--config", "CONFIG", "--dryrun"], "--dryrun"),
        (["--config", "CONFIG", "--dry-run", "steps"], "train-gan: 'steps': expected key=value"),
        (
            ["--config", "CONFIG", "--dry-run", "step=1"],
            "train-gan: step: unknown key with value 1; did you mean steps?",
        ),
    ],
)
def test_wrong_command_line_ends_with_2(run_python: Run, tmp_path: Path, arguments: list, message: str) -> None:
    file = tmp_path / "config.yml"
    file.write_text("")
    words = [str(file) if word == "CONFIG" else word for word in arguments]
    done = run_python("-m", "gan_trainer.cli", *words)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_commands_are_listed_and_the_unknown_one_is_named(run_python: Run) -> None:
    listed = run_python("-m", "gan_trainer.cli", "--help")
    assert listed.returncode == 0 and all(f"\n  {name} " in listed.stdout for name in COMMANDS)
    assert "train-gan data=FOLDER run_dir=FOLDER" in listed.stdout
    unknown = run_python("-m", "gan_trainer.cli", "trian", "--config", "x")
    folder = run_python("-m", "gan_trainer.cli", str(PACKAGE))
    assert folder.returncode == 2 and folder.stderr.rstrip().endswith(f"; to train on it: data={PACKAGE}")
    assert unknown.returncode == 2 and unknown.stderr.startswith("train-gan: 'trian' is not a command; commands: train")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_without_torch(name: str, run_python: Run) -> None:
    done = run_python("-c", NO_TORCH, name, "--help")
    assert done.returncode == 0 and f"usage: train-gan {name}" in done.stdout and done.stderr == ""


@pytest.mark.parametrize(
    ("changes", "world", "refused"),
    [
        ({"r1_gamma": 1.0}, 2, True),
        ({"r2_gamma": 0.5}, 8, True),
        ({"r1_gamma": 1.0}, 1, False),
        ({"r1_gamma": 1.0, "sync_batchnorm": False}, 2, False),
        ({"r1_gamma": 1.0, "model": "residual"}, 2, False),
        ({}, 2, False),
    ],
)
def test_penalties_through_batch_norm_over_gpus_are_refused(changes: dict, world: int, refused: bool) -> None:
    faults = impossible_on_gpus(make_config(changes), world)
    assert bool(faults) == refused
    assert not refused or "sync_batchnorm: false" in faults[0]


def test_only_configuration_files_need_pyyaml() -> None:
    """A PyTorch of somebody else may come without it, and the benches read no file."""
    blocked = "import sys; sys.modules['yaml'] = None\n"
    code = (
        blocked
        + "import gan_trainer.bench.training, gan_trainer.smoke.run as run\nprint(len(run.list_targets('cpu')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "1\n", done.stderr
