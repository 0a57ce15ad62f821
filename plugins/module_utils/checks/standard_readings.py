# SPDX-License-Identifier: Apache-2.0
"""The readings from level standard on, which take longer than a timer may: from the toolkit to the trainer's files."""

from typing import Any, Dict, Optional

from ..host.access import read_unsafe_files
from ..host.files import names_in
from ..probe.host import ask
from ..readings.software import (
    read_environment_stamp,
    read_venv,
    who_computes,
)
from ..verdict.check import STANDARD
from ..verdict.reader import ALWAYS, WITHOUT_CARDS, Reader, Seen
from ..verdict.reading_sources import by_hand
from ..verdict.report import Record
from .driver.initramfs import read_initramfs
from .driver.packages_reading import read_driver_packages

PROGRAM_FOLDER = "/usr/local/bin"
LAUNCHER = PROGRAM_FOLDER + "/gpu-run"
# Files that only root may change, because root or every training run uses them.
ROOT_ONLY = ("/opt/gpuwright", "/usr/local/lib/gpuwright", "/etc/gpuwright", LAUNCHER, PROGRAM_FOLDER + "/gpu-doctor")


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


def major(version: str) -> str:
    return version.split(".")[0]


def read_permissions(root: str) -> Dict[str, Any]:
    programs = [PROGRAM_FOLDER + "/" + name for name in names_in(root, PROGRAM_FOLDER) if name.startswith("gpu-")]
    return read_unsafe_files(root, sorted(set(ROOT_ONLY).union(programs)))


def read_own_venv(seen: Seen) -> Any:
    busy = who_computes(seen.probe, seen.nvidia_smi)
    return read_venv(seen.root, seen.expectations["venv"], seen.expectations["training_user"], busy)


def _read_locks(seen: Seen) -> Any:
    from ..packages.locks import read_package_locks

    return read_package_locks(seen.root)


def _read_bench(seen: Seen) -> Any:
    from ..training.bench import read_bench

    return read_bench(seen.root, seen.expectations)


def _read_environment(seen: Seen) -> Any:
    from ..training.environment_files import read_environment

    return read_environment(seen.root, seen.expectations["venv"])


READERS = (
    Reader(
        name="stamp",
        level=STANDARD,
        read=lambda seen: read_environment_stamp(seen.root, seen.expectations["venv"]),
        source=by_hand("gpuwright.json of the environment", "cat /opt/gpuwright/venvs/current/gpuwright.json"),
        scanned=False,
    ),
    Reader(
        name="locks",
        level=STANDARD,
        read=_read_locks,
        source=by_hand("dnf's version locks", "dnf versionlock list ; dnf module list --enabled"),
        scanned=False,
    ),
    Reader(
        name="bench",
        level=STANDARD,
        read=_read_bench,
        source=by_hand("bench/bench.json of the runs", "train-gan bench --help"),
        scanned=False,
    ),
    Reader(
        name="venv",
        level=STANDARD,
        read=read_own_venv,
        source=by_hand(
            "Python in /opt/gpuwright/venvs/current",
            "/opt/gpuwright/venvs/current/bin/python -c 'import torch, numpy, gan_trainer'",
        ),
        ahead=WITHOUT_CARDS,
        scanned=False,
    ),
    Reader(
        name="environment",
        level=STANDARD,
        read=_read_environment,
        source=by_hand("/opt/gpuwright/venvs/current", "ls -lL /opt/gpuwright/venvs/current"),
        ahead=ALWAYS,
        scanned=False,
    ),
    Reader(
        name="permissions",
        level=STANDARD,
        read=lambda seen: read_permissions(seen.root),
        source=by_hand("/opt/gpuwright and /usr/local/lib/gpuwright", "ls -ld /opt/gpuwright /etc/gpuwright"),
        ahead=ALWAYS,
        scanned=False,
    ),
    Reader(
        name="driver_packages",
        level=STANDARD,
        read=lambda seen: read_packages(seen.root, seen.probe),
        source=by_hand("rpm or dpkg", "rpm -qa '*nvidia*' || dpkg -l '*nvidia*'"),
        ahead=ALWAYS,
    ),
    Reader(
        name="initramfs",
        level=STANDARD,
        read=lambda seen: read_next_initramfs(seen.root, seen.probe),
        source=by_hand("the initramfs", "lsinitrd | head || lsinitramfs /boot/initrd.img-$(uname -r) | head"),
    ),
)
