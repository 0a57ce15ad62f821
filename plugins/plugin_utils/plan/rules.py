# SPDX-License-Identifier: Apache-2.0
"""Which versions fit together. Each rule returns "" if two things fit, or a sentence that says why they do not.

The numbers and their sources are in roles/preflight/files/matrix/. Rules about PyTorch and TensorFlow are in
`frameworks`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.module_utils.gpu.cards import (
    CONSUMER,
    FIRST_OF_CHIP,
    WORKSTATION,
    first_driver,
)
from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import major, version_key

from .candidates import CPU_BUILD, DISTRIBUTION, NVIDIA_TITLE, PYPI, Candidate
from .frameworks import (
    cuda_serves_tensorflow,
    cudnn_serves_tensorflow,
    python_has_wheels,
    pytorch_computes_on,
    pytorch_shares_with_tensorflow,
    sm,
    tensorflow_computes_on,
)
from .machines.board_packages import platform_refuses
from .places import before_repository, one_place, place_has
from .seen import SEEN
from .support import compiles, drives, has_code, what_drives


class Gpu(NamedTuple):
    """A kind of GPU in a host.

    capabilities  those for which there must be code, usually one, such as "7.0"      card  its row (cards.card_of)
    """

    name: str
    architecture: str
    capabilities: Sequence[str]
    card: Any


class Rules:
    """The rules over one matrix."""

    def __init__(self, matrix: dict[str, Any]) -> None:
        self.matrix = matrix
        # What all refusals of a kind for one architecture say, worked out once.
        self._driven_by: dict[str, str] = {}
        self._compiling: dict[str, list[str]] = {}
        self._computing: dict[str, list[str]] = {}
        self._gpu_rules: dict[str, Callable[..., str]] = {
            "driver": self._driver_drives,
            "cuda": self._cuda_compiles_for,
            "cudnn": self._cudnn_computes_on,
            "nccl": self._nccl_computes_on,
            "pytorch": self._pytorch_computes_on,
            "tensorflow": tensorflow_computes_on,
        }
        self._pair_rules: dict[tuple[str, str], Callable[[Candidate, Candidate], str]] = {
            ("driver", "cuda"): self._driver_runs_cuda,
            ("driver", "cudnn"): self._driver_runs_cudnn,
            ("driver", "nccl"): place_has,
            ("driver", "pytorch"): self._driver_runs_pytorch,
            ("cuda", "cudnn"): _cuda_holds_cudnn,
            ("cuda", "nccl"): _cuda_holds_nccl,
            ("python", "pytorch"): python_has_wheels,
            ("driver", "tensorflow"): self._driver_runs_tensorflow,
            ("cuda", "tensorflow"): cuda_serves_tensorflow,
            ("cudnn", "tensorflow"): cudnn_serves_tensorflow,
            ("python", "tensorflow"): python_has_wheels,
            ("pytorch", "tensorflow"): pytorch_shares_with_tensorflow,
        }

    def gpu_refuses(self, gpu: Gpu, candidate: Candidate) -> str:
        """Why a candidate does not work with a GPU."""
        rule = self._gpu_rules.get(candidate.kind)
        return rule(gpu, candidate) if rule else ""

    def os_refuses(self, release: dict[str, Any], candidate: Candidate) -> str:
        """Why a candidate is not available on a release of an operating system (a row of os_releases).

        What is there for a driver also depends on the board of the GPUs, the row's `platform`.
        """
        family = self.matrix["os_families"][release["family"]]
        if candidate.kind == "python" and candidate.pins["python"] not in release["pythons"]:
            return f"{_title(release)} has no {candidate.label}: it has {', '.join(release['pythons'])}"
        if candidate.kind == "tensorflow" and not release.get("toolkit", True) and not candidate.row["from_pip"]:
            return (
                f"{candidate.label} loads CUDA {candidate.row['cuda']} and cuDNN of the node, and no toolkit is planned"
            )
        archive = candidate.row.get("place", {}).get("family", release["family"])
        if archive != release["family"]:
            return f"{candidate.label} is not for {_title(release)}"
        missing = before_repository(family, candidate)
        if missing:
            return f"{candidate.label} is not in NVIDIA's repository for {_title(release)}: it begins with {missing}"
        refusal = self._machine_refuses(release, candidate) if release["machine"] == "aarch64" else ""
        if not refusal and candidate.kind == "driver":
            refusal = platform_refuses(self.matrix, release, candidate)
        if refusal:
            return refusal
        if candidate.kind in ("pytorch", "tensorflow"):
            glibc = family["glibc"]
            if version_key(candidate.row["glibc"]) > version_key(glibc):
                return f"{candidate.label} needs glibc {candidate.row['glibc']}: {_title(release)} has {glibc}"
        return ""

    def _machine_refuses(self, release: dict[str, Any], candidate: Candidate) -> str:
        """Why a candidate is not available for aarch64, as far as that is known."""
        label, machine = candidate.label, release["machine"]
        place = candidate.row.get("place", {})
        if place.get("source") == DISTRIBUTION or place.get("title", NVIDIA_TITLE) != NVIDIA_TITLE:
            return f"{label} was not checked for {machine}"
        if candidate.kind == "tensorflow":
            return f"{label} has wheels for {machine} that compute only on the processor"
        if candidate.kind != "pytorch" or candidate.pins["pytorch_build"] == CPU_BUILD:
            return ""
        first = self.matrix["pytorch_aarch64"]["from"]
        if candidate.row["index"] != PYPI:
            return f"{label} was not checked for {machine}: only what PyPI serves was"
        if version_key(candidate.pins["pytorch"]) < version_key(first):
            text = "{} computes only on the processor on {}: the first on PyPI with CUDA is {}"
            return text.format(label, machine, first)
        return ""

    def relate(self, kind: str, other: str) -> bool:
        """Whether there is a rule between two kinds, in whichever order."""
        return (kind, other) in self._pair_rules or (other, kind) in self._pair_rules

    def pair_refuses(self, first: Candidate, second: Candidate) -> str:
        """Why two candidates, `first` of the kind that is chosen first, do not fit together."""
        return self.pair_rule(first.kind, second.kind)(first, second)

    def pair_rule(self, kind: str, other: str) -> Callable[[Candidate, Candidate], str]:
        """The rule about two kinds, of which `kind` is chosen first; one that refuses nothing where there is none."""
        return self._pair_rules.get((kind, other), _refuses_nothing)

    @staticmethod
    def seen(kind: str, other: str) -> Callable[[Candidate], Any]:
        """What the rule for a kind and another, or "gpu" or "os", uses: equal keys get equal answers from it."""
        return SEEN.get((kind, other), id)

    def _driver_drives(self, gpu: Gpu, driver: Candidate) -> str:
        architecture = gpu.architecture
        row = self.matrix["architectures"][architecture]
        if drives(row, driver.pins["driver_flavour"], driver.pins["driver_branch"]):
            return _too_old(gpu, driver) or _open_is_not_for(gpu, driver) or _open_alone_is_for(gpu, driver)
        complaint = f"{driver.label} does not drive {_with_architecture(gpu)}"
        return f"{complaint}: {self._what_drives(architecture)}"

    def _what_drives(self, architecture: str) -> str:
        """What drives the GPU, determined once for all the drivers that do not."""
        if architecture not in self._driven_by:
            self._driven_by[architecture] = what_drives(self.matrix, architecture)
        return self._driven_by[architecture]

    def _cuda_compiles_for(self, gpu: Gpu, cuda: Candidate) -> str:
        architecture = gpu.architecture
        row = self.matrix["architectures"][architecture]
        if compiles(row, cuda.pins["cuda"]):
            missing = [wanted for wanted in gpu.capabilities if wanted in cuda.row.get("without_capabilities", ())]
            complaint = "{} cannot compile for {} ({})"
            return complaint.format(cuda.label, gpu.name, sm(missing[0])) if missing else ""
        if architecture not in self._compiling:
            self._compiling[architecture] = [version for version in self.matrix["cuda"] if compiles(row, version)]
        fitting = self._compiling[architecture]
        complaint = f"{cuda.label} cannot compile for {_with_architecture(gpu)}"
        return complaint + _range_of("toolkit", architecture, cuda.pins["cuda"], fitting)

    def _cudnn_computes_on(self, gpu: Gpu, cudnn: Candidate) -> str:
        architecture = gpu.architecture
        row = self.matrix["architectures"][architecture]
        if has_code(architecture, row, cudnn.row):
            return ""
        if architecture not in self._computing:
            known = [other["version"] for other in self.matrix["cudnn"] if has_code(architecture, row, other)]
            self._computing[architecture] = known
        fitting = self._computing[architecture]
        complaint = f"{cudnn.label} has no code for {_with_architecture(gpu)}"
        return complaint + _range_of("cuDNN", architecture, cudnn.row["version"], fitting)

    def _nccl_computes_on(self, gpu: Gpu, nccl: Candidate) -> str:
        """A library of its own list of GPUs: its CUDA, which pairs it with a toolkit, may compile for more."""
        if gpu.architecture not in nccl.row.get("without", ()):
            return ""
        rows = [row for row in self.matrix["nccl"] if row["cuda_major"] == nccl.row["cuda_major"]]
        fitting = [row["version"] for row in rows if gpu.architecture not in row.get("without", ())]
        complaint = f"{nccl.label} has no code for {_with_architecture(gpu)}"
        return complaint + _range_of(
            f"NCCL for CUDA {nccl.row['cuda_major']}", gpu.architecture, nccl.row["version"], fitting
        )

    def _pytorch_computes_on(self, gpu: Gpu, pytorch: Candidate) -> str:
        last = self.matrix["architectures"].get(gpu.architecture, {}).get("last_cudnn", "")
        return pytorch_computes_on(gpu, pytorch, last)

    def _driver_runs_cuda(self, driver: Candidate, cuda: Candidate) -> str:
        minimum = self._minimum_driver(cuda.pins["cuda"])
        return _needs_driver(cuda.label, minimum, driver) or one_place(driver, cuda)

    def _driver_runs_cudnn(self, driver: Candidate, cudnn: Candidate) -> str:
        return _needs_driver(cudnn.label, cudnn.row["minimum_driver"], driver) or place_has(driver, cudnn)

    def _driver_runs_pytorch(self, driver: Candidate, pytorch: Candidate) -> str:
        if pytorch.pins["pytorch_build"] == CPU_BUILD:
            return ""
        return _needs_driver(pytorch.label, self._minimum_driver(pytorch.row["cuda"]), driver)

    def _driver_runs_tensorflow(self, driver: Candidate, tensorflow: Candidate) -> str:
        return _needs_driver(tensorflow.label, self._minimum_driver(tensorflow.row["cuda"]), driver)

    def _minimum_driver(self, cuda_version: str) -> str:
        return self.matrix["cuda_majors"][major(cuda_version)]["minimum_driver"]


def _refuses_nothing(_first: Candidate, _second: Candidate) -> str:
    return ""


def _title(release: dict[str, Any]) -> str:
    return "{name} {version}".format(**release)


def _too_old(gpu: Gpu, driver: Candidate) -> str:
    """A card of a known architecture is supported from some release on; earlier ones do not know its device id."""
    branch, exact = driver.pins["driver_branch"], driver.pins["driver_version"]
    first = first_driver(gpu.card, branch)
    # Without an exact version, the newest of the branch is installed.
    if first == "" or (first and not (exact and version_key(exact) < version_key(first))):
        return ""
    complaint = f"{driver.label} does not drive {gpu.name}"
    if first:
        return f"{complaint}: the first of branch {branch} that does is {first}"
    oldest = gpu.card.first_driver or FIRST_OF_CHIP[gpu.card.chip]
    return f"{complaint}: no release of branch {branch} drives it; the first driver for it is {oldest}"


def _open_is_not_for(gpu: Gpu, driver: Candidate) -> str:
    """As long as NVIDIA does not recommend the open module, it is a beta for all but data-centre cards."""
    is_open = driver.pins["driver_flavour"] == "open"
    if not is_open or driver.row["preferred_flavour"] == "open" or gpu.card.card_class not in (WORKSTATION, CONSUMER):
        return ""
    beta = "before branch 560 the open module is a beta for all but data-centre cards"
    return f"{driver.label} does not support {gpu.name}: {beta}"


def _open_alone_is_for(gpu: Gpu, driver: Candidate) -> str:
    """A GPU that is soldered beside NVIDIA's own processor works only with the open module."""
    if not gpu.card.machine or driver.pins["driver_flavour"] == "open":
        return ""
    return f"{driver.label} does not drive {gpu.name}: NVIDIA supports only the open module for it"


def _with_architecture(gpu: Gpu) -> str:
    return f"{gpu.name} ({gpu.architecture})"


def _range_of(thing: str, architecture: str, version: str, fitting: list[str]) -> str:
    """The end of a sentence: where the versions for an architecture begin or end."""
    if not fitting:
        return f": no known {thing} has"
    last = max(fitting, key=version_key)
    if version_key(version) > version_key(last):
        return f": the last {thing} for {architecture} is {last}"
    return f": the first {thing} for {architecture} is {min(fitting, key=version_key)}"


def _needs_driver(label: str, minimum: str, driver: Candidate) -> str:
    exact = driver.pins["driver_version"]
    # Without an exact version the newest of the branch is installed, which is never older than the branch's first.
    enough = version_key(exact) >= version_key(minimum) if exact else _branch_reaches(driver, minimum)
    return "" if enough else f"{label} needs driver {minimum} or newer, not {driver.label}"


def fits_dcgm(row: dict[str, Any], architectures: list[str], driver: Candidate) -> bool:
    """Whether a release of DCGM supports all these architectures under this driver."""
    known = all(architecture in row["architectures"] for architecture in architectures)
    return known and not _needs_driver("DCGM", row["minimum_driver"], driver)


def _branch_reaches(driver: Candidate, minimum: str) -> bool:
    return int(driver.pins["driver_branch"]) >= int(major(minimum))


def _cuda_holds_cudnn(cuda: Candidate, cudnn: Candidate) -> str:
    row = cudnn.row
    version = cuda.pins["cuda"]
    if major(version) != row["cuda_major"]:
        return f"{cudnn.label} is not for {cuda.label}"
    newest = row["cuda_to"] or version
    if version_key(row["cuda_from"]) <= version_key(version) <= version_key(newest):
        return ""
    return f"{cudnn.label} is for CUDA {row['cuda_from']} to {newest}, not for {version}"


def _cuda_holds_nccl(cuda: Candidate, nccl: Candidate) -> str:
    return "" if major(cuda.pins["cuda"]) == nccl.row["cuda_major"] else f"{nccl.label} is not for {cuda.label}"
