# SPDX-License-Identifier: Apache-2.0
"""What training would find here: versions, devices, precision and why, data loading, the run folder.

Each row has a status and what to do about it: OK, WARN (works, but not as well as it could), FAIL (would not start).
"""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Iterator, NamedTuple

from . import CPUS_AT_START
from .config import Config
from .errors import UserError

OK, WARN, FAIL = "OK", "WARN", "FAIL"
TRAINING = "training"
# Distribution, module, what for.
LIBRARIES = (
    ("numpy", "numpy", TRAINING),
    ("pillow", "PIL", TRAINING),
    ("PyYAML", "yaml", TRAINING),
    ("tqdm", "tqdm", TRAINING),
    ("tensorboard", "tensorboard", TRAINING),
    ("webdataset", "webdataset", TRAINING),
    ("matplotlib", "matplotlib", "the plots of bench"),
    ("torchmetrics", "torchmetrics", "fid"),
    ("onnx", "onnx", "export to ONNX"),
    ("onnxruntime", "onnxruntime", "export to ONNX"),
)
OLDEST_TORCH = (2, 0)
MIN_FREE_MIB = 2048
# Either binds the process to one core at `import torch`.
PINNING = ("GOMP_CPU_AFFINITY", "OMP_PROC_BIND")


class Row(NamedTuple):
    status: str
    topic: str
    value: str
    action: str = ""


def examine(config: Config) -> list[Row]:
    """All rows for training with this configuration; whatever is broken becomes a row."""
    rows = [Row(OK, "Python", f"{platform.python_version()} in {sys.prefix}")]
    rows += map(library, LIBRARIES)
    for part in (torch_version, devices, precision, compiling, loading):
        try:
            rows += part(config)
        # A broken installation fails in more ways than ImportError: a missing symbol, a wrong processor.
        except Exception as error:
            text = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            rows.append(Row(FAIL, part.__name__.replace("_", " "), text, "reinstall the environment"))
    return [*rows, *processor(), run_folder(Path(config.run_dir))]


def library(entry: tuple[str, str, str]) -> Row:
    name, module, purpose = entry
    try:
        importlib.import_module(module)
        return Row(OK, name, metadata.version(name))
    # As above.
    except Exception as error:
        text = f"cannot be imported: {' '.join(str(error).split())[:200]}"
        return Row(FAIL if purpose == TRAINING else WARN, name, text, f"install {name}; {purpose} needs it")


def torch_version(config: Config) -> Iterator[Row]:
    import torch

    built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built for the CPU"
    found = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    row = Row(OK, "torch", f"{torch.__version__}, {built}")
    yield row if found >= OLDEST_TORCH else row._replace(status=FAIL, action="install torch 2.0 or newer")
    backends = [name for name in ("nccl", "gloo") if getattr(torch.distributed, f"is_{name}_available", bool)()]
    yield Row(OK, "distributed", ", ".join(backends) or "none: one process only")


def devices(config: Config) -> Iterator[Row]:
    import torch

    for gpu in range(torch.cuda.device_count()) if torch.cuda.is_available() else ():
        found = torch.cuda.get_device_properties(gpu)
        memory = f"{found.total_memory >> 20} MiB"
        yield Row(OK, f"GPU {gpu}", f"{found.name}, compute capability {found.major}.{found.minor}, {memory}")
    if not torch.cuda.is_available():
        action = "look with nvidia-smi and gpu-doctor" if torch.version.cuda else "install a torch built for CUDA"
        if config.device == "cuda":
            yield Row(FAIL, "GPU", "none that torch can use, and device is cuda", action)
        elif config.device == "auto":
            yield Row(WARN, "GPU", "none that torch can use: training runs on the CPU", action)


def precision(config: Config) -> Iterator[Row]:
    """What each kind of device would compute in, and why."""
    from .precision import PrecisionError, choose_precision

    for capability in capabilities(config):
        try:
            chosen = choose_precision(config.precision, capability)
            yield Row(OK, "precision", f"{chosen.name}: {chosen.because}")
        except PrecisionError as error:
            yield Row(FAIL, "precision", str(error), "set precision=auto")


def capabilities(config: Config) -> list:
    """Compute capabilities of the GPUs that training would use; [None] is the CPU."""
    import torch

    if config.device == "cpu" or not torch.cuda.is_available():
        return [None]
    return sorted({torch.cuda.get_device_capability(gpu) for gpu in range(torch.cuda.device_count())})


def compiling(config: Config) -> Iterator[Row]:
    """Whether torch.compile can build what it needs: something small is really built and used."""
    from .compiling.faults import action_for
    from .compiling.program import try_compiling

    record = try_compiling("cpu" if capabilities(config) == [None] else "cuda")
    bad = [step for step in record["steps"] if step["fault"] != "none"]
    for step in bad:
        words = f"{step['what']} cannot be built and used: {step['words']}; eager mode works"
        yield Row(WARN, "torch.compile", words, action_for(step["fault"]))
    if not bad:
        tried = ", ".join(step["what"] for step in record["steps"])
        left_out = "".join(f"; not {part['name']}: {part['why']}" for part in record["left_out"])
        yield Row(OK, "torch.compile", f"built and used {tried}{left_out}")


def loading(config: Config) -> Iterator[Row]:
    """The images, and how training would load them. Nothing is decoded and no cache is written."""
    import torch

    from .data.loader import make_dataset, open_loader

    on_gpu = capabilities(config) != [None]
    plain = replace(config, cache_dir="")
    try:
        dataset = make_dataset(plain)
        count = len(dataset) if hasattr(dataset, "__len__") else None
        with open_loader(plain, 0, on_gpu, device=torch.device("cuda" if on_gpu else "cpu")) as loader:
            workers, pinned, ahead = loader.num_workers, loader.pin_memory, loader.prefetch_factor
    except UserError as error:
        yield Row(FAIL, "data", str(error), "set data")
        return
    yield Row(OK, "data", config.data if count is None else f"{config.data}: {count} images")
    text = f"{workers} workers, {ahead or 0} batches ahead in each, pinned memory {'on' if pinned else 'off'}"
    yield Row(OK, "data loader", text)


def processor() -> Iterator[Row]:
    """CPUs, and what would bind the process to one of them."""
    yield Row(OK, "CPUs", f"{len(CPUS_AT_START)} of {os.cpu_count() or 1} usable")
    for name in PINNING:
        value = os.environ.get(name, "")
        if value.lower() not in ("", "false"):
            text = f"{name}={value} ties this process to one core at `import torch`"
            yield Row(WARN, "CPUs", text, "unset it; bind with numactl or gpu-run")


def run_folder(folder: Path) -> Row:
    """Whether the run folder, or the folder in which it would be made, is writable and has room."""
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not place.is_dir():
        return Row(FAIL, "run_dir", f"{place} is not a folder", "choose another run_dir")
    if not os.access(place, os.W_OK | os.X_OK):
        return Row(FAIL, "run_dir", f"{place} cannot be written by this user", "choose another run_dir")
    free = shutil.disk_usage(place).free >> 20
    row = Row(OK, "run_dir", f"{place}: can be written, {free} MiB free")
    return row if free >= MIN_FREE_MIB else row._replace(status=WARN, action=f"have {MIN_FREE_MIB} MiB for checkpoints")
