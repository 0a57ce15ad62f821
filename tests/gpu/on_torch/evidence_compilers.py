"""Whether this host can compile what PyTorch compiles at run time: torch.compile (Triton on a GPU), a C++ extension."""

from __future__ import annotations

import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

from evidence_result import Found

SOURCE = "#include <torch/extension.h>\ntorch::Tensor twice(torch::Tensor x) { return x + x; }\n"
CLOSE = 1e-4


def headers() -> dict[str, Any]:
    file = Path(sysconfig.get_paths()["include"], "Python.h")
    return {"path": str(file), "there": file.exists()}


def compiled(device: str) -> dict[str, Any]:
    """A forward and a backward pass, compiled, held against eager mode. The error of a compiler is the answer."""
    import torch
    from torch._dynamo.utils import counters

    torch._dynamo.config.suppress_errors = False
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.LeakyReLU(0.2), torch.nn.Linear(64, 1)).to(device)
    numbers = torch.randn(32, 64, device=device)

    def step(function: Any) -> list[Any]:
        loss = torch.nn.functional.softplus(function(numbers)).mean()
        return [loss.detach(), *torch.autograd.grad(loss, list(network.parameters()))]

    eager, begin = step(network), time.perf_counter()
    fast = step(torch.compile(network))
    seconds = time.perf_counter() - begin
    worst = max(float((one - other).abs().max()) for one, other in zip(eager, fast, strict=True))
    graphs = int(counters["stats"]["unique_graphs"])
    if not graphs or not worst < CLOSE:
        raise RuntimeError(f"{graphs} graphs were compiled, and differ from eager mode by {worst:.2g}")
    return {"graphs": graphs, "differs_by": worst, "seconds": round(seconds, 1)}


def extension() -> dict[str, Any]:
    import torch
    from torch.utils.cpp_extension import load_inline

    begin = time.perf_counter()
    made = load_inline("evidence_twice", SOURCE, functions=["twice"], build_directory=sys.argv[2], verbose=False)
    if not torch.equal(made.twice(torch.ones(3)), torch.full((3,), 2.0)):
        raise RuntimeError("the extension computes something else")
    return {"seconds": round(time.perf_counter() - begin, 1)}


def main() -> None:
    found = Found()
    found.attempt("headers", headers)
    found.attempt("compile", lambda: compiled(sys.argv[1]))
    found.attempt("extension", extension)


if __name__ == "__main__":
    main()
