# SPDX-License-Identifier: Apache-2.0
"""The configuration of a training run: every key, its default and its range are here and nowhere else."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Sequence, get_type_hints

from .errors import UsageError
from .own import is_own
from .schema import TYPE_NAMES, check_values, describe, option

SIZES = (32, 64, 128, 256, 512, 1024)
# Ramp of the average in StyleGAN2-ADA's default configuration (Karras et al. 2020).
RAMP = 0.05

# Keys that a flow does not use.
GAN_KEYS = (
    *("model", "loss", "r1_gamma", "r2_gamma", "penalty_every", "lr_discriminator", "activation_checkpointing"),
    *("augment", "classes"),
)


class ConfigError(UsageError, ValueError):
    """The configuration cannot be used; the text has one line for each fault."""


@dataclass(frozen=True)
class Config:
    """One training run."""

    run_dir: str = option("runs/default", "folder for the run's config, statistics and checkpoints")
    device: str = option("auto", "where to train; auto is the GPU if there is one", choices=("auto", "cuda", "cpu"))
    precision: str = option(
        "auto", "number format to compute in; auto suits the device", choices=("auto", "fp32", "tf32", "fp16", "bf16")
    )
    seed: int = option(0, "seed of all random numbers", 0, 2**31 - 1)

    task: str = option("gan", "what is trained", choices=("gan", "flow"), own=True)
    options: dict = option({}, "settings of your own package, as `options: {depth: 3}`; it reads config.options")
    data: str = option(
        "synthetic", "synthetic, a folder of images, tar shards as data/{000..009}.tar, or package.module:make"
    )
    # The folders directly below `data`, in the order of their names; images of package.module:make come as pairs.
    classes: int = option(0, "classes to train with, as many as the data has; 0 trains without", 0, 100_000)
    synthetic_images: int = option(10_000, "size of the synthetic set", 1, 10**9)
    image_size: int = option(64, "pixels along an edge", choices=SIZES)
    background: str = option(
        "white", "background of the transparent parts of an image", choices=("white", "black", "grey")
    )
    flip: bool = option(False, "mirror half of the images at random; not for text, or faces that have a side")
    max_bad_images: int = option(10, "unreadable images after which a data worker gives up", 0, 10**9)
    cache_dir: str = option("", "folder for decoded images, memory-mapped; empty decodes again in every epoch")
    num_workers: int = option(-1, "data worker processes; -1 follows the CPUs next to the GPU (workers.py)", -1, 256)
    prefetch_factor: int = option(4, "batches that each data worker prepares ahead", 1, 64)

    model: str = option("dcgan", "kind of the networks", choices=("dcgan", "residual", "r3gan"), own=True)
    latent_dim: int = option(128, "length of the noise vector", 1, 4096)
    channels: int = option(64, "feature maps of the layer next to the image", 4, 1024)
    loss: str = option("nonsaturating", "loss of both networks", choices=("nonsaturating", "hinge", "relativistic"))
    r1_gamma: float = option(0.0, "weight of the gradient penalty on real images; 0 is none", 0.0, 1e4)
    r2_gamma: float = option(0.0, "weight of the gradient penalty on generated images; 0 is none", 0.0, 1e4)
    penalty_every: int = option(1, "steps between two penalties, each weighted by this number (lazy)", 1, 1024)
    # Worth trying below some 10,000 images; see models/augment.py.
    augment: str = option(
        "none", "augmentation of what the discriminator sees, for few images", choices=("none", "diff", "ada")
    )
    augment_target: float = option(0.6, "ada: target for the sign of the outputs for real images", -1.0, 1.0)
    augment_images: int = option(500_000, "ada: number of images over which its strength may go from 0 to 1", 1, 10**9)
    flow_steps: int = option(16, "task flow: steps from noise to an image, two passes each", 1, 1000)
    ema_decay: float = option(0.999, "decay of the averaged generator", 0.0, 0.999999)
    # StyleGAN2-ADA's default is 0.05, too. A run goes on as it began; before there was this default, that is 0.
    ema_rampup: float = option(
        -1.0, "part of the steps so far that the average reaches back over; 0: all; -1: 0.05 without burn-in", -1.0, 1.0
    )

    steps: int = option(100_000, "training steps", 1, 10**9)
    batch_size: int = option(64, "images in a step, over all GPUs and accumulated parts", 1, 65_536)
    auto_batch: bool = option(False, "take the largest batch that memory_target allows instead (batch_size.py)")
    memory_target: float = option(0.90, "part of the GPU's memory that auto_batch fills", 0.05, 0.98)
    batch_rounding: str = option("eight", "sizes that auto_batch tries", choices=("eight", "power_of_two"))
    accumulate: int = option(1, "parts of a batch whose gradients are summed before an update", 1, 1024)
    lr_generator: float = option(1e-4, "learning rate at a batch of 32", 1e-9, 1.0)
    lr_discriminator: float = option(1e-4, "learning rate at a batch of 32", 1e-9, 1.0)
    lr_scaling: str = option(
        "linear",
        "the rate for other batches: times batch_size / 32, or its root, or as it is",
        choices=("linear", "sqrt", "none"),
    )
    # Published GANs go up to 0.0025 with Adam (StyleGAN2).
    lr_limit: float = option(2e-3, "upper limit of the scaled learning rate", 1e-9, 1.0)
    warmup_steps: int = option(0, "steps in which the learning rate rises from 0", 0, 10**9)
    lr_schedule: str = option("constant", "of the learning rate, after the warm-up", choices=("constant", "cosine"))
    # The values at its start are those of R3GAN's published configurations (Huang et al. 2024).
    burn_in_steps: int = option(0, "steps in which rates, penalties, beta2 and average reach their values", 0, 10**9)
    burn_in_lr: float = option(4.0, "times the learning rates, at the start of the burn-in", 1e-3, 1e3)
    burn_in_gamma: float = option(10.0, "times r1_gamma and r2_gamma, at its start", 1e-3, 1e4)
    burn_in_beta2: float = option(0.9, "beta2 at its start", 0.0, 0.999999)
    lr_floor: float = option(0.01, "fraction of the learning rate at which the cosine ends", 0.0, 1.0)
    beta1: float = option(0.5, "decay of Adam's first moment", 0.0, 0.9999)
    beta2: float = option(0.999, "decay of Adam's second moment", 0.0, 0.999999)
    # Of all weights; also for a task of your own.
    weight_decay: float = option(0.0, "decoupled weight decay (AdamW); 0 is Adam", 0.0, 10.0)
    clip_grad_norm: float = option(0.0, "largest norm of a network's gradient; 0 does not clip", 0.0, 1e9)

    channels_last: bool = option(True, "memory format that suits tensor cores (on GPUs only)")
    cudnn_benchmark: bool = option(True, "let cuDNN try its kernels and keep the fastest")
    fused_optimizer: bool = option(True, "Adam as one kernel (on GPUs only)")
    prefetch: bool = option(True, "copy and normalise the next batch beside the running step (on GPUs only)")
    compile: str = option("auto", "torch.compile; auto from compute capability 8.0", choices=("auto", "on", "off"))
    cuda_graphs: bool = option(False, "replay the step as one recorded graph (cuda_graphs.py)")
    activation_checkpointing: bool = option(False, "recompute activations in the backward pass: less memory, slower")
    expandable_segments: bool = option(True, "GPU memory allocator with less fragmentation")
    sync_batchnorm: bool = option(True, "batch-norm statistics over all GPUs")

    on_nonfinite: str = option("stop", "reaction to a loss that is not a number", choices=("stop", "lower_lr", "skip"))
    max_bad_steps: int = option(20, "total of such steps after which lower_lr and skip stop too", 1, 10**9)

    log_every: int = option(50, "steps between two lines of statistics, and two checks of the losses", 1, 10**9)
    sample_every: int = option(1000, "steps between two grids of samples", 1, 10**9)
    sample_count: int = option(64, "images in a grid", 1, 1024)
    distance_every: int = option(0, "steps between two measurements of the distance to the data; 0 is none", 0, 10**9)
    distance_images: int = option(1000, "real and generated images of one measurement", 2, 50_000)
    distance: str = option("kernel", "kind of that distance, never an FID", choices=("kernel", "frechet"))
    distance_features: str = option("", "TorchScript file that gives its features, as for fid; empty: a random network")
    checkpoint_every: int = option(1000, "steps between two checkpoints", 1, 10**9)
    keep_checkpoints: int = option(2, "newest checkpoints to keep; the older ones are a fallback", 2, 1000)
    tensorboard: bool = option(True, "write TensorBoard events to run_dir/tensorboard")
    progress: str = option("auto", "progress bar; auto on a terminal", choices=("auto", "on", "off"))


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a YAML file, then `key=value` overrides; raises ConfigError naming key, value and what is allowed."""
    import yaml

    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    content = {} if content is None else content
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected keys and values, found {type(content).__name__}")
    return given_config({**content, **dict(map(parse_override, overrides))})


def given_config(values: dict[str, Any]) -> Config:
    """As make_config, of what a person gives. A checkpoint may have paths that are refused here, such as ~/runs."""
    paths = {key: values.get(key) for key in ("data", "run_dir", "cache_dir", "distance_features")}
    faults = [
        f"{key}: {path!r} has what only a shell replaces; allowed: the whole path (./{path} for a folder of that name)"
        for key, path in paths.items()
        if isinstance(path, str) and path.startswith(("~", "$"))
    ]
    if faults:
        raise ConfigError("\n".join(faults))
    return make_config(values)


def parse_override(text: str) -> tuple[str, Any]:
    """`key=value` of a command line; the value is read as YAML unless the key holds text."""
    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"{text!r}: expected key=value; quote one with blanks: 'data=/home/me/my images'")
    if get_type_hints(Config).get(key) is str:
        return key, value
    import yaml

    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"{key}: {value!r} is not a YAML value") from error


def make_config(values: dict[str, Any]) -> Config:
    """A checked Config from plain values; raises ConfigError with every fault."""
    good, faults = check_values(Config, values)
    faults = faults or contradictions(Config(**good))
    if faults:
        raise ConfigError("\n".join(faults))
    return Config(**good)


def contradictions(config: Config) -> list[str]:
    """Values that are valid separately but impossible together."""
    size, parts = config.batch_size, config.accumulate
    faults = [f"{key}: must not be empty" for key in ("data", "run_dir") if not getattr(config, key)]
    if config.device == "cpu" and config.precision in ("fp16", "tf32"):
        faults.append(f"precision: {config.precision!r} needs a GPU, device is 'cpu'; allowed there: auto, fp32, bf16")
    needs_gpu = [key for key in ("cuda_graphs", "auto_batch") if getattr(config, key)]
    if config.device == "cpu":
        faults += [f"{key}: true needs a GPU, device is 'cpu'; allowed there: false" for key in needs_gpu]
    if config.data == "synthetic" and size > config.synthetic_images:
        faults.append(f"batch_size: {size} is more than synthetic_images; allowed: 1 to {config.synthetic_images}")
    if size % parts:
        faults.append(f"accumulate: {parts} does not divide batch_size {size}; allowed: a divisor of it")
    if -1.0 < config.ema_rampup < 0.0:
        faults.append(f"ema_rampup: {config.ema_rampup} is out of range; allowed: 0.0 to 1.0, or -1")
    if config.warmup_steps >= config.steps:
        faults.append(f"warmup_steps: {config.warmup_steps} leaves no other step; allowed: 0 to {config.steps - 1}")
    if config.cuda_graphs and config.burn_in_steps:
        faults.append("cuda_graphs: true records beta2 and gamma once; allowed with burn_in_steps: false")
    if config.cuda_graphs and not config.fused_optimizer:
        faults.append("cuda_graphs: true needs the fused optimizer; allowed with fused_optimizer false: false")
    if config.task == "flow":
        for key in GAN_KEYS:
            value, default = getattr(config, key), getattr(Config, key)
            if value != default:
                faults.append(f"{key}: {value!r} is for task gan; allowed with task flow: {default!r}")
    if config.classes and (config.data == "synthetic" or config.data.endswith(".tar")):
        faults.append(f"classes: {config.classes} needs a folder of folders or package.module:make; allowed here: 0")
    if config.classes and config.cache_dir:
        faults.append("cache_dir: decoded images are kept without their classes; allowed with classes: empty")
    if is_own(config.data) and config.cache_dir:
        faults.append(f"cache_dir: {config.cache_dir!r} is for a folder of images; allowed with {config.data}: empty")
    if config.data.endswith(".tar") and config.cache_dir:
        faults.append(f"cache_dir: {config.cache_dir!r} is for a folder of images; allowed with tar shards: empty")
    return faults


def average_ramp(config: Config) -> float:
    """ema_rampup, or what stands for -1: a burn-in has a ramp of its own."""
    if config.ema_rampup >= 0.0:
        return config.ema_rampup
    return 0.0 if config.burn_in_steps else RAMP


def impossible_on_gpus(config: Config, world: int) -> list[str]:
    """Settings that work on one GPU but not on several."""
    penalty = next((key for key in ("r1_gamma", "r2_gamma") if getattr(config, key) > 0), "")
    if world > 1 and config.model == "dcgan" and config.sync_batchnorm and penalty:
        # https://github.com/pytorch/pytorch/issues/61222
        return [
            f"{penalty}: {getattr(config, penalty)} needs a second derivative, which batch norm over {world} GPUs does "
            "not have; allowed: sync_batchnorm: false, or model: residual or r3gan"
        ]
    return []


def explained(config: Config) -> str:
    """As `as_yaml`, each key on one line, with its meaning and what is allowed."""
    import yaml

    kinds, lines = get_type_hints(Config), []
    for key in fields(Config):
        value = yaml.safe_dump({key.name: getattr(config, key.name)}, default_flow_style=True, width=10**6)
        kind = kinds[key.name]
        allowed = describe(key.metadata, kind)
        more = "" if allowed == TYPE_NAMES[kind] else f" ({allowed})"
        # Without the braces of the mapping.
        lines.append(f"{value.strip()[1:-1]:<26}  # {key.metadata['help']}{more}\n")
    return "".join(lines)


def as_yaml(config: Config) -> str:
    """All keys in the order of the class; reading it back gives the same Config."""
    import yaml

    return yaml.safe_dump(asdict(config), sort_keys=False)
