# SPDX-License-Identifier: Apache-2.0
"""The readings from level standard on, which take longer than a timer may: from the toolkit to the trainer's files."""

from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..host.access import read_account, read_file, read_password_state, read_unsafe_files
from ..host.files import names_in
from ..launch.calibration.chosen import calibrated_arm
from ..launch.preload import PACKAGES, check_library
from ..launch.runtime_policy import LaunchError, load_policy
from ..packages.locks import read_package_locks
from ..probe.host import ask
from ..readings.attempt import attempt, for_root
from ..readings.links import read_infiniband, read_nvlink, read_ways
from ..readings.software import (
    LIBRARY_FOLDERS,
    read_cudnn_of_wheel,
    read_header_version,
    read_library_version,
    read_link,
    read_nvcc_version,
    read_stamp,
    read_toolkit_version_file,
    read_venv,
)
from ..training.bench import read_bench
from ..training.environment_files import read_environment
from ..verdict.report import Record
from .driver.initramfs import read_initramfs
from .driver.packages_reading import read_driver_packages
from .gpu.isolation_reading import read_isolation, read_machine
from .host.services_reading import read_services

NOTHING = {}  # type: Dict[str, Any]
PROGRAM_FOLDER = "/usr/local/bin"
LAUNCHER = PROGRAM_FOLDER + "/gpu-run"
# Files that only root may change, because root or every training run uses them.
ROOT_ONLY = ("/opt/gpuwright", "/usr/local/lib/gpuwright", "/etc/gpuwright", LAUNCHER, PROGRAM_FOLDER + "/gpu-doctor")


def collect_software(
    expectations: Record, root: str, host: Record, busy: Sequence[str] = (), ahead: Mapping[str, Any] = NOTHING
) -> Dict[str, Any]:
    """Everything above the driver, from the toolkit to the trainer's files.

    busy   who is computing on the cards
    ahead  readings that have been taken already
    """
    plan = expectations["plan"]
    found = {
        "training_user": attempt(read_training_user, root, expectations["training_user"]),
        "cuda": attempt(read_cuda, root, plan),
        "cudnn": attempt(read_cudnn, root, plan, expectations["training_user"]),
        "nccl": attempt(read_nccl, root, plan),
        "allocators": attempt(read_allocators, root, plan),
        "launcher": attempt(read_launcher, root),
        "stamp": attempt(read_stamp, root, expectations["venv"]),
        "services": attempt(read_services, root, expectations.get("services", [])),
        "locks": attempt(read_package_locks, root),
        "bench": attempt(read_bench, root, expectations),
    }
    slow = {
        "venv": (read_venv, root, expectations["venv"], expectations["training_user"], busy),
        "environment": (read_environment, root, expectations["venv"]),
        "permissions": (read_permissions, root),
    }  # type: Dict[str, Any]
    found.update({name: ahead[name] if name in ahead else attempt(*how) for name, how in slow.items()})
    return dict(found, **collect_host(root, host, ahead))


def collect_host(root: str, host: Record, ahead: Mapping[str, Any] = NOTHING) -> Dict[str, Any]:
    """Slow readings that also exist on a host that nobody has set up."""
    packages = "driver_packages"
    return {
        "infiniband": attempt(read_infiniband, root),
        packages: ahead[packages] if packages in ahead else attempt(read_packages, root, host),
        "initramfs": attempt(read_next_initramfs, root, host),
    }


def mig_indexes(nvidia_smi: Optional[Record]) -> List[int]:
    """Indexes, as nvidia-smi counts, of the cards in MIG mode."""
    gpus = (nvidia_smi or {}).get("gpus") or []
    return [index for index, gpu in enumerate(gpus) if gpu.get("mig_mode") == "Enabled"]


def collect_links(root: str, host: Record, nvidia_smi: Optional[Record] = None) -> Dict[str, Any]:
    """How the probe's GPUs are connected to each other; `nvidia_smi` is its answer, or why there is none."""
    if "unreadable" in host:
        return {name: {"unreadable": host["unreadable"]} for name in ("nvlink", "gpu_ways", "machine", "isolation")}
    return {
        "nvlink": attempt(read_nvlink, host["gpus"], mig_indexes(nvidia_smi)),
        "gpu_ways": attempt(read_ways, host["gpus"]),
        "machine": attempt(read_machine),
        "isolation": for_root(attempt(read_isolation, root, host["gpus"])),
    }


def read_training_user(root: str, name: str) -> Optional[Dict[str, Any]]:
    account = read_account(root, name)
    if account is None:
        return None
    return dict(account, password=attempt(read_password_state, root, name))


def read_packages(root: str, host: Record) -> Dict[str, Any]:
    if "unreadable" in host:
        raise ValueError(host["unreadable"])
    kernels = sorted({host["kernel"]["running"], host["kernel"]["next_boot"]})
    family = (host.get("os") or {}).get("family")
    return read_driver_packages(root, family, ask, kernels, host["nvidia"]["dkms"])


def read_next_initramfs(root: str, host: Record) -> Optional[Dict[str, Optional[str]]]:
    if "unreadable" in host:
        raise ValueError(host["unreadable"])
    return read_initramfs(root, host["kernel"]["next_boot"])


def read_cuda(root: str, plan: Record) -> Dict[str, Any]:
    """The version that the planned toolkit itself states, and where the usual link leads."""
    prefix = plan["cuda"]["prefix"]
    return {
        "version_file": attempt(read_toolkit_version_file, root, prefix),
        "nvcc": attempt(read_nvcc_version, root, prefix),
        "link": attempt(read_link, root, "/usr/local/cuda"),
        "prefix": attempt(read_link, root, prefix),
    }


def read_cudnn(root: str, plan: Record, user: str) -> Optional[Dict[str, Any]]:
    """cuDNN for programs that are compiled here (header) and for those that run here (library)."""
    wanted = plan["cudnn"]
    if not wanted["version"]:
        return None
    header = attempt(read_header_version, root, wanted["header"], "CUDNN")
    if wanted.get("wheel"):
        return {"header": header, "library": attempt(read_cudnn_of_wheel, root, wanted["prefix"], user)}
    folders = LIBRARY_FOLDERS + (plan["cuda"]["prefix"] + "/lib64",)
    library = attempt(read_library_version, root, "libcudnn", major(wanted["version"]), folders)
    return {"header": header, "library": library}


def read_nccl(root: str, plan: Record) -> Optional[Dict[str, Any]]:
    version = plan["nccl"]["version"]
    return {"library": attempt(read_library_version, root, "libnccl", major(version))} if version else None


def major(version: str) -> str:
    return version.split(".")[0]


def read_allocators(root: str, plan: Record) -> Dict[str, Any]:
    """`{name: {path, problem}}` of the allocator libraries that the plan names, by the launcher's own test."""
    paths = {name: plan["runtime"].get(name, "") for name in sorted(PACKAGES)}
    return {name: attempt(read_allocator, root, name, path) for name, path in paths.items() if path}


def read_allocator(root: str, name: str, path: str) -> Dict[str, str]:
    try:
        check_library(path, PACKAGES[name], root)
    except LaunchError as error:
        return {"path": path, "problem": str(error)}
    return {"path": path, "problem": "none"}


def read_launcher(root: str) -> Dict[str, Any]:
    """The launcher's file (null if it does not exist), whether it can read its policy, its allocator and why."""
    try:
        policy = load_policy(root)
    except LaunchError as error:
        return {"file": attempt(read_file, root, LAUNCHER), "policy": str(error), "allocator": None}
    name, why = policy["allocator"], "named by the policy"
    if name == "calibrated":
        arm = calibrated_arm(root)
        name, why = arm.allocator, arm.why
    chosen = {"name": "malloc" if name == "none" else name, "why": why}
    return {"file": attempt(read_file, root, LAUNCHER), "policy": "ok", "allocator": chosen}


def read_permissions(root: str) -> Dict[str, Any]:
    programs = [PROGRAM_FOLDER + "/" + name for name in names_in(root, PROGRAM_FOLDER) if name.startswith("gpu-")]
    return read_unsafe_files(root, sorted(set(ROOT_ONLY).union(programs)))
