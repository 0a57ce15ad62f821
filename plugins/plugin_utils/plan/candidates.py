# SPDX-License-Identifier: Apache-2.0
"""What could be chosen for each part of a plan: the rows of the matrix as candidates, and which is preferred."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import is_part_of, major, version_key

from .unlisted import doubt_of_release

# What a user may pin, in the order in which problems are reported; the value is the inventory variable for it.
PINS = collections.OrderedDict(
    [
        ("profile", "preflight_profile"),
        ("driver_branch", "system_driver_branch"),
        ("driver_flavour", "system_driver_flavour"),
        ("driver_version", "system_driver_version"),
        ("driver_source", "system_driver_source"),
        ("cuda", "system_cuda_version"),
        ("cudnn", "system_cuda_cudnn_version"),
        ("nccl", "system_cuda_nccl_version"),
        ("python", "framework_pytorch_python"),
        ("pytorch", "framework_pytorch_version"),
        ("pytorch_build", "framework_pytorch_build"),
        ("tensorflow", "framework_pytorch_tensorflow_version"),
    ]
)
# A pin of these may name a series: cuda "12" or pytorch "2.14" mean the newest of the series that fits.
SERIES_PINS = ("cuda", "cudnn", "nccl", "pytorch", "tensorflow")
# The value of the pin `cuda` for a node without a toolkit: the wheels bring their own CUDA.
NO_TOOLKIT = "none"
# Parts that belong to a toolkit, and are not planned without one.
TOOLKIT_KINDS = ("cuda", "cudnn", "nccl")
# In a profile: this version or a newer one.
AT_LEAST = ">="
# Parts of a plan in the order in which they are chosen: an earlier one gets its best value at the cost of a later one.
GPU_KINDS = ("driver", "cuda", "cudnn", "nccl")
KINDS = GPU_KINDS + ("python", "pytorch", "tensorflow")
# Parts that are planned only if they are asked for: PyTorch brings its own NCCL, and the trainer needs no TensorFlow.
ON_DEMAND = ("nccl", "tensorflow")
CPU_BUILD = "cpu"
# The index that needs no address: PyPI itself, or whatever the node's pip uses instead.
PYPI = "pypi"
# Where a driver and its toolkit can come from: the values of driver_source.
NVIDIA, DISTRIBUTION = "nvidia", "distribution"
# The driver that a site names for parts of cards (`guests`); nobody asks for it by this word.
SITE = "site"
NVIDIA_TITLE = "NVIDIA's repository"


def pin_label(name: str, value: str) -> str:
    """A pin as written in the inventory: system_driver_branch "590"."""
    return f'{PINS[name]} "{value}"'


class Candidate(NamedTuple):
    """One value that a part of the plan could have.

    kind   one of KINDS                                        label  for sentences: "CUDA 12.9"
    pins   the value of each pin that would choose it          needs  pins without which it is not wanted
    row    what the matrix says about it
    """

    kind: str
    label: str
    pins: dict[str, str]
    needs: Sequence[str]
    row: dict[str, Any]


class Fact(NamedTuple):
    """Something that an answer must respect.

    kind   pin, gpu or os     name   of the pin     value  the pin's value, a Gpu, or a row of os_releases
    label  for people: system_driver_branch "590"            origin  of a pin: the variable, or the profile that asked
    """

    kind: str
    name: str
    value: Any
    label: str
    origin: str


def list_candidates(matrix: dict[str, Any], pins: dict[str, str], family: str | None) -> dict[str, list[Candidate]]:
    """`{kind: [Candidate, ...]}`, unfiltered. `pins` only adds an exact driver version, which has no row.

    family  name of the host's row of os_families, which decides a Python's packages; None if the host has none
    """
    return collections.OrderedDict(
        [
            ("driver", _drivers(matrix, pins.get("driver_version", ""), family)),
            ("cuda", _cudas(matrix, family)),
            ("cudnn", [_library("cudnn", "cuDNN", row["package_version"], row) for row in matrix["cudnn"]]),
            ("nccl", [_library("nccl", "NCCL", row["version"], row) for row in matrix["nccl"]]),
            ("python", _pythons(matrix, family)),
            ("pytorch", _pytorches(matrix)),
            ("tensorflow", _tensorflows(matrix)),
        ]
    )


def candidates_of_all(
    matrix: dict[str, Any], pins: dict[str, str], families: Sequence[str], here: dict[str, list[Candidate]]
) -> dict[str, list[Candidate]]:
    """The candidates of several families together, each once; kinds that no family changes are those of `here`."""
    found: dict[str, dict[Any, Candidate]] = {"driver": {}, "cuda": {}, "python": {}}
    for family in families:
        own = _drivers(matrix, pins.get("driver_version", ""), family) + _cudas(matrix, family)
        for one in own + _pythons(matrix, family):
            found[one.kind].setdefault((one.label, one.needs, one.row.get("place", {}).get("family")), one)
    return {kind: list(found[kind].values()) if kind in found else here[kind] for kind in here}


def _drivers(matrix: dict[str, Any], exact_version: str, family: str | None) -> list[Candidate]:
    """Every branch in both flavours, from every place that has it for this family."""
    found = []
    for branch, row in sorted(matrix["drivers"].items()):
        for flavour, details in sorted(row["flavours"].items()):
            for version in ("", exact_version) if exact_version and major(exact_version) == branch else ("",):
                for source, place in _places(matrix, family, branch, flavour):
                    if source == SITE and not version:
                        continue
                    pins = {"driver_branch": branch, "driver_flavour": flavour, "driver_version": version}
                    label = f"driver {version or branch} ({flavour}){place['label']}"
                    needs = ("driver_version",) if version else ()
                    # What is doubted of a branch is whether NVIDIA's repositories have it.
                    doubt = row.get("unverified", "") if source == NVIDIA else ""
                    row_here = dict(row, place=place, doubt=doubt, **details)
                    if place.get("maintained"):
                        # Whoever has it goes on with it: that NVIDIA has ended the branch is a fact of another source.
                        row_here.update(status="maintained", eol="")
                    if source == SITE:
                        # The hypervisor's release decides, and the guest's module is the proprietary one unless asked.
                        row_here.update(preferred_flavour="proprietary", status="maintained", eol="")
                    doubt = doubt_of_release(matrix, version) if version and source != SITE else ""
                    if doubt:
                        row_here.update(verified=False, unverified=doubt, doubt=doubt)
                    found.append(Candidate("driver", label, dict(pins, driver_source=source), needs, row_here))
    return found


def _places(matrix: dict[str, Any], family: str | None, branch: str, flavour: str) -> list[tuple[str, dict[str, Any]]]:
    """`[(source, place)]` of a driver branch with one kernel module; a place says what else comes from there.

    label   for sentences          rank  lower is preferred
    family  of a distribution's own archive: the only family that has it
    holds   `{kind: versions}`, a missing kind is unlimited
    maintained, version  of an archive's driver, as far as they are known
    """
    if "site_driver" in matrix:
        return [(SITE, {"label": " of the site", "title": "the site's own package", "rank": 1, "holds": {}})]
    places = [(NVIDIA, {"label": "", "title": NVIDIA_TITLE, "rank": 1, "holds": {}})]
    archive = matrix["os_families"].get(family, {}).get("distribution")
    own = archive["drivers"].get(branch) if archive else None
    if archive and own is not None and flavour in own.get("flavours", archive["flavours"]):
        label, rank = " from " + archive["title"], 0 if archive["preferred"] else 2
        holds = {"cuda": sorted(archive["cuda"]), "cudnn": sorted(archive["cudnn"]), "nccl": []}
        place = {"label": label, "title": archive["title"], "rank": rank, "family": family, "holds": holds}
        known = {name: own[name] for name in ("version", "maintained") if name in own}
        places.append((DISTRIBUTION, {**place, **known}))
    return places


def _cudas(matrix: dict[str, Any], family: str | None) -> list[Candidate]:
    """Every toolkit of NVIDIA's repository, and those of the distribution's own repository."""
    archive = matrix["os_families"].get(family, {}).get("distribution") or {
        "cuda": {},
        "title": "",
        "drivers": {},
    }
    place = {"source": DISTRIBUTION, "family": family, "branches": sorted(archive["drivers"])}
    nvidia = {"source": NVIDIA}
    found = []
    for version, row in sorted(matrix["cuda"].items()):
        needs = ("cuda",) * bool(row.get("unlisted"))
        found.append(Candidate("cuda", "CUDA " + version, {"cuda": version}, needs, dict(row, place=nvidia)))
        if version in archive["cuda"]:
            label = f"CUDA {version} from {archive['title']}"
            found.append(Candidate("cuda", label, {"cuda": version}, (), dict(row, place=place)))
    return found


def _library(kind: str, title: str, version: str, row: dict[str, Any]) -> Candidate:
    label = f"{title} {row['version']} for CUDA {row['cuda_major']}"
    return Candidate(kind, label, {kind: version}, (kind,) * bool(row.get("unlisted")), row)


def _pythons(matrix: dict[str, Any], family: str | None) -> list[Candidate]:
    """Every Python that any system has, with its packages in this family if it is one of the family's own."""
    rows: dict[str, Any] = {}
    for _name, system in sorted(matrix["os_families"].items(), key=lambda item: item[0] == family):
        rows.update(system["pythons"])
    return [
        # The system's own Python is never a fallback: nothing current runs on it.
        Candidate("python", "Python " + version, {"python": version}, ("python",) * row["only_pinned"], row)
        for version, row in sorted({key: dict(row, verified=True) for key, row in rows.items()}.items())
    ]


def _pytorches(matrix: dict[str, Any]) -> list[Candidate]:
    found = []
    for _series, row in sorted(matrix["pytorch"].items()):
        builds = {name: _build(matrix, row, name) for name in row["builds"]}
        builds[CPU_BUILD] = dict(row, cuda="", index="pytorch", capabilities=[])
        for release in row["releases"]:
            old = () if release == row["releases"][-1] and not row.get("unlisted") else ("pytorch",)
            for build, details in sorted(builds.items()):
                # A build without CUDA is never a fallback: training on a CPU by accident is a failure.
                needs = old + (("pytorch_build",) if build == CPU_BUILD else ())
                label = f"PyTorch {release} {build}"
                found.append(Candidate("pytorch", label, {"pytorch": release, "pytorch_build": build}, needs, details))
    return found


def _build(matrix: dict[str, Any], release: dict[str, Any], name: str) -> dict[str, Any]:
    """What is known of a build of a release (its row): from the release, else from all builds of its CUDA."""
    own, index = release["builds"][name], matrix["pytorch_index"]
    row = dict(
        release, cuda=build_cuda(name), index="pytorch", capabilities=matrix["pytorch_builds"]["capabilities"][name]
    )
    row.update(own)
    if row["index"] != PYPI and not index["verified"]:
        doubts = ([] if release["verified"] else [release["unverified"]]) + [index["unverified"]]
        # A smaller doubt than one about the release: what it says about its GPUs was read.
        row.update(verified=False, unverified=", and ".join(doubts), release_verified=release["verified"])
    return row


def build_cuda(name: str) -> str:
    """The CUDA of a build by its name: "12.6" for "cu126"."""
    return f"{name[2:-1]}.{name[-1]}"


def _tensorflows(matrix: dict[str, Any]) -> list[Candidate]:
    return [
        Candidate(
            "tensorflow",
            "TensorFlow " + release,
            {"tensorflow": release},
            () if release == row["releases"][-1] and not row.get("unlisted") else ("tensorflow",),
            row,
        )
        for _series, row in sorted(matrix["tensorflow"].items())
        for release in row["releases"]
    ]


def as_sentence(text: str) -> str:
    """The text with a capital letter, except for a name that is written without one."""
    return text if text.startswith("cuDNN") else text[:1].upper() + text[1:]


def accepts(pin: str, value: str, candidate: Candidate) -> bool:
    """Whether a candidate is what the pin asks for; a pin says nothing about candidates of another kind."""
    if pin not in candidate.pins:
        return True
    if value.startswith(AT_LEAST):
        return version_key(candidate.pins[pin]) >= version_key(value[len(AT_LEAST) :])
    if pin in SERIES_PINS:
        return is_part_of(candidate.pins[pin], value)
    return candidate.pins[pin] == value


def is_from_pypi(pytorch: Candidate) -> bool:
    """Whether a PyTorch is one that PyPI itself serves, and whose row was verified."""
    return pytorch.row["index"] == PYPI and pytorch.row["verified"]


def has_ended(row: dict[str, Any], as_of: str) -> bool:
    """Whether a row's last month of updates (YYYY-MM) is before the day `as_of` (YYYY-MM-DD)."""
    return row.get("status") == "eol" or (row["eol"] != "" and as_of[: len(row["eol"])] > row["eol"])


def short_support(row: dict[str, Any], as_of: str, margin: int) -> str:
    """Why a driver branch is not one to begin with, as the end of a sentence; "" if it is supported for long enough.

    margin  months of updates that are enough, counted from the day `as_of`
    """
    if row.get("status") == "new-feature" and not row["eol"]:
        return "is a new feature branch, which is short-lived: NVIDIA names no end of its updates"
    if row["eol"] and _months(row["eol"]) - _months(as_of) < margin:
        return f"has updates until {row['eol']} alone"
    return ""


def _months(day: str) -> int:
    year, month = day.split("-")[:2]
    return int(year) * 12 + int(month)
