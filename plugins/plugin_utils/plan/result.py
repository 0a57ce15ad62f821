# SPDX-License-Identifier: Apache-2.0
"""Write a combination as the plan of docs/parts/plan.md: what is installed, from where and where to."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import major

from .candidates import CPU_BUILD, DISTRIBUTION, KINDS, SITE, Candidate, Fact
from .driver_packages import (
    boot_kernels,
    driver_of,
    guards_of,
    kernel_of,
    kernel_warnings,
    platform_plan,
    site_names,
    with_signed_modules,
)
from .input import only_planned
from .kernels.signed import signed_names
from .machines.board_packages import names_of_all_branches, parts_of, platform_warnings
from .reasons import choice_reason, find_warnings
from .risks.builds import build_warnings
from .risks.compilers import HostCompiler, compiler_warnings, host_compiler
from .risks.holes import TO_LOCK
from .risks.neighbours import neighbours
from .rules import fits_dcgm
from .search import Problem

SCHEMA = 1
# Where a cuDNN that is in no package is put: include/ and lib/ below a folder named after its version.
CUDNN_FOLDER = "/opt/gpuwright/cudnn/"
# What a plan says about EPEL; empty if packages come from apt.
EPEL = ("title", "url", "key_url", "key_fingerprint")


def describe(
    matrix: dict[str, Any],
    host: dict[str, Any],
    release: dict[str, Any],
    problem: Problem,
    facts: list[Fact],
    answer: dict[str, Candidate],
) -> dict[str, Any]:
    """The plan for `answer` (`{kind: Candidate}`); `release` is the host's row of os_releases."""
    family = _for_machine(matrix["os_families"][release["family"]], host["machine"])
    family = _family_at_place(matrix, family, host, answer.get("driver"))
    pytorch, pytorch_row = answer["pytorch"].pins, answer["pytorch"].row
    python = answer["python"]
    plan: dict[str, Any] = {}
    plan["schema"] = SCHEMA
    plan["profile"] = ""
    driver = answer.get("driver")
    parts = parts_of(matrix, release, host, driver) if driver else []
    moved = names_of_all_branches(matrix, parts, family["format"])
    plan["driver"] = driver_of(family, host, driver, parts, moved)
    plan["driver_parts"] = matrix["driver_parts"]
    plan["platform"] = platform_plan(family, host, driver, parts)
    plan["guards"] = guards_of(family, host, answer.get("driver"))
    plan["kernel"] = kernel_of(matrix, family, host, answer.get("driver"))
    compiler = host_compiler(family, release, answer.get("cuda"), answer["pytorch"])
    plan["cuda"] = _cuda(family, answer.get("cuda"), compiler)
    plan["cudnn"] = _cudnn(family, answer.get("cudnn"))
    plan["nccl"] = _nccl(family, answer.get("nccl"))
    plan["dcgm"] = _dcgm(matrix, family, facts, answer.get("driver"))
    plan["python"] = {
        "version": python.pins["python"],
        # torch.compile builds code on the node, so its headers are of no use without a compiler.
        "packages": [*python.row["packages"], *family["compiler"]],
        "executable": python.row["executable"],
    }
    tensorflow = answer["tensorflow"].pins["tensorflow"] if "tensorflow" in answer else ""
    lock = lock_name(python.pins["python"], pytorch["pytorch"], pytorch["pytorch_build"], tensorflow)
    plan["pytorch"] = {
        "version": pytorch["pytorch"],
        "build": pytorch["pytorch_build"],
        "lock": lock,
        # The wheels in a lock file are for the processor on which they are installed.
        "locked": host["machine"] == matrix["machine"] and lock in matrix.get("locks", [lock]),
        "index_url": _index_url(matrix, answer["pytorch"]),
        "extensions": compiler.extensions,
        "limits": list(pytorch_row.get("limits", [])),
    }
    plan["tensorflow"] = {
        "version": tensorflow,
        # Beside a PyTorch for the processor, CUDA's libraries would be 3 GB of no use.
        "cuda_from_pip": bool(tensorflow)
        and answer["tensorflow"].row["from_pip"]
        and pytorch["pytorch_build"] != CPU_BUILD,
    }
    plan["repositories"] = dict(family["repositories"])
    plan["epel"] = {name: family.get("epel", {}).get(name, "") for name in EPEL}
    plan["amp"] = _amp(matrix, facts, answer["pytorch"])
    plan["runtime"] = dict(family["runtime"], packages=list(family["runtime"]["packages"]))
    plan["containers"] = {"packages": list(family["containers"])}
    today = host.get("today", "")
    plan["because"] = {kind: choice_reason(problem, facts, answer, kind, today) for kind in KINDS if kind in answer}
    plan["neighbours"] = neighbours(problem, facts, answer)
    plan["warnings"] = find_warnings(matrix, today, release, family, answer)
    plan["warnings"] += compiler_warnings(compiler, answer["pytorch"])
    present = plan["driver"]["present"] or plan["driver"]["signed"]
    plan["warnings"] += build_warnings(matrix, release, boot_kernels(host), answer.get("driver"), present)
    plan["warnings"] += platform_warnings(matrix, release, host, parts)
    plan["warnings"] += kernel_warnings(matrix, family, host, answer.get("driver"))
    if not plan["pytorch"]["locked"] and not only_planned(matrix, host, release):
        text = (
            "There is no lock file {}, and without one site.yml stops before it changes anything: make it where {} can "
            "be reached ({}), or set framework_pytorch_allow_unlocked: true, and pip takes what the indexes offer on "
            "the day and checks no hashes"
        )
        indexes = " and ".join(filter(None, ("PyPI", plan["pytorch"]["index_url"])))
        plan["warnings"].append(text.format(lock, indexes, TO_LOCK))
    return plan


def _for_machine(family: dict[str, Any], machine: str) -> dict[str, Any]:
    """The family's row with NVIDIA's repository for a processor other than x86_64, whose folder is called sbsa."""
    if machine == "x86_64":
        return family
    repository = {name: text.replace("x86_64", "sbsa") for name, text in family["cuda_repository"].items()}
    names = {
        name: {kind: text.replace("x86_64", machine) for kind, text in row.items()}
        for name, row in family["repositories"].items()
    }
    runtime = {
        name: text if name == "packages" else text.replace("x86_64", machine)
        for name, text in family["runtime"].items()
    }
    epel = {name: text.replace("x86_64", machine) for name, text in family.get("epel", {}).items()}
    return dict(family, cuda_repository=repository, repositories=names, runtime=runtime, epel=epel)


def _family_at_place(
    matrix: dict[str, Any], family: dict[str, Any], host: dict[str, Any], driver: Candidate | None
) -> dict[str, Any]:
    """The family's row with the names of the repository from which the driver comes."""
    if driver is not None and driver.pins["driver_source"] == SITE:
        return dict(family, distribution=None, **site_names(family, matrix["site_driver"]))
    if driver is None or driver.pins["driver_source"] != DISTRIBUTION:
        return dict(family, distribution=None)
    signed = signed_names(matrix, family, host, driver.pins, boot_kernels(host))
    archive = dict(family["distribution"], **family["distribution"]["drivers"][driver.pins["driver_branch"]])
    return with_signed_modules(dict(family, **dict(archive, distribution=archive, source=family["source"])), signed)


def lock_name(python: str, pytorch: str, build: str, tensorflow: str = "") -> str:
    """The lock file of an environment with these versions; `tensorflow` is "" if there is none."""
    ending = "-tf" + tensorflow if tensorflow else ""
    return f"py{python}-torch{pytorch}-{build}{ending}.txt"


def requirements(plan: dict[str, Any], packages: list[str], environment_packages: list[str]) -> list[str]:
    """Requests to pip, as lines of a requirements file: the input of a lock, or of an installation without one.

    packages              of the profile            environment_packages  that the trainer also needs
    """
    version, build, index = (plan["pytorch"][key] for key in ("version", "build", "index_url"))
    lines = ["torch=={}{}".format(version, "+" + build if index and build != CPU_BUILD else "")]
    if plan["tensorflow"]["version"]:
        extra = "[and-cuda]" if plan["tensorflow"]["cuda_from_pip"] else ""
        lines.append(f"tensorflow{extra}=={plan['tensorflow']['version']}")
    limits = plan["pytorch"]["limits"]
    return lines + [_limited(line, limits) for line in (*packages, *environment_packages)]


def _limited(line: str, limits: list[str]) -> str:
    """A request to pip with the limit of this PyTorch for the same package: "numpy>=1.22" becomes "numpy>=1.22,<2"."""
    name = re.split("[<>=!~]", line)[0]
    own = [limit[len(name) :] for limit in limits if re.split("[<>=!~]", limit)[0].lower() == name.lower()]
    return name + ",".join(filter(None, [line[len(name) :], *own]))


def _cuda(family: dict[str, Any], cuda: Candidate | None, compiler: HostCompiler) -> dict[str, Any]:
    if cuda is None:
        return {"version": "", "package": "", "compiler": [], "host_compiler": "", "prefix": "", "link": ""}
    version = cuda.pins["cuda"]
    if family["distribution"]:
        # In the system's own folders, where a link to them would make searches of /usr/local circular.
        names = {"package": family["cuda"][version], "compiler": list(family["cuda_compiler"]), "host_compiler": ""}
        return dict(names, version=version, prefix=family["cuda_prefix"], link="")
    package = family["cuda_package_prefix"] + version.replace(".", "-")
    prefix = family["cuda_prefix"] + version
    # NVIDIA's packages themselves require a compiler, which may not be one that PyTorch's extensions need.
    names = {"package": package, "compiler": compiler.packages, "host_compiler": compiler.executable}
    return dict(names, version=version, prefix=prefix, link="/usr/local/cuda")


def _cudnn(family: dict[str, Any], cudnn: Candidate | None) -> dict[str, Any]:
    if cudnn is None:
        return {"version": "", "packages": [], "wheel": "", "prefix": "", "header": ""}
    version = cudnn.row["version"]
    if family["distribution"]:
        prefix = CUDNN_FOLDER + version
        header = prefix + "/include/cudnn_version.h"
        return {
            "version": version,
            "packages": [],
            "wheel": family["cudnn"][version],
            "prefix": prefix,
            "header": header,
        }
    number = cudnn.row.get("package_pattern", cudnn.row["package_version"])
    packages = _library(family, "cudnn" + major(version), number, cudnn.row)
    return {"version": version, "packages": packages, "wheel": "", "prefix": "", "header": family["cudnn_header"]}


def _nccl(family: dict[str, Any], nccl: Candidate | None) -> dict[str, Any]:
    if nccl is None:
        return {"version": "", "packages": []}
    version = nccl.row["version"]
    packages = _library(family, "nccl", nccl.row.get("package_pattern", version), nccl.row)
    return {"version": version, "packages": packages}


def _library(family: dict[str, Any], name: str, version: str, row: dict[str, Any]) -> list[str]:
    patterns = family["libraries"][name]
    return [pattern.format(version=version, cuda=row["built_for"], major=row["cuda_major"]) for pattern in patterns]


def _dcgm(
    matrix: dict[str, Any], family: dict[str, Any], facts: list[Fact], driver: Candidate | None
) -> dict[str, Any]:
    """The DCGM for these GPUs under this driver; not part of the search, since nothing is given up for it."""
    architectures = [fact.value.architecture for fact in facts if fact.kind == "gpu"]
    for row in matrix["dcgm"] if family.get("dcgm", True) else ():
        if driver and fits_dcgm(row, architectures, driver):
            return {name: row[name] for name in ("version", "packages", "exporter")}
    return {"version": "", "packages": [], "exporter": []}


def _index_url(matrix: dict[str, Any], pytorch: Candidate) -> str:
    """Empty if the build is on PyPI itself: then the node's own pip configuration and its mirrors are used."""
    return "" if pytorch.row["index"] == "pypi" else matrix["pytorch_index"]["url"] + pytorch.pins["pytorch_build"]


def _amp(matrix: dict[str, Any], facts: list[Fact], pytorch: Candidate) -> dict[str, str]:
    if pytorch.pins["pytorch_build"] == CPU_BUILD:
        because = "the cpu build computes on the processor, where PyTorch's autocast uses bfloat16"
        return {"dtype": "bfloat16", "because": because}
    gpus = [fact.value for fact in facts if fact.kind == "gpu"]
    for gpu in gpus:
        if matrix["architectures"][gpu.architecture]["amp"] == "float16":
            because = "{} ({}) has no bfloat16 arithmetic: float16 with loss scaling"
            return {"dtype": "float16", "because": because.format(gpu.name, gpu.architecture)}
    if not gpus:
        return {"dtype": "float16", "because": "the GPU is unknown, and float16 runs on every GPU"}
    names = sorted({gpu.architecture for gpu in gpus})
    because = "{} computes in bfloat16, which has the range of float32 and needs no loss scaling"
    return {"dtype": "bfloat16", "because": because.format(" and ".join(names))}
