# SPDX-License-Identifier: Apache-2.0
"""Everything that the checks look at, read once; what fails is `{"unreadable": "why"}` and never an exception."""

import os
import re

from .acknowledgements import read_acknowledgements
from .boot_check import read_moment
from .bounded import run_bounded
from .calibrated import calibrated_arm
from .confinement import read_confinement
from .hostfiles import names_in
from .initramfs import read_initramfs
from .kernel_log import read_kernel_log
from .nvidia_smi import DEFAULT_TIMEOUT_SECONDS, query
from .performance import read_performance
from .preload import PACKAGES, check_library
from .probe import ask, probe
from .readings_access import (
    read_account,
    read_device_access,
    read_device_links,
    read_file,
    read_password_state,
    read_unsafe_files,
)
from .readings_bench import read_bench
from .readings_containers import read_containers
from .readings_host import HOST_READERS, read_driver_files, read_switches
from .readings_isolation import read_isolation, read_machine
from .readings_links import read_infiniband, read_nvlink, read_ways
from .readings_locks import read_package_locks
from .readings_modules import read_asked, read_kernel_modules, read_parameters
from .readings_packages import read_driver_packages
from .readings_services import read_services
from .readings_signature import read_enforced, read_enrolled_keys, read_kernel_keys, read_module_signature
from .readings_software import (
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
from .readings_storage import read_disks
from .readings_tuning import read_tuning
from .runtime_policy import LaunchError, load_policy
from .strikes import read_strikes
from .verdict import DEEP, QUICK, STANDARD
from .xid_file import read_overrides

SYSTEMCTL_SECONDS = 10
# Level quick promises an answer within 5 s, also where nvidia-smi hangs.
QUICK_NVIDIA_SMI_SECONDS = 3
PROGRAM_FOLDER = "/usr/local/bin"
LAUNCHER = PROGRAM_FOLDER + "/gpu-run"
# What only root may change, because root runs it or every training does.
ROOT_ONLY = ("/opt/gpuwright", "/usr/local/lib/gpuwright", "/etc/gpuwright", LAUNCHER, PROGRAM_FOLDER + "/gpu-doctor")


def attempt(read, *arguments):
    """The reading, or `{"unreadable": "why"}`: on a broken node anything may go wrong, nothing may stop the rest."""
    try:
        return read(*arguments)
    except PermissionError as error:
        return unreadable_for_users(str(error))
    except (OSError, ValueError) as error:
        return {"unreadable": str(error) or type(error).__name__}
    except Exception as error:
        return {"unreadable": "{}: {}".format(type(error).__name__, error)}


def unreadable_for_users(why):
    """What an ordinary user could not read says that root can; for root it is as unreadable as anything."""
    return {"unreadable": why} if os.geteuid() == 0 else {"unreadable": why, "only_root": True}


def for_root(reading):
    """The reading, every unreadable value in it marked as one that needs root, for programs that do not say so."""
    if isinstance(reading, dict):
        if "unreadable" in reading:
            return unreadable_for_users(reading["unreadable"])
        return {name: for_root(value) for name, value in reading.items()}
    return [for_root(value) for value in reading] if isinstance(reading, list) else reading


def collect(expectations, root="/", nvidia_smi_seconds=DEFAULT_TIMEOUT_SECONDS, level=STANDARD):
    """Read the node below `root`. `expectations` (see docs/architecture.md) says where to look, not what to find.

    At level quick the readings that take long are left out: toolkit, libraries, venv, permissions. At level deep the
    speed of the GPUs is measured last, when nothing else of these readings uses them.

    `nvidia_smi_seconds` is how long nvidia-smi may take. Null stands for "it is not there", which is a finding and
    not a failure to read.
    """
    user = expectations["trainer_user"]
    host = attempt(probe, root)
    readings = {
        "probe": host,
        "nvidia_smi": attempt(query, nvidia_smi_seconds),
        "kernel_log": for_root(attempt(read_kernel_log, root)),
        "xid_policy": attempt(read_overrides, root),
        "persistenced": attempt(read_unit_state, "nvidia-persistenced"),
        "fabric_manager": attempt(read_unit_state, "nvidia-fabricmanager"),
        "fabric_manager_version": attempt(read_fabric_version),
        "switches": attempt(read_switches, root),
        "driver_files": attempt(read_driver_files, root),
        "host": {name: attempt(read, root) for name, read in HOST_READERS},
        "device_nodes": attempt(read_device_nodes, root, host, user),
        "device_links": attempt(read_links_of_nodes, root, host),
        "parameters": {"asked": attempt(read_asked, root), "loaded": attempt(read_parameters, root)},
        "kernel_modules": attempt(read_kernel_modules, root, expectations.get("modules", [])),
        "tuning": attempt(read_tuning, root),
        "containers": attempt(read_containers, root),
        "confinement": attempt(read_confinement, root),
        "module_signature": attempt(read_signature, root, host),
        "moment": attempt(read_moment, root),
        "acknowledgements": attempt(read_acknowledgements, root),
        "strikes": attempt(read_strikes, root),
    }
    if level == QUICK:
        return readings
    readings.update(collect_software(expectations, root, host))
    readings.update(collect_links(root, host, readings["nvidia_smi"]))
    if level == DEEP:
        readings["performance"] = attempt(read_performance, root, expectations, readings["nvidia_smi"])
    return readings


def collect_software(expectations, root, host):
    """What lies above the driver, from the toolkit to the trainer's files."""
    plan = expectations["plan"]
    return {
        "trainer_user": attempt(read_trainer_user, root, expectations["trainer_user"]),
        "cuda": attempt(read_cuda, root, plan),
        "cudnn": attempt(read_cudnn, root, plan, expectations["trainer_user"]),
        "nccl": attempt(read_nccl, root, plan),
        "allocators": attempt(read_allocators, root, plan),
        "launcher": attempt(read_launcher, root),
        "venv": attempt(read_venv, root, expectations["venv"], expectations["trainer_user"]),
        "stamp": attempt(read_stamp, root, expectations["venv"]),
        "permissions": attempt(read_permissions, root),
        "infiniband": attempt(read_infiniband, root),
        "disks": for_root(attempt(read_disks, root)),
        "services": attempt(read_services, root, expectations.get("services", [])),
        "locks": attempt(read_package_locks, root),
        "driver_packages": attempt(read_packages, root, host),
        "initramfs": attempt(read_next_initramfs, root, host),
        "bench": attempt(read_bench, root, expectations),
    }


def mig_indexes(nvidia_smi):
    """Indexes, as nvidia-smi counts, of the cards in MIG mode."""
    gpus = (nvidia_smi or {}).get("gpus") or []
    return [index for index, gpu in enumerate(gpus) if gpu.get("mig_mode") == "Enabled"]


def collect_links(root, host, nvidia_smi=None):
    """How the GPUs of the probe are wired to each other; `nvidia_smi` is its answer, or why there is none."""
    if "unreadable" in host:
        return {name: {"unreadable": host["unreadable"]} for name in ("nvlink", "gpu_ways", "machine", "isolation")}
    return {
        "nvlink": attempt(read_nvlink, host["gpus"], mig_indexes(nvidia_smi)),
        "gpu_ways": attempt(read_ways, host["gpus"]),
        "machine": attempt(read_machine),
        "isolation": for_root(attempt(read_isolation, root, host["gpus"])),
    }


def read_unit_state(unit):
    """systemd's word for the unit: active, inactive, failed, activating or unknown."""
    done = run_bounded(["systemctl", "is-active", unit], timeout=SYSTEMCTL_SECONDS)
    word = done.stdout.strip()
    if done.rc is None or not word:
        raise OSError(done.problem or "systemctl is-active {} said nothing".format(unit))
    return word


def read_fabric_version():
    """The version of the installed nv-fabricmanager, null without one."""
    done = run_bounded(["nv-fabricmanager", "--version"], timeout=SYSTEMCTL_SECONDS)
    if done.missing:
        return None
    match = re.search(r"version is\s*:\s*([0-9][0-9.]*)", done.stdout)
    if done.rc != 0 or not match:
        raise OSError(done.problem or "nv-fabricmanager --version says {!r}".format(done.stdout.strip()[:200]))
    return match.group(1)


def read_trainer_user(root, name):
    account = read_account(root, name)
    if account is None:
        return None
    return dict(account, password=attempt(read_password_state, root, name))


def read_device_nodes(root, host, user):
    account = read_account(root, user)
    if account is None:
        raise ValueError("there is no user {} who could open them".format(user))
    if "unreadable" in host:
        raise ValueError(host["unreadable"])
    return read_device_access(root, host["nvidia"]["device_nodes"], account)


def read_signature(root, host):
    """`{enforced, file, enrolled, kernel}`; what is not needed where any module is taken is not asked for."""
    if "unreadable" in host:
        raise ValueError(host["unreadable"])
    enforced = read_enforced(root)
    if host["secure_boot"] != "enabled" and not enforced:
        return {"enforced": False, "file": None, "enrolled": [], "kernel": []}
    return {
        "enforced": enforced,
        "file": attempt(read_module_signature, root, ask, host["kernel"]["next_boot"]),
        "enrolled": attempt(read_enrolled_keys, ask),
        "kernel": attempt(read_kernel_keys, root),
    }


def read_packages(root, host):
    if "unreadable" in host:
        raise ValueError(host["unreadable"])
    kernels = sorted({host["kernel"]["running"], host["kernel"]["next_boot"]})
    return read_driver_packages(root, ask, kernels, host["nvidia"]["dkms"])


def read_next_initramfs(root, host):
    if "unreadable" in host:
        raise ValueError(host["unreadable"])
    return read_initramfs(root, host["kernel"]["next_boot"])


def read_links_of_nodes(root, host):
    if "unreadable" in host:
        raise ValueError(host["unreadable"])
    return read_device_links(root, host["nvidia"]["device_nodes"])


def read_cuda(root, plan):
    """The planned toolkit's own word on its version, and what the usual link leads to."""
    prefix = plan["cuda"]["prefix"]
    return {
        "version_file": attempt(read_toolkit_version_file, root, prefix),
        "nvcc": attempt(read_nvcc_version, root, prefix),
        "link": attempt(read_link, root, "/usr/local/cuda"),
        "prefix": attempt(read_link, root, prefix),
    }


def read_cudnn(root, plan, user):
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


def read_nccl(root, plan):
    version = plan["nccl"]["version"]
    return {"library": attempt(read_library_version, root, "libnccl", major(version))} if version else None


def major(version):
    return version.split(".")[0]


def read_allocators(root, plan):
    """`{name: {path, problem}}` of the allocator libraries that the plan names, by the launcher's own test."""
    paths = {name: plan["runtime"].get(name, "") for name in sorted(PACKAGES)}
    return {name: attempt(read_allocator, root, name, path) for name, path in paths.items() if path}


def read_allocator(root, name, path):
    try:
        check_library(path, PACKAGES[name], root)
    except LaunchError as error:
        return {"path": path, "problem": str(error)}
    return {"path": path, "problem": "none"}


def read_launcher(root):
    """The launcher's file (null when it is not there), whether it reads its policy, its allocator and why."""
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


def read_permissions(root):
    programs = [PROGRAM_FOLDER + "/" + name for name in names_in(root, PROGRAM_FOLDER) if name.startswith("gpu-")]
    return read_unsafe_files(root, sorted(set(ROOT_ONLY).union(programs)))
