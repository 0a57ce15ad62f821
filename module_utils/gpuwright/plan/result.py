# SPDX-License-Identifier: Apache-2.0
"""Write a found combination down as the plan of docs/architecture.md: what is installed, from where and where to."""

import collections

from ..host.versions import is_part_of, major
from .candidates import CPU_BUILD, DISTRIBUTION, KINDS
from .input import only_planned
from .reasons import choice_reason, find_warnings
from .rules import fits_dcgm

SCHEMA = 1
# Where a cuDNN that no package brings is put: include/ and lib/ below a folder of its version.
CUDNN_FOLDER = "/opt/gpuwright/cudnn/"
# The guards of a driver, as the plan announces them.
MODULE_STREAM = "dnf's module stream {}"
VERSION_LOCK = "a version lock, which dnf and dnf-automatic honour"
PREFERENCE = "apt's preference for {}"
UNATTENDED = "a list of packages that unattended-upgrades leaves alone"
HOLD = "a hold of its packages at their version"


def describe(matrix, host, release, problem, facts, answer):
    """The plan for `answer` (`{kind: Candidate}`); `release` is the host's row of os_releases."""
    family = _for_machine(matrix["os_families"][release["family"]], host["machine"])
    family = _family_at_place(family, answer.get("driver"))
    pytorch = answer["pytorch"].pins
    python = answer["python"]
    plan = collections.OrderedDict()
    plan["schema"] = SCHEMA
    plan["profile"] = ""
    plan["driver"] = _driver(family, host, answer.get("driver"))
    plan["guards"] = _guards(family, host, answer.get("driver"))
    plan["kernel"] = _kernel(family, host, answer.get("driver"))
    plan["cuda"] = _cuda(family, answer.get("cuda"))
    plan["cudnn"] = _cudnn(family, answer.get("cudnn"))
    plan["nccl"] = _nccl(family, answer.get("nccl"))
    plan["dcgm"] = _dcgm(matrix, facts, answer.get("driver"))
    plan["python"] = {
        "version": python.pins["python"],
        "packages": list(python.row["packages"]),
        "executable": python.row["executable"],
    }
    tensorflow = answer["tensorflow"].pins["tensorflow"] if "tensorflow" in answer else ""
    lock = lock_name(python.pins["python"], pytorch["pytorch"], pytorch["pytorch_build"], tensorflow)
    plan["pytorch"] = {
        "version": pytorch["pytorch"],
        "build": pytorch["pytorch_build"],
        "lock": lock,
        # The wheels in a lock file are of the processor that is installed on.
        "locked": host["machine"] == matrix["machine"] and lock in matrix.get("locks", [lock]),
        "index_url": _index_url(matrix, answer["pytorch"]),
    }
    plan["tensorflow"] = {
        "version": tensorflow,
        "cuda_from_pip": bool(tensorflow) and answer["tensorflow"].row["from_pip"],
    }
    plan["repositories"] = dict(family["repositories"])
    plan["amp"] = _amp(matrix, facts, answer["pytorch"])
    plan["runtime"] = dict(family["runtime"], packages=list(family["runtime"]["packages"]))
    plan["because"] = {kind: choice_reason(problem, facts, answer, kind) for kind in KINDS if kind in answer}
    plan["warnings"] = find_warnings(matrix["as_of"], host.get("today", ""), release, family, answer)
    if not plan["pytorch"]["locked"] and not only_planned(matrix, host, release):
        text = (
            "There is no lock file {}, and without one site.yml stops before it changes anything: make it "
            "(gpu-plan --json > plan.json; make lock PLAN=plan.json), or set framework_pytorch_allow_unlocked: true, "
            "and pip takes what the indexes offer on the day and checks no hashes"
        )
        plan["warnings"].append(text.format(lock))
    return plan


def _for_machine(family, machine):
    """The family's row with NVIDIA's repository for another processor than x86_64, whose folder is called sbsa."""
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
    return dict(family, cuda_repository=repository, repositories=names, runtime=runtime)


def _has_streams(family):
    return family["format"] == "rpm" and family.get("streams", True)


def _family_at_place(family, driver):
    """The family's row with the names of the place from which the driver comes."""
    if driver is None or driver.pins["driver_source"] != DISTRIBUTION:
        return dict(family, distribution=None)
    return dict(family, **dict(family["distribution"], distribution=family["distribution"], source=family["source"]))


def lock_name(python, pytorch, build, tensorflow=""):
    """The lock file of an environment with these versions; `tensorflow` is "" where there is none."""
    ending = "-tf" + tensorflow if tensorflow else ""
    return "py{}-torch{}-{}{}.txt".format(python, pytorch, build, ending)


def requirements(plan, packages, environment_packages):
    """What pip is asked for, as lines of a requirements file: what a lock is made from, or what is installed without.

    packages              of the profile            environment_packages  that the trainer needs besides
    """
    version, build, index = (plan["pytorch"][key] for key in ("version", "build", "index_url"))
    lines = ["torch=={}{}".format(version, "+" + build if index and build != CPU_BUILD else "")]
    if plan["tensorflow"]["version"]:
        extra = "[and-cuda]" if plan["tensorflow"]["cuda_from_pip"] else ""
        lines.append("tensorflow{}=={}".format(extra, plan["tensorflow"]["version"]))
    return lines + list(packages) + list(environment_packages)


def _driver(family, host, driver):
    if driver is None:
        # Nothing to install: what is wanted is there.
        texts = dict.fromkeys(("branch", "flavour", "source", "stream", "module", "version"), "")
        lists = {name: [] for name in ("components", "packages", "version_lock", "switch_removes")}
        return dict(texts, present=True, repository={}, preference={"package": "", "version": ""}, **lists)
    version = driver.pins["driver_version"]
    flavour = family["flavours"][driver.pins["driver_flavour"]]
    names = family["driver_packages"][driver.row["packages"]]
    branch = driver.pins["driver_branch"]
    archive = family["distribution"]
    install = [name.format(branch=branch) for name in [flavour["package"]] + names["install"]]
    libraries = [name.format(branch=branch) for name in names["libraries"]]
    suite = [] if archive else family["driver_names"].split()
    return {
        "branch": driver.pins["driver_branch"],
        "flavour": driver.pins["driver_flavour"],
        "source": driver.pins["driver_source"],
        "repository": {} if archive else dict(family["cuda_repository"]),
        "components": list(archive["components"]) if archive else [],
        "preference": _preference(family, branch, version),
        "stream": driver.row["stream"] if _has_streams(family) else "",
        "module": flavour["module"],
        "version": version,
        "present": is_driver_present(host, driver),
        "packages": _at_version(family, install, version, branch),
        # From NVIDIA's one suite whatever is installed of the driver.
        "version_lock": suite or _at_version(family, install + libraries, version),
        "switch_removes": list(family["switch_removes"]),
    }


def _guards(family, host, driver):
    """What keeps the driver from being replaced by accident, in words (`driver`); none where the inventory says never.

    `driver_guards` of the host: `{guards: auto | never, hold: whether it is held even then}`; auto where missing.
    `own_versions`: packages of the driver whose version is their own.
    """
    wish = host.get("driver_guards") or {}
    archive = family["distribution"] if driver else None
    own = list(archive["own_versions"]) if archive else []
    words = []
    if driver is not None:
        hold = [VERSION_LOCK if family["format"] == "rpm" else HOLD]
        if wish.get("guards", "auto") != "never":
            words = _guard_words(family, driver) + hold
        elif wish.get("hold"):
            words = hold
    return {"driver": words, "own_versions": own}


def _guard_words(family, driver):
    branch, version = driver.pins["driver_branch"], driver.pins["driver_version"]
    by_rpm = family["format"] == "rpm"
    guards = [MODULE_STREAM.format(driver.row["stream"])] if _has_streams(family) else []
    if not by_rpm and _preference(family, branch, version)["version"]:
        guards.append(PREFERENCE.format(version or branch))
    return guards + ([] if by_rpm else [UNATTENDED])


def _preference(family, branch, version):
    """Packages and version of the apt preference that keeps to the planned driver; empty where none is needed."""
    if family["distribution"]:
        # Its names have the branch. Packages of one source demand each other at one version.
        source = "src:" + family["distribution"]["source_package"].format(branch=branch)
        return {"package": source if version else "", "version": version + "-*" if version else ""}
    names = family["driver_names"]
    return {"package": names, "version": _deb_pattern(branch, version) if names else ""}


def _deb_pattern(branch, version):
    """The versions, in any revision of the packager, that are the exact one or of the branch."""
    return version + "-*" if version else branch + ".*"


def _at_version(family, names, version, branch=""):
    """name-version is what dnf and rpm both understand; rpm knows no epoch in a question. apt takes any revision.

    `branch`: without an exact version, the one that a package must be of where its name does not say so.
    """
    archive = family["distribution"] or {}
    if family["format"] == "deb" and not archive and (version or branch):
        return ["{}={}".format(name, _deb_pattern(branch, version)) for name in names]
    pattern = "{}-{}" if family["format"] == "rpm" else "{}={}-*"
    return [
        pattern.format(name, version) if version and name not in archive.get("own_versions", ()) else name
        for name in names
    ]


def _kernels(host):
    """The kernels for which a module is needed: the running one, and the one that boots next where it is another.

    Or `kernel_target` alone, where the host is made into an image that another kernel will boot.
    """
    kernel = host["kernel"]
    if host.get("kernel_target"):
        return [host["kernel_target"]]
    return list(collections.OrderedDict.fromkeys(name for name in (kernel["running"], kernel["next_boot"]) if name))


def is_driver_present(host, driver):
    """Whether the planned driver is on the node and at work already, whoever installed it.

    Libraries, loaded module, and the module files of every kernel that may boot must be of one version, of the planned
    flavour, and of the planned branch or exact version; and nvidia-smi must be there.
    """
    nvidia = host.get("nvidia") or {}
    user_space = nvidia.get("user_space") or ""
    exact = driver.pins["driver_version"]
    fits = user_space == exact if exact else is_part_of(user_space, driver.pins["driver_branch"])
    modules = [(nvidia.get("modules") or {}).get(kernel) for kernel in _kernels(host)]
    # An image that is being made loads nothing.
    modules += [] if host.get("kernel_target") else [nvidia.get("loaded")]
    wanted = (user_space, driver.pins["driver_flavour"])
    if not (fits and nvidia.get("nvidia_smi")):
        return False
    return all(module and (module["version"], module["flavour"]) == wanted for module in modules)


def _kernel(family, host, driver):
    if driver is None:
        return {"releases": [], "packages": [], "devel": [], "image": [], "hold": []}
    releases, row = _kernels(host), family["kernel"]
    devel = [row["devel_prefix"] + name for name in releases]
    lists = {name: list(row[name]) for name in ("packages", "image", "hold")}
    return dict(lists, releases=releases, devel=devel)


def _cuda(family, cuda):
    if cuda is None:
        return {"version": "", "package": "", "compiler": [], "prefix": "", "link": ""}
    version = cuda.pins["cuda"]
    if family["distribution"]:
        # In the system's own folders, where a link to them would lead every search of /usr/local in a circle.
        names = {"package": family["cuda"][version], "compiler": list(family["cuda_compiler"])}
        return dict(names, version=version, prefix=family["cuda_prefix"], link="")
    package = family["cuda_package_prefix"] + version.replace(".", "-")
    prefix = family["cuda_prefix"] + version
    # NVIDIA's packages demand a compiler themselves.
    return {"version": version, "package": package, "compiler": [], "prefix": prefix, "link": "/usr/local/cuda"}


def _cudnn(family, cudnn):
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
    packages = _library(family, "cudnn" + major(version), cudnn.row["package_version"], cudnn.row)
    return {"version": version, "packages": packages, "wheel": "", "prefix": "", "header": family["cudnn_header"]}


def _nccl(family, nccl):
    if nccl is None:
        return {"version": "", "packages": []}
    version = nccl.row["version"]
    return {"version": version, "packages": _library(family, "nccl", version, nccl.row)}


def _library(family, name, version, row):
    patterns = family["libraries"][name]
    return [pattern.format(version=version, cuda=row["built_for"], major=row["cuda_major"]) for pattern in patterns]


def _dcgm(matrix, facts, driver):
    """What monitors these GPUs under this driver: no part of the search, as nothing is given up for it."""
    architectures = [fact.value.architecture for fact in facts if fact.kind == "gpu"]
    for row in matrix["dcgm"] if driver else []:
        if fits_dcgm(row, architectures, driver):
            return {name: row[name] for name in ("version", "packages", "exporter")}
    return {"version": "", "packages": [], "exporter": []}


def _index_url(matrix, pytorch):
    """Empty where PyPI itself serves the build: then the node's own pip configuration and its mirrors do."""
    return "" if pytorch.row["index"] == "pypi" else matrix["pytorch_index"]["url"] + pytorch.pins["pytorch_build"]


def _amp(matrix, facts, pytorch):
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
