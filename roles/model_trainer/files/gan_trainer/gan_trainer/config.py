# SPDX-License-Identifier: Apache-2.0
"""The configuration of a training: every key, its default and its range stand here and nowhere else."""

from __future__ import annotations

import difflib
import math
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

import yaml

from .errors import UsageError

TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


class ConfigError(UsageError, ValueError):
    """The configuration cannot be used; the text has one line for each fault."""


def option(default: Any, help: str, low: float = -math.inf, high: float = math.inf, choices: tuple = ()) -> Any:
    """A key with its meaning and either its closed range or its choices."""
    return field(default=default, metadata={"help": help, "low": low, "high": high, "choices": choices})


@dataclass(frozen=True)
class Config:
    """One training run."""

    run_dir: str = option("runs/default", "folder for the run's config, statistics and checkpoints")
    device: str = option("auto", "where to train; auto is the GPU if there is one", choices=("auto", "cuda", "cpu"))
    precision: str = option("auto", "see precision.py", choices=("auto", "fp32", "fp16", "bf16"))
    seed: int = option(0, "start of all random numbers", 0, 2**31 - 1)

    data: str = option("synthetic", "folder of images, or synthetic for a set that needs no files")
    synthetic_images: int = option(10_000, "size of the synthetic set", 1, 10**9)
    image_size: int = option(64, "pixels along an edge", choices=(32, 64, 128))
    max_bad_images: int = option(10, "unreadable images after which a data worker gives up", 0, 10**9)
    num_workers: int = option(-1, "data worker processes; -1 is one for each usable CPU but one, at most 8", -1, 256)

    latent_dim: int = option(128, "length of the noise vector", 1, 4096)
    channels: int = option(64, "feature maps of the layer next to the image", 4, 1024)
    channels_last: bool = option(True, "memory format that suits tensor cores (on GPUs only)")
    loss: str = option("nonsaturating", "see losses.py", choices=("nonsaturating", "hinge"))

    steps: int = option(100_000, "training steps", 1, 10**9)
    batch_size: int = option(64, "images in a step", 1, 65_536)
    lr_generator: float = option(2e-4, "learning rate", 1e-9, 1.0)
    lr_discriminator: float = option(2e-4, "learning rate", 1e-9, 1.0)
    beta1: float = option(0.5, "decay of Adam's first moment", 0.0, 0.9999)
    beta2: float = option(0.999, "decay of Adam's second moment", 0.0, 0.999999)
    ema_decay: float = option(0.999, "decay of the averaged generator", 0.0, 0.999999)

    log_every: int = option(50, "steps between two lines of statistics", 1, 10**9)
    checkpoint_every: int = option(1000, "steps between two checkpoints", 1, 10**9)
    keep_checkpoints: int = option(2, "newest checkpoints to keep; the older ones are the fall-back", 2, 1000)


def load_config(path: str | Path, overrides: list[str] = ()) -> Config:
    """Read a YAML file, then `key=value` overrides; raises ConfigError naming key, value and what is allowed."""
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    content = {} if content is None else content
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected keys and values, found {type(content).__name__}")
    return make_config({**content, **dict(map(parse_override, overrides))})


def parse_override(text: str) -> tuple[str, Any]:
    """`key=value` of a command line; the value is read as YAML unless the key holds text."""
    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"{text!r}: expected key=value")
    if get_type_hints(Config).get(key) is str:
        return key, value
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"{key}: {value!r} is not a YAML value") from error


def make_config(values: dict[str, Any]) -> Config:
    """A checked Config from plain values; raises ConfigError with every fault."""
    options = {item.name: item for item in fields(Config)}
    types = get_type_hints(Config)
    faults, good = [], {}
    for key, value in values.items():
        if key not in options:
            close = difflib.get_close_matches(str(key), options, 1)
            hint = f"did you mean {close[0]}?" if close else "known keys: " + ", ".join(sorted(options))
            faults.append(f"{key}: unknown key with value {value!r}; {hint}")
            continue
        converted = _convert(value, types[key])
        allowed = _allowed(options[key].metadata, types[key])
        if converted is None:
            faults.append(f"{key}: {value!r} is not {TYPE_NAMES[types[key]]}; allowed: {allowed}")
        elif not _within(converted, options[key].metadata):
            faults.append(f"{key}: {value!r} is out of range; allowed: {allowed}")
        good[key] = converted
    if not faults:
        faults = _contradictions(Config(**good))
    if faults:
        raise ConfigError("\n".join(faults))
    return Config(**good)


def _convert(value: Any, kind: type) -> Any:
    """`value` as `kind`, or None. YAML reads 2e-4 as text, so a number may come as one."""
    if kind is float and isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            return None
        return number if math.isfinite(number) else None
    return value if type(value) is kind else None


def _within(value: Any, limits: Any) -> bool:
    if limits["choices"]:
        return value in limits["choices"]
    return isinstance(value, (str, bool)) or limits["low"] <= value <= limits["high"]


def _allowed(limits: Any, kind: type) -> str:
    if limits["choices"]:
        return ", ".join(map(str, limits["choices"]))
    return TYPE_NAMES[kind] if limits["low"] == -math.inf else f"{limits['low']} to {limits['high']}"


def _contradictions(config: Config) -> list[str]:
    faults = [f"{key}: must not be empty" for key in ("data", "run_dir") if not getattr(config, key)]
    if config.device == "cpu" and config.precision == "fp16":
        faults.append("precision: 'fp16' needs a GPU, device is 'cpu'; allowed there: auto, fp32, bf16")
    if config.data == "synthetic" and config.batch_size > config.synthetic_images:
        limit = config.synthetic_images
        faults.append(f"batch_size: {config.batch_size} is more than synthetic_images; allowed: 1 to {limit}")
    return faults


def as_yaml(config: Config) -> str:
    """All keys in the order of the class; reading it back gives the same Config."""
    return yaml.safe_dump(asdict(config), sort_keys=False)
