"""Compare the matrix with the wheels: `make matrix-check`, on the index that pip is configured for.

It reads the requirements of every PyTorch on PyPI and of every TensorFlow in the metadata of their wheels; no package
is installed. CUDA and cuDNN of PyTorch's rows must be those of the wheels, and the pairs that the plan names must be
those whose requirements agree. Then it reads the lock files (tools/lock_check.py). Exit status 0: all agree, 1: the
differences are printed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "collections"), str(Path(__file__).parent)]
import lock_check
import pip_index
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.candidates import build_cuda

# Each waits for the index most of the time.
AT_ONCE = 16
MATRIX = REPOSITORY / "roles/preflight/files/matrix"


def requirements(lines: Iterable[str], python: str, extra: str = "") -> dict[str, SpecifierSet]:
    """`{package: versions}` that are required on 64-bit Linux; `extra` names an optional part."""
    here: dict[str, Any] = {**default_environment(), "python_version": python, "python_full_version": python + ".0"}
    here |= {"platform_system": "Linux", "sys_platform": "linux", "platform_machine": "x86_64", "extra": extra}
    found: dict[str, SpecifierSet] = {}
    for line in map(Requirement, lines):
        if line.marker is None or line.marker.evaluate(here):
            name = line.name.lower().replace("_", "-")
            found[name] = found.get(name, SpecifierSet()) & line.specifier
    return found


def clash(one: dict[str, SpecifierSet], other: dict[str, SpecifierSet]) -> str:
    """The first package for which the two require versions that do not agree; "" if there is none."""
    for name in sorted(set(one) & set(other)):
        both = one[name] & other[name]
        candidates = {
            Version(item.version.rstrip(".*")) for item in both if "*" not in item.version or item.operator == "=="
        }
        # If the requirements overlap, they do so at one of their bounds, just above it, or at the very beginning.
        near = {Version("0")} | candidates | {Version(f"{version}.1") for version in candidates}
        if not any(both.contains(version, prereleases=True) for version in near):
            return name
    return ""


def inside(demanded: dict[str, SpecifierSet], *names: str) -> str:
    """The version to which one of these packages is pinned, such as 9.10.2.21; "" if none is."""
    for name in names:
        pins = [item.version for item in demanded.get(name, ()) if item.operator == "=="]
        if pins:
            return pins[0]
    return ""


def torch_problems(release: str, build: dict[str, str], demanded: dict[str, SpecifierSet]) -> list[str]:
    """Wheels whose CUDA or cuDNN differs from their row."""
    number = build["cuda"].split(".")[0]
    wanted = {
        "cuda": inside(demanded, f"nvidia-cuda-runtime-cu{number}", "cuda-toolkit"),
        "cudnn": inside(demanded, f"nvidia-cudnn-cu{number}"),
    }
    return [
        f"torch {release} brings {name} {version}, and its row says {build.get(name)}"
        for name, version in wanted.items()
        if version and not version.startswith(build.get(name, "none") + ".") and version != build.get(name)
    ]


def served_by_pypi(row: dict[str, Any]) -> dict[str, str]:
    """CUDA and cuDNN of the build of a series that is on PyPI."""
    name, build = next(item for item in row["builds"].items() if item[1].get("index") == "pypi")
    return {**build, "cuda": build_cuda(name)}


def rows(name: str) -> dict[str, Any]:
    return yaml.load((MATRIX / f"{name}.yml").read_text(), yaml.CSafeLoader)[name]


Demands = dict[tuple[str, str], dict[str, SpecifierSet]]


def read_wheels(index: pip_index.Index) -> tuple[Demands, list[str]]:
    """What each wheel on PyPI requires, `{("torch", "2.10.0"): {package: versions}}`; and what was not read."""
    wanted = [("torch", release, row, "") for row in rows("pytorch").values() for release in row["releases"]]
    wanted += [
        ("tensorflow", release, row, "and-cuda" if row["from_pip"] else "")
        for row in rows("tensorflow").values()
        for release in row["releases"]
    ]

    def read(wheel: tuple[str, str, dict[str, Any], str]) -> dict[str, SpecifierSet] | str:
        package, release, row, extra = wheel
        python = "3.11" if "3.11" in row["pythons"] else "3.8"
        try:
            return requirements(index.wheel(package, release, python).requires, python, extra)
        except pip_index.NoAnswerError as error:
            return f"{package} {release} was not read: {error}"

    with ThreadPoolExecutor(AT_ONCE) as readers:
        answers = dict(zip(((wheel[0], wheel[1]) for wheel in wanted), readers.map(read, wanted), strict=True))
    missing = [answer for answer in answers.values() if isinstance(answer, str)]
    return {wheel: answer for wheel, answer in answers.items() if not isinstance(answer, str)}, missing


def pair_problem(torch: str, torch_row: dict[str, Any], tensorflow: str, row: dict[str, Any], wheels: Demands) -> str:
    """Pairs that the plan names but pip cannot install together, or that the plan refuses but pip can."""
    reason, below = clash(wheels["tensorflow", tensorflow], wheels["torch", torch]), row["pytorch_below"]
    if row["from_pip"]:
        # Packages of another CUDA have other names, but use the same folders.
        apart = served_by_pypi(torch_row)["cuda"].split(".")[0] != row["cuda"].split(".")[0]
        named = torch in row["pytorch"]
        wrong = named != (not reason and not apart)
    else:
        named = not (below and Version(torch) >= Version(below))
        wrong = named and bool(reason)
    says = f"they disagree about {reason}" if reason else "their requirements agree"
    does = "names" if named else "refuses"
    return f"tensorflow {tensorflow}, torch {torch}: the plan {does} the pair, and {says}" if wrong else ""


def main() -> int:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    index = pip_index.Index()
    wheels, problems = read_wheels(index)
    locks, wrong = lock_check.check_locks(index, AT_ONCE)
    torches = {release: row for row in rows("pytorch").values() for release in row["releases"]}
    tensorflows = {release: row for row in rows("tensorflow").values() for release in row["releases"]}
    for torch, row in torches.items():
        if ("torch", torch) in wheels:
            problems += torch_problems(torch, served_by_pypi(row), wheels["torch", torch])
    pairs = [
        (torch, torches[torch], tensorflow, tensorflows[tensorflow])
        for torch in torches
        for tensorflow in tensorflows
        if {("torch", torch), ("tensorflow", tensorflow)} <= set(wheels)
        and set(torches[torch]["pythons"]) & set(tensorflows[tensorflow]["pythons"])
    ]
    problems += [problem for pair in pairs if (problem := pair_problem(*pair, wheels))]
    problems += wrong
    count = f"{len(wheels)} wheels, {len(pairs)} pairs, {locks} lock files, {len(problems)} problem(s)"
    print(*problems, count, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
