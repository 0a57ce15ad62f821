"""Hold the matrix against the wheels: `make matrix-check`, on the index that pip is configured for.

Read are the requirements of every PyTorch that PyPI serves and of every TensorFlow, as pip reports them; no package is
installed. CUDA and cuDNN of PyTorch's rows must be the wheels', and the pairs that the plan names must be those whose
requirements agree. Exit status 0: all do, 1: what does not is printed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "module_utils"))
build_cuda = importlib.import_module("gpuwright.plan_candidates").build_cuda
MATRIX = REPOSITORY / "roles/preflight/files/matrix"
PLATFORMS = (
    "manylinux_2_28",
    "manylinux_2_27",
    "manylinux_2_17",
    "manylinux2014",
    "manylinux2010",
    "manylinux1",
    "linux",
)


def report(package: str, version: str, python: str, folder: Path) -> list[str]:
    """`Requires-Dist` of a wheel, from a report that lies in `folder` or is asked of pip. Raises CalledProcessError."""
    file = folder / f"{package}-{version}-{python}.json"
    if not file.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps"]
        command += [
            "--report",
            str(file),
            "--python-version",
            python,
            "--only-binary",
            ":all:",
            "--target",
            str(folder),
        ]
        command += [word for name in PLATFORMS for word in ("--platform", f"{name}_x86_64")]
        # A constraint or a folder of wheels of this machine is no part of the index.
        environment = {**os.environ, "PIP_CONSTRAINT": os.devnull, "PIP_FIND_LINKS": ""}
        subprocess.run([*command, f"{package}=={version}"], check=True, env=environment)
    return json.loads(file.read_text())["install"][0]["metadata"].get("requires_dist", [])


def requirements(lines: list[str], python: str, extra: str = "") -> dict[str, SpecifierSet]:
    """`{package: versions}` of what is demanded on 64-bit Linux; `extra` names an optional part."""
    here = {**default_environment(), "python_version": python, "python_full_version": python + ".0"}
    here |= {"platform_system": "Linux", "sys_platform": "linux", "platform_machine": "x86_64", "extra": extra}
    found: dict[str, SpecifierSet] = {}
    for line in map(Requirement, lines):
        if line.marker is None or line.marker.evaluate(here):
            name = line.name.lower().replace("_", "-")
            found[name] = found.get(name, SpecifierSet()) & line.specifier
    return found


def clash(one: dict[str, SpecifierSet], other: dict[str, SpecifierSet]) -> str:
    """The first package of which both demand versions that do not agree; "" where there is none."""
    for name in sorted(set(one) & set(other)):
        both = one[name] & other[name]
        candidates = {
            Version(item.version.rstrip(".*")) for item in both if "*" not in item.version or item.operator == "=="
        }
        # Where the demands meet, they meet at one of their bounds, just above it, or at the very beginning.
        near = {Version("0")} | candidates | {Version(f"{version}.1") for version in candidates}
        if not any(both.contains(version, prereleases=True) for version in near):
            return name
    return ""


def inside(demanded: dict[str, SpecifierSet], *names: str) -> str:
    """The version to which one of these packages is pinned, such as 9.10.2.21; "" where none is."""
    for name in names:
        pins = [item.version for item in demanded.get(name, ()) if item.operator == "=="]
        if pins:
            return pins[0]
    return ""


def torch_problems(release: str, build: dict[str, str], demanded: dict[str, SpecifierSet]) -> list[str]:
    """Where a wheel brings another CUDA or cuDNN than its row says."""
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
    """CUDA and cuDNN of the build of a series that PyPI serves."""
    name, build = next(item for item in row["builds"].items() if item[1].get("index") == "pypi")
    return {**build, "cuda": build_cuda(name)}


def rows(name: str) -> dict[str, Any]:
    return yaml.load((MATRIX / f"{name}.yml").read_text(), yaml.CSafeLoader)[name]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--reports", type=Path, help="folder that keeps pip's reports; those in it are not asked for again"
    )
    asked = parser.parse_args()
    problems, pairs, wheels = [], 0, 0
    with tempfile.TemporaryDirectory() as nowhere:
        folder = asked.reports or Path(nowhere)
        torches: dict[str, tuple[dict[str, Any], dict[str, SpecifierSet]]] = {}
        for row in rows("pytorch").values():
            python = "3.11" if "3.11" in row["pythons"] else "3.8"
            build = served_by_pypi(row)
            for release in row["releases"]:
                demanded = requirements(report("torch", release, python, folder), python)
                torches[release], wheels = (row, demanded), wheels + 1
                problems += torch_problems(release, build, demanded)
        for row in rows("tensorflow").values():
            python = "3.11" if "3.11" in row["pythons"] else "3.8"
            extra = "and-cuda" if row["from_pip"] else ""
            for release in row["releases"]:
                demanded = requirements(report("tensorflow", release, python, folder), python, extra)
                wheels += 1
                for torch, (torch_row, other) in torches.items():
                    if not set(row["pythons"]) & set(torch_row["pythons"]):
                        continue
                    pairs += 1
                    reason, below = clash(demanded, other), row["pytorch_below"]
                    if row["from_pip"]:
                        # Packages of another CUDA have other names, and lie in the same folders.
                        apart = served_by_pypi(torch_row)["cuda"].split(".")[0] != row["cuda"].split(".")[0]
                        named = torch in row["pytorch"]
                        wrong = named != (not reason and not apart)
                    else:
                        named = not (below and Version(torch) >= Version(below))
                        wrong = named and bool(reason)
                    if wrong:
                        says = f"they disagree about {reason}" if reason else "their requirements agree"
                        does = "names" if named else "refuses"
                        problems.append(f"tensorflow {release}, torch {torch}: the plan {does} the pair, and {says}")
    print(*problems, f"{wheels} wheels, {pairs} pairs, {len(problems)} problem(s)", sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
