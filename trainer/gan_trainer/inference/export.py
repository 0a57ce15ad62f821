# SPDX-License-Identifier: Apache-2.0
"""The generator in forms that run without this package, each compared with the eager network before it is kept.

torchscript   a traced graph for PyTorch's C++ and Python runtimes (torch.jit)
torch_export  the graph of torch.export, for PyTorch 2's own tools (torch >= 2.2)
aoti          machine code for one kind of device, by AOTInductor ahead of time (torch >= 2.6, a C++ compiler)
onnx          for ONNX Runtime, TensorRT and others; compared in ONNX Runtime on the CPU
"""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence

import torch
from torch import Tensor, nn

from ..errors import UserError
from ..runs.samples import sizes

# Largest difference of a pixel in [-1, 1], all in float32: an eightieth of a grey level. Fusing reorders sums.
TOLERANCE = 1e-4
# The example's batch, and others that prove the batch free.
TRACED_BATCH, OTHER_BATCHES = 4, (2, 7)
NOISE, IMAGES = "noise", "images"

Network = Callable[[Tensor], Tensor]


class ExportError(UserError):
    """An export failed or does not compute what the eager network computes."""


class Format(NamedTuple):
    """`missing` says what this installation lacks, "" where it can write the form; `read` gives what is compared."""

    suffix: str
    missing: Callable[[], str]
    write: Callable[[nn.Module, Tensor, Path], None]
    read: Callable[[Path], Network]


def write_torchscript(generator: nn.Module, noise: Tensor, file: Path) -> None:
    torch.jit.save(torch.jit.trace(generator, noise), str(file))


def read_torchscript(file: Path) -> Network:
    return torch.jit.load(str(file))


def _exported(generator: nn.Module, noise: Tensor) -> Any:
    return torch.export.export(generator, (noise,), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=4096)},))


def write_torch_export(generator: nn.Module, noise: Tensor, file: Path) -> None:
    torch.export.save(_exported(generator, noise), str(file))


def read_torch_export(file: Path) -> Network:
    return torch.export.load(str(file)).module()


def write_aoti(generator: nn.Module, noise: Tensor, file: Path) -> None:
    from torch._inductor import aoti_compile_and_package

    aoti_compile_and_package(_exported(generator, noise), package_path=str(file))


def read_aoti(file: Path) -> Network:
    from torch._inductor import aoti_load_package

    return aoti_load_package(str(file))


def write_onnx(generator: nn.Module, noise: Tensor, file: Path) -> None:
    # The exporter that traces: there from torch 2.0 on, while the newer one needs one more library (onnxscript).
    tracing = {"dynamo": False} if "dynamo" in torch.onnx.export.__annotations__ else {}
    names = {"input_names": [NOISE], "output_names": [IMAGES], "dynamic_axes": {NOISE: {0: "n"}, IMAGES: {0: "n"}}}
    torch.onnx.export(generator, (noise,), str(file), **names, **tracing)


def read_onnx(file: Path) -> Network:
    import onnx
    import onnxruntime

    onnx.checker.check_model(str(file))
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return lambda noise: torch.from_numpy(session.run([IMAGES], {NOISE: noise.numpy()})[0])


def _missing_torch_export() -> str:
    return "" if hasattr(torch, "export") and hasattr(torch.export, "Dim") else "needs torch 2.2 or newer"


def _missing_aoti() -> str:
    import torch._inductor

    if not hasattr(torch._inductor, "aoti_compile_and_package"):
        return "needs torch 2.6 or newer"
    compiler = os.environ.get("CXX", "g++").split()[0]
    return "" if shutil.which(compiler) else f"needs a C++ compiler: {compiler} is not in PATH"


def _missing_onnx() -> str:
    missing = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
    return f"needs the library {' and '.join(missing)}" if missing else ""


FORMATS = {
    "torchscript": Format(".torchscript.pt", lambda: "", write_torchscript, read_torchscript),
    "torch_export": Format(".export.pt2", _missing_torch_export, write_torch_export, read_torch_export),
    "aoti": Format(".aoti.pt2", _missing_aoti, write_aoti, read_aoti),
    "onnx": Format(".onnx", _missing_onnx, write_onnx, read_onnx),
}


class Exported(NamedTuple):
    """A file that was compared: its size in bytes and the largest difference of a pixel from the eager network."""

    file: Path
    size: int
    difference: float


def export(generator: nn.Module, shape: int | Sequence[int], form: str, folder: Path) -> Exported:
    """Write `folder`/generator.* and compare it with `generator` (eval mode, float32) at three batch sizes.

    A file that differs by more than TOLERANCE is not kept. Raises ExportError.
    """
    kind = FORMATS[form]
    file, device = folder / ("generator" + kind.suffix), next(generator.parameters()).device
    try:
        # A folder for this process alone, since exporters open names; AOTInductor demands the suffix in them.
        with tempfile.TemporaryDirectory(prefix=".unproven-", dir=folder) as private:
            temporary = Path(private) / file.name
            difference = _write_and_compare(kind, generator, sizes(shape), temporary, device)
            if not difference <= TOLERANCE:
                text = f"{form}: differs from the eager network by {difference:.2g}, allowed is {TOLERANCE:g}"
                raise ExportError(text)
            temporary.replace(file)
    except ExportError:
        raise
    # Exporters and compilers fail in many ways.
    except Exception as error:
        text = " ".join(str(error).split())[:500]
        raise ExportError(f"{form}: {type(error).__name__}: {text}") from error
    return Exported(file, file.stat().st_size, difference)


def _write_and_compare(
    kind: Format, generator: nn.Module, shape: tuple[int, ...], file: Path, device: torch.device
) -> float:
    """The largest difference of a pixel between `generator` and what was written into `file`."""
    with torch.no_grad(), warnings.catch_warnings():
        # Each exporter announces its successor.
        warnings.simplefilter("ignore")
        kind.write(generator, _noise(TRACED_BATCH, shape, device), file)
        network = kind.read(file)
        return max(_difference(generator, network, shape, n, device) for n in (TRACED_BATCH, *OTHER_BATCHES))


def _noise(count: int, shape: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(count)).to(device)


@torch.no_grad()
def _difference(eager: nn.Module, other: Network, shape: tuple[int, ...], count: int, device: torch.device) -> float:
    noise = _noise(count, shape, device)
    expected, found = eager(noise), other(noise)
    if found.shape != expected.shape:
        raise ExportError(f"shape {tuple(found.shape)} instead of {tuple(expected.shape)} for a batch of {count}")
    # A NaN is no small difference.
    return float((expected - found).abs().nan_to_num(nan=float("inf")).max())
