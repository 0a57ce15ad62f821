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
from typing import Any, Callable, NamedTuple, Sequence, Tuple

import torch
from torch import Tensor, nn

from ..errors import UserError
from ..runs.samples import class_of_each, sizes

# Largest allowed difference of a pixel in [-1, 1], all in float32: an eightieth of a grey level. Fusing reorders sums.
TOLERANCE = 1e-4
# The example's batch, and others that prove that the batch size is free.
TRACED_BATCH, OTHER_BATCHES = 4, (2, 7)
INPUTS, IMAGES = ("noise", "labels"), "images"

Network = Callable[..., Tensor]
# Noise, and classes if the training run had them.
Inputs = Tuple[Tensor, ...]


class ExportError(UserError):
    """An export failed or does not compute what the eager network computes."""


class Format(NamedTuple):
    """`missing` says what this installation lacks, "" where it can write the form; `read` gives what is compared."""

    suffix: str
    missing: Callable[[], str]
    write: Callable[[nn.Module, Inputs, Path], None]
    read: Callable[[Path], Network]


def write_torchscript(generator: nn.Module, inputs: Inputs, file: Path) -> None:
    torch.jit.save(torch.jit.trace(generator, inputs), str(file))


def read_torchscript(file: Path) -> Network:
    return torch.jit.load(str(file))


def _exported(generator: nn.Module, inputs: Inputs) -> Any:
    batch = torch.export.Dim("n", min=2, max=4096)
    return torch.export.export(generator, inputs, dynamic_shapes=tuple({0: batch} for _ in inputs))


def write_torch_export(generator: nn.Module, inputs: Inputs, file: Path) -> None:
    torch.export.save(_exported(generator, inputs), str(file))


def read_torch_export(file: Path) -> Network:
    return torch.export.load(str(file)).module()


def write_aoti(generator: nn.Module, inputs: Inputs, file: Path) -> None:
    from torch._inductor import aoti_compile_and_package

    aoti_compile_and_package(_exported(generator, inputs), package_path=str(file))


def read_aoti(file: Path) -> Network:
    from torch._inductor import aoti_load_package

    return aoti_load_package(str(file))


def write_onnx(generator: nn.Module, inputs: Inputs, file: Path) -> None:
    # The exporter that traces: there from torch 2.0 on, while the newer one needs one more library (onnxscript).
    tracing: dict[str, Any] = {"dynamo": False} if "dynamo" in torch.onnx.export.__annotations__ else {}
    given = list(INPUTS[: len(inputs)])
    axes = {name: {0: "n"} for name in (*given, IMAGES)}
    names: dict[str, Any] = {"input_names": given, "output_names": [IMAGES], "dynamic_axes": axes}
    torch.onnx.export(generator, inputs, str(file), **names, **tracing)


def read_onnx(file: Path) -> Network:
    import onnx
    import onnxruntime

    onnx.checker.check_model(str(file))
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return lambda *inputs: torch.from_numpy(
        session.run([IMAGES], {name: values.numpy() for name, values in zip(INPUTS, inputs)})[0]
    )


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


def export(generator: nn.Module, shape: int | Sequence[int], form: str, folder: Path, classes: int = 0) -> Exported:
    """Write `folder`/generator.* and compare it with `generator` (eval mode, float32) at three batch sizes.

    A file that differs by more than TOLERANCE is not kept. Raises ExportError.
    """
    kind = FORMATS[form]
    file, device = folder / ("generator" + kind.suffix), next(generator.parameters()).device

    def make(count: int) -> Inputs:
        noise = torch.randn(count, *sizes(shape), generator=torch.Generator().manual_seed(count))
        return tuple(values.to(device) for values in (noise, *class_of_each(count, classes)))

    try:
        # A folder only for this process, since exporters open files by name; AOTInductor requires the suffix.
        with tempfile.TemporaryDirectory(prefix=".unproven-", dir=folder) as private:
            temporary = Path(private) / file.name
            difference = _write_and_compare(kind, generator, make, temporary)
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


def _write_and_compare(kind: Format, generator: nn.Module, make: Callable[[int], Inputs], file: Path) -> float:
    """The largest difference of a pixel between `generator` and what was written into `file`."""
    with torch.no_grad(), warnings.catch_warnings():
        # Each exporter announces its successor.
        warnings.simplefilter("ignore")
        kind.write(generator, make(TRACED_BATCH), file)
        network = kind.read(file)
        return max(_difference(generator, network, make(n)) for n in (TRACED_BATCH, *OTHER_BATCHES))


@torch.no_grad()
def _difference(eager: nn.Module, other: Network, inputs: Inputs) -> float:
    expected, found = eager(*inputs), other(*inputs)
    if found.shape != expected.shape:
        text = f"shape {tuple(found.shape)} instead of {tuple(expected.shape)} for a batch of {len(inputs[0])}"
        raise ExportError(text)
    # A NaN is not a small difference.
    return float((expected - found).abs().nan_to_num(nan=float("inf")).max())
