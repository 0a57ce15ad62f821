# SPDX-License-Identifier: Apache-2.0
"""What a rule uses of a candidate: two candidates that are the same in this get the same answer, asked only once."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import major

from .candidates import PYPI, Candidate


def _release(driver: Candidate) -> tuple[str, ...]:
    return driver.pins["driver_branch"], driver.pins["driver_version"]


def _release_and_place(driver: Candidate) -> tuple[str, ...]:
    return _release(driver) + (driver.pins["driver_source"], driver.row["place"].get("family", ""))


def _cuda_major(package: Candidate) -> str:
    return package.row["cuda"] and major(package.row["cuda"])


def _wheels(package: Candidate) -> tuple[str, ...]:
    return tuple(package.row["pythons"])


def _beside_tensorflow(pytorch: Candidate) -> Any:
    # Builds that are not on PyPI are distinguished only by their series.
    release, served = pytorch.pins["pytorch"], pytorch.row["index"] == PYPI
    return _cuda_major(pytorch), served, release if served else release.rsplit(".", 1)[0]


def _beside_pytorch(tensorflow: Candidate) -> Any:
    row = tensorflow.row
    return row["from_pip"], _cuda_major(tensorflow), tuple(row["pytorch"]), row["pytorch_below"]


def _code(package: Candidate) -> Any:
    row = package.row
    return tuple(row["capabilities"]), tuple(row.get("ptx", ())), row.get("cudnn", ""), bool(row["cuda"])


# What a rule for the second kind uses of a candidate of the first; without an entry, it uses all of it.
SEEN = {
    ("driver", "gpu"): lambda driver: (_release(driver), driver.pins["driver_flavour"]),
    ("driver", "cuda"): _release_and_place,
    ("driver", "cudnn"): _release_and_place,
    ("driver", "nccl"): _release_and_place,
    ("driver", "pytorch"): _release,
    ("driver", "tensorflow"): _release,
    ("cuda", "driver"): lambda cuda: (major(cuda.pins["cuda"]), cuda.row["place"]["source"]),
    ("cuda", "nccl"): lambda cuda: major(cuda.pins["cuda"]),
    ("cuda", "cudnn"): lambda cuda: cuda.pins["cuda"],
    ("cuda", "tensorflow"): lambda cuda: cuda.pins["cuda"],
    ("cudnn", "driver"): lambda cudnn: (cudnn.row["minimum_driver"], cudnn.row["version"]),
    ("cudnn", "cuda"): lambda cudnn: (cudnn.row["cuda_major"], cudnn.row["cuda_from"], cudnn.row["cuda_to"]),
    ("cudnn", "tensorflow"): lambda cudnn: cudnn.row["version"],
    ("pytorch", "gpu"): _code,
    ("pytorch", "driver"): _cuda_major,
    ("pytorch", "python"): _wheels,
    ("pytorch", "tensorflow"): _beside_tensorflow,
    ("tensorflow", "gpu"): _code,
    ("tensorflow", "driver"): _cuda_major,
    ("tensorflow", "cuda"): lambda tensorflow: (tensorflow.row["from_pip"], tensorflow.row["cuda"]),
    ("tensorflow", "cudnn"): lambda tensorflow: (tensorflow.row["from_pip"], tensorflow.row["cudnn"]),
    ("tensorflow", "python"): _wheels,
    ("tensorflow", "pytorch"): _beside_pytorch,
}
