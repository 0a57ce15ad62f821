# SPDX-License-Identifier: Apache-2.0
"""Rules about PyTorch and TensorFlow: for which GPUs their wheels have code, what they include, and what they share.

As in `rules`, each answers with "" when two things fit, or with the sentence that says why they do not. What the
wheels demand was read from their metadata on PyPI; the rows are roles/preflight/files/matrix/pytorch.yml and
tensorflow.yml.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import major, version_key

from .candidates import CPU_BUILD, PYPI, Candidate


def sm(capability: str) -> str:
    """A compute capability as compilers write it: sm_70 for "7.0"."""
    return "sm_" + capability.replace(".", "")


def pytorch_computes_on(gpu: Any, pytorch: Candidate, last_cudnn: str) -> str:
    """Whether a build has code for a GPU, and whether its cuDNN has.

    last_cudnn  the last series of cuDNN for the GPU's architecture, "9.10"; "" if none has dropped it
    """
    if pytorch.pins["pytorch_build"] == CPU_BUILD:
        return ""
    missing = [wanted for wanted in gpu.capabilities if not _has_code(pytorch.row["capabilities"], wanted)]
    if missing:
        return _no_code(pytorch, gpu.name, missing[0])
    inside = pytorch.row.get("cudnn", "")
    if not (inside and last_cudnn) or version_key(inside)[:2] <= version_key(last_cudnn):
        return ""
    said = inside if pytorch.row["index"] == PYPI else f"{inside} (by PyTorch's release table; no wheel was read)"
    text = f"{pytorch.label} brings cuDNN {said}, which has no code for {gpu.name} ({gpu.architecture})"
    return f"{text}: the last cuDNN for {gpu.architecture} is {last_cudnn}"


def tensorflow_computes_on(gpu: Any, tensorflow: Candidate) -> str:
    """Whether the wheels have code for a GPU, or PTX that the driver compiles for it."""
    row = tensorflow.row
    missing = [wanted for wanted in gpu.capabilities if not _has_code(row["capabilities"] + row["ptx"], wanted)]
    return _no_code(tensorflow, gpu.name, missing[0]) if missing else ""


def _no_code(candidate: Candidate, name: str, capability: str) -> str:
    has = ", ".join(sm(known) for known in candidate.row["capabilities"])
    return f"{candidate.label} has no code for {name} ({sm(capability)}): it has {has}"


def _has_code(capabilities: Sequence[str], wanted: str) -> bool:
    """Code for 8.0 runs on 8.6: binaries run on the same first number and an equal or higher second one."""
    first, second = version_key(wanted)
    return any(ours == first and minor <= second for ours, minor in map(version_key, capabilities))


def python_has_wheels(python: Candidate, package: Candidate) -> str:
    wheels: list[str] = package.row["pythons"]
    if python.pins["python"] in wheels:
        return ""
    return f"{package.label} has no wheels for {python.label}: it has {wheels[0]} to {wheels[-1]}"


def cuda_serves_tensorflow(cuda: Candidate, tensorflow: Candidate) -> str:
    """TensorFlow that brings no CUDA loads the node's: of the same major version, and no older than its own."""
    return _serves(cuda.label, cuda.pins["cuda"], "CUDA", "cuda", tensorflow)


def cudnn_serves_tensorflow(cudnn: Candidate, tensorflow: Candidate) -> str:
    return _serves(cudnn.label, cudnn.row["version"], "cuDNN", "cudnn", tensorflow)


def _serves(label: str, version: str, title: str, key: str, tensorflow: Candidate) -> str:
    wanted = tensorflow.row[key]
    enough = major(version) == major(wanted) and version_key(version) >= version_key(wanted)
    if tensorflow.row["from_pip"] or enough:
        return ""
    return f"{tensorflow.label} loads {title} {major(wanted)} of {wanted} or newer, not {label}"


def pytorch_shares_with_tensorflow(pytorch: Candidate, tensorflow: Candidate) -> str:
    """Whether pip finds an environment with both; their CUDA libraries use the same folders, whatever the CUDA."""
    row, inside, release = tensorflow.row, pytorch.row["cuda"], pytorch.pins["pytorch"]
    below = row["pytorch_below"]
    if below and version_key(release) >= version_key(below):
        return _demands(pytorch, tensorflow)
    if not inside or not row["from_pip"]:
        return ""
    if major(inside) != major(row["cuda"]):
        text = f"{pytorch.label} brings CUDA {inside} and {tensorflow.label} CUDA {row['cuda']}"
        return text + ": one environment cannot hold both"
    if pytorch.row["index"] != PYPI:
        # Not known is not no: the builds of one release demand different libraries.
        text = "PyPI does not serve {}, so what it demands was not read, and {} demands {}"
        text = text.format(pytorch.label, tensorflow.label, row["demands"])
        return text + ": whether pip finds an environment with both is not known"
    return "" if release in row["pytorch"] else _demands(pytorch, tensorflow)


def _demands(pytorch: Candidate, tensorflow: Candidate) -> str:
    demands = tensorflow.row["demands"]
    return f"{tensorflow.label} demands {demands}: pip finds no environment with it and {pytorch.label}"
