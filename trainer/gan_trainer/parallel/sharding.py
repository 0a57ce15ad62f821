# SPDX-License-Identifier: Apache-2.0
"""Networks larger than one card: FSDP2 and tensor parallelism, both PyTorch's own (torch.distributed).

FSDP2 (`shard`) keeps a slice of every weight on each rank and gathers a layer only while it computes: for a network
whose weights, gradients and optimizer state do not fit one card. Tensor parallelism (`split_linear_layers`) computes a
wide linear layer on several cards at once, for a layer that does not fit alone. Where both fit one card,
DistributedDataParallel is faster. Make the optimizer after either call: it must see the sharded parameters.
"""

from __future__ import annotations

from typing import Any, Iterator

import torch
from torch import nn

from ..errors import UsageError

# A layer below this is cheaper to gather together with its neighbours than alone.
MIN_UNIT_PARAMETERS = 100_000
ELEMENTWISE = (nn.ReLU, nn.LeakyReLU, nn.GELU, nn.SiLU, nn.Identity, nn.Dropout)


class ParallelError(UsageError):
    """The network cannot be spread; the text says why and what to use instead."""


def make_mesh(device_type: str, data: int, tensor: int = 1) -> Any:
    """A DeviceMesh of data x tensor ranks with the dimensions "data" and "tensor"; the process group must be there."""
    _need("torch.distributed.device_mesh", "init_device_mesh", "A device mesh")
    from torch.distributed.device_mesh import init_device_mesh

    ranks = torch.distributed.get_world_size()
    if data * tensor != ranks:
        raise ParallelError(f"mesh: {data} x {tensor} is {data * tensor} ranks, but {ranks} were started")
    return init_device_mesh(device_type, (data, tensor), mesh_dim_names=("data", "tensor"))


def shard(
    network: nn.Module, mesh: Any, compute_dtype: torch.dtype | None = None, min_parameters: int = MIN_UNIT_PARAMETERS
) -> nn.Module:
    """Spread parameters, gradients and (made later) optimizer state of `network` over the ranks of `mesh`, in place.

    mesh           one dimension of a DeviceMesh, for example make_mesh("cuda", 4)["data"]
    compute_dtype  what gathered weights are cast to; gradients are summed in float32 all the same. None: as they are
    min_parameters of a layer that is gathered alone; what is smaller is gathered with the rest

    Raises ParallelError on a torch without FSDP2 (before 2.6).
    """
    _need("torch.distributed.fsdp", "fully_shard", "FSDP2")
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mixed = MixedPrecisionPolicy(param_dtype=compute_dtype, reduce_dtype=torch.float32 if compute_dtype else None)
    for module in network.modules():
        own = sum(parameter.numel() for parameter in module.parameters(recurse=False))
        if module is not network and own >= min_parameters:
            fully_shard(module, mesh=mesh, mp_policy=mixed)
    fully_shard(network, mesh=mesh, mp_policy=mixed)
    return network


def split_linear_layers(network: nn.Module, mesh: Any, min_parameters: int = MIN_UNIT_PARAMETERS) -> dict[str, str]:
    """Split the linear layers of at least `min_parameters` over the ranks of `mesh`, in place; returns how, by name.

    columns  each rank computes some of the features
    rows     each rank takes some of the inputs, and the partial outputs are summed

    In a Linear - elementwise - Linear of a Sequential the first is cut by columns and the second by rows, so that
    nothing travels between them. Inputs and outputs are whole on every rank: all must be given the same batch.

    Raises ParallelError where there is nothing to split, and on torch before 2.6.
    """
    _need("torch.distributed.fsdp", "fully_shard", "Tensor parallelism")
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    ranks = mesh.size()
    wide = {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, nn.Linear) and module.weight.numel() >= min_parameters
    }
    plan: dict[str, Any] = {}
    for first, second in _linear_pairs(network):
        if first in wide and second in wide and wide[first].out_features % ranks == 0:
            plan.update({first: ColwiseParallel(), second: RowwiseParallel()})
    for name, module in wide.items():
        if name not in plan and module.out_features % ranks == 0:
            plan[name] = ColwiseParallel(output_layouts=Replicate())
        elif name not in plan and module.in_features % ranks == 0:
            plan[name] = RowwiseParallel(input_layouts=Replicate())
    if not plan:
        raise ParallelError(
            f"this network has no linear layer of {min_parameters} parameters or more that divides by {ranks} ranks; "
            "PyTorch splits linear layers, not convolutions: use gan_trainer.parallel.sharding.shard (FSDP2)"
        )
    parallelize_module(network, mesh, plan)
    return {name: "columns" if isinstance(style, ColwiseParallel) else "rows" for name, style in plan.items()}


def full_state(network: nn.Module) -> dict[str, Any]:
    """The whole state_dict, gathered to the CPU of rank 0 (elsewhere empty). Every rank must call it."""
    _need("torch.distributed.checkpoint.state_dict", "get_model_state_dict", "Gathering a sharded state")
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    return get_model_state_dict(network, options=StateDictOptions(full_state_dict=True, cpu_offload=True))


def _linear_pairs(network: nn.Module) -> Iterator[tuple[str, str]]:
    """Names of the two linear layers of each Linear - elementwise - Linear in a Sequential; no layer is in two."""
    for prefix, module in network.named_modules():
        children = list(module.named_children()) if isinstance(module, nn.Sequential) else []
        place = 0
        while place + 2 < len(children):
            (first, a), (_, between), (second, b) = children[place : place + 3]
            pair = isinstance(a, nn.Linear) and isinstance(between, ELEMENTWISE) and isinstance(b, nn.Linear)
            if pair:
                dot = f"{prefix}." if prefix else ""
                yield dot + first, dot + second
            place += 3 if pair else 1


def _need(module: str, name: str, what: str) -> None:
    """Raise ParallelError where this torch does not have it; torch.distributed may be missing altogether."""
    try:
        found = hasattr(__import__(module, fromlist=[name]), name)
    except ImportError:
        found = False
    if not found:
        here = f"this is torch {torch.__version__}"
        raise ParallelError(f"{what} needs torch 2.6 or newer with torch.distributed; {here}")
