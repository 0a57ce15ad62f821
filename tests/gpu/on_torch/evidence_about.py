"""What the interpreter with PyTorch is, which GPUs it finds, and whether the trainer can be imported under it."""

from __future__ import annotations

import importlib
import platform
import sys
from importlib import metadata
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Any

from evidence_result import Found, in_one_line

# Module and distribution.
STAND_IN = "without_pillow"
MODULES = {
    "numpy": "numpy",
    "PIL": "pillow",
    "yaml": "PyYAML",
    "triton": "triton",
    "lightning": "lightning",
    "accelerate": "accelerate",
    "matplotlib": "matplotlib",
    "torchvision": "torchvision",
}


def modules() -> dict[str, str | None]:
    """{module: version, None where it is missing}."""
    found: dict[str, str | None] = {}
    for module, distribution in MODULES.items():
        found[module] = None
        if find_spec(module):
            try:
                found[module] = metadata.version(distribution)
            except metadata.PackageNotFoundError:
                # The stand-in has none.
                found[module] = None if module == "PIL" else "unknown"
    return found


def about_torch() -> dict[str, Any]:
    import torch

    found: dict[str, Any] = {"version": torch.__version__, "cuda": torch.version.cuda}
    asked = {
        "cudnn": torch.backends.cudnn.version,
        "architectures": torch.cuda.get_arch_list,
        "nccl": lambda: ".".join(map(str, torch.cuda.nccl.version())),
    }
    for name, ask in asked.items() if torch.version.cuda else ():
        try:
            found[name] = ask()
        # A build without one of them is still a PyTorch.
        except Exception as error:
            found[name] = in_one_line(error)
    return found


def gpus() -> list[dict[str, Any]]:
    """Raises what CUDA says where it cannot be started."""
    import torch

    if not torch.version.cuda:
        return []
    if not torch.cuda.is_available():
        # Says why, where is_available only says no.
        torch.cuda.init()
    found = []
    for index in range(torch.cuda.device_count()):
        row = torch.cuda.get_device_properties(index)
        capability = f"{row.major}.{row.minor}"
        found.append({"index": index, "name": row.name, "capability": capability, "memory_mib": row.total_memory >> 20})
        # A card that is listed may still refuse to work.
        torch.zeros(1, device=f"cuda:{index}").add_(1).item()
    return found


def trainer() -> str:
    for module in ("gan_trainer.bench.training", "gan_trainer.smoke.run", "gan_trainer.bench.tables"):
        importlib.import_module(module)
    return ""


def main() -> None:
    # Pillow's stand-in is only for a Python without Pillow, and must not hide one.
    own = [path for path in sys.path if STAND_IN not in path]
    if PathFinder.find_spec("PIL", own):
        sys.path[:] = own
    found = Found(python=platform.python_version(), executable=sys.executable, modules=modules())
    found.attempt("torch", about_torch)
    found.attempt("gpus", gpus)
    found.attempt("trainer", trainer)


if __name__ == "__main__":
    main()
