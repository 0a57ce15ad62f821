# SPDX-License-Identifier: Apache-2.0
"""Which C++ compiler a node needs: one that CUDA's headers accept and that PyTorch's extensions can be compiled with.

The limits are data: `gcc` of toolkits (cuda.yml), `cxx` of PyTorch's series, `gcc` and `gcc_toolsets` of systems.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import version_key

from ..candidates import Candidate

# The first g++ with enough of a C++ for PyTorch's headers.
FIRST_GCC = {"17": 8, "20": 11}
USUAL = "17"
# What a warning about compilers begins with: who only trains compiles nothing by them.
ONLY = "Only if you compile extensions in C++ or CUDA:"


class HostCompiler(NamedTuple):
    """packages  to install beside the system's own g++    executable  its path, "" for the system's own g++

    problem  what cannot be compiled with anything that the system has, as a sentence; "" for nothing
    extensions  whether PyTorch's extensions in C++ can be
    """

    packages: list[str]
    executable: str
    problem: str
    extensions: bool


def host_compiler(
    family: dict[str, Any], release: dict[str, Any], cuda: Candidate | None, pytorch: Candidate
) -> HostCompiler:
    """What compiles for a toolkit and a PyTorch on a release (a row of os_releases) of a family.

    Without a toolkit nothing is installed. A distribution's own toolkit brings the compiler that it uses.
    """
    wanted = pytorch.row.get("cxx", USUAL)
    least, own = FIRST_GCC[wanted], int(family["gcc"])
    most = int(cuda.row.get("gcc", own)) if cuda is not None and not family["distribution"] else None
    fitting = [
        (int(number), row)
        for number, row in family.get("gcc_toolsets", {}).items()
        if version_key(release["version"]) >= version_key(row["since"]) or "." not in release["version"]
    ]
    if own >= least and (most is None or own <= most):
        return HostCompiler([], "", "", True)
    fitting = [(number, row) for number, row in fitting if least <= number and (most is None or number <= most)]
    if fitting and cuda is not None:
        _number, row = max(fitting, key=lambda item: item[0])
        return HostCompiler(list(row["packages"]), row["executable"], "", True)
    return HostCompiler([], "", _problem(release, cuda, pytorch, wanted, own, most), own >= least)


def _problem(
    release: dict[str, Any], cuda: Candidate | None, pytorch: Candidate, wanted: str, own: int, most: int | None
) -> str:
    has = "{name} {version} has g++ {own}".format(own=own, **release)
    if own < FIRST_GCC[wanted]:
        text = f"{ONLY} those of {pytorch.label} cannot be compiled, since they need C++{wanted}"
        text += f" (g++ {FIRST_GCC[wanted]} or newer), {has}"
        limit = f", and {cuda.label} takes g++ {most} at most" if cuda is not None and most is not None else ""
        return text + limit
    return f"{ONLY} {cuda.label if cuda else 'CUDA'} takes g++ {most} at most, and {has}: nvcc refuses it"


def compiler_warnings(found: HostCompiler, pytorch: Candidate) -> list[str]:
    """How extensions are compiled where the system's own g++ is not what compiles them."""
    if found.problem:
        return [found.problem]
    if not found.executable:
        return []
    text = "{} {} needs C++{}. They are compiled with {}, which the training services name; "
    text += "in a shell, set CXX={} and NVCC_PREPEND_FLAGS='-ccbin {}'"
    words = (ONLY, pytorch.label, pytorch.row.get("cxx", USUAL), found.packages[0])
    return [text.format(*words, found.executable, found.executable)]
