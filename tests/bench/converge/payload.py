"""What a finished host has beside the files of packages; the script and the stock role get the same to install."""

from __future__ import annotations

import json
import shlex
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from fleet_hosts import Fleet, podman

# Files that our run writes; what only records, plans or verifies is left out, as neither of the others does so.
PATHS = (
    *("/etc/gpuwright/runtime.json", "/etc/gpuwright/tuning.json", "/etc/gpuwright/train-gan/default.yml"),
    *("/etc/pki/rpm-gpg/RPM-GPG-KEY-cuda-rhel8-x86_64", "/etc/pki/rpm-gpg/RPM-GPG-KEY-epel"),
    *("/etc/yum.repos.d/cuda-rhel8-x86_64.repo", "/etc/yum.repos.d/epel.repo"),
    *("/etc/modules-load.d/gpuwright-nvidia.conf", "/etc/profile.d/gpuwright-cuda.sh"),
    "/etc/security/limits.d/95-gpuwright.conf",
    *("/etc/systemd/system/gpu-job@.service", "/etc/systemd/system/train-gan@.service"),
    "/etc/systemd/system/gpu-job@.service.d/50-gpuwright-limits.conf",
    "/etc/systemd/system/train-gan@.service.d/50-gpuwright-limits.conf",
    *("/etc/systemd/system/gpuwright-boot-check.service", "/etc/systemd/system/gpuwright-check.path"),
    *("/etc/systemd/system/gpuwright-check.service", "/etc/systemd/system/gpuwright-check.timer"),
    *("/etc/systemd/system/gpuwright-devices.service", "/etc/systemd/system/gpuwright-tuning.service"),
    *("/usr/local/bin/gpu-doctor", "/usr/local/bin/gpu-job", "/usr/local/bin/gpu-run", "/usr/local/bin/gpu-tune"),
    "/etc/dnf/plugins/versionlock.list",
)
LIBRARY = "/usr/local/lib/gpuwright"
TIMER = "etc/systemd/system/gpuwright-check.timer"
MINUTES = 5
LIST_PACKAGES = "rpm -qa --qf '%{NAME} %{VERSION}-%{RELEASE}\\n' | sort"


def packages_of(text: str) -> dict[str, str]:
    """Version of each package in LIST_PACKAGES' answer; keys and packages of several versions are left out."""
    rows = [line.split(" ", 1) for line in text.splitlines()]
    return {name: version for name, version in rows if name != "gpg-pubkey"}


def take(fleet: Fleet, before: str, folder: Path) -> None:
    """Write files/, values.json and values.sh; `before` is LIST_PACKAGES' answer of the bare host."""
    host = fleet.names[0]
    words = " ".join(map(shlex.quote, (*PATHS, LIBRARY)))
    venv = fleet.do(host, "readlink -f /opt/gpuwright/venvs/current").strip()
    beside = "*.whl gan_trainer.digest gpuwright.json lock.txt"
    fleet.do(
        host,
        f"rm -rf /var/tmp/p && mkdir -p /var/tmp/p/venv && cd {venv} && cp -p {beside} /var/tmp/p/venv"
        f" && tar -C / --exclude=__pycache__ -cf - {words} 2>/dev/null | tar -C /var/tmp/p -xf -",
    )
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as place:
        podman("cp", f"{fleet.container(host)}:/var/tmp/p", f"{place}/files")
        shutil.copytree(f"{place}/files", folder / "files")
    pack_library(folder)
    old, new = packages_of(before), packages_of(fleet.do(host, LIST_PACKAGES))
    added = sorted(f"{name}-{version}" for name, version in new.items() if name not in old)
    keys = fleet.do(host, "rpm -qa gpg-pubkey").split()
    stream = fleet.do(host, "sed -n 's/^stream=//p' /etc/dnf/modules.d/nvidia-driver.module").strip()
    user = fleet.do(host, "getent passwd trainer").strip().split(":")
    values: dict[str, Any] = {
        "packages": added,
        "keys": sorted(set(keys) - set(line for line in before.split() if line.startswith("gpg-pubkey"))),
        "stream": stream,
        "venv": venv,
        "comment": user[4],
        "paths": list(PATHS),
    }
    (folder / "values.json").write_text(json.dumps(values, indent=1))
    shell = {
        "PACKAGES": " ".join(added),
        "STREAM": stream,
        "VENV": venv,
        "COMMENT": user[4],
        "PATHS": " ".join(PATHS),
    }
    (folder / "values.sh").write_text("".join(f"{name}={shlex.quote(text)}\n" for name, text in shell.items()))


def pack_library(folder: Path) -> None:
    """The library as one archive: `copy` would send each of its files by three modules of its own."""
    with tarfile.open(folder / "library.tar.gz", "w:gz") as archive:
        archive.add(folder / "files" / LIBRARY.lstrip("/"), "gpuwright")


def parcel(folder: Path, script: Path, minutes: int, target: Path) -> None:
    """One archive for one ssh call: the script, its values and all files, with this interval of the check's timer."""
    with tempfile.TemporaryDirectory() as place:
        copied = Path(place, "files")
        shutil.copytree(folder / "files", copied)
        with_minutes(copied / TIMER, minutes)
        with tarfile.open(target, "w:gz") as archive:
            archive.add(copied, "files")
            archive.add(folder / "values.sh", "values.sh")
            archive.add(script, "bare.sh")


def with_minutes(timer: Path, minutes: int) -> None:
    """The timer's unit with another interval."""
    timer.write_text(
        timer.read_text()
        .replace(f"every {MINUTES} minutes", f"every {minutes} minutes")
        .replace(f"*:0/{MINUTES}", f"*:0/{minutes}")
    )
