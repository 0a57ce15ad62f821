"""NVIDIA's repository for the machine: the fleet's stand-ins, with a module that a real kernel loads.

Everything that is simulated comes to the node as a package of this repository, as NVIDIA's own packages would; the node
is told nothing else. The module is that of tests/vm; nvidia-smi is the fleet's, and knows the card that qemu shows.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import yaml
from gpuwright_fleet.debs import build_deb, make_apt_repository
from gpuwright_fleet.paths import DEBIAN_REPOSITORIES_FILE, FLEET_DIR
from gpuwright_fleet.repositories import export_key
from gpuwright_fleet.specs import Package, expand
from gpuwright_vm.stub import STUB

REPOSITORY = "cuda-debian12-x86_64"
BRANCH = "580"
KEY = "nvidia"
# The version that the module of tests/vm says, and its name there.
OLD_VERSION, OLD_NAME, NAME = "535.261.03", "nvidia-current", "nvidia"
GPU = {
    "pci": "0000:00:05.0",
    "device": "1db4",
    "name": "Tesla V100-PCIE-16GB",
    "uuid": "GPU-b1a4d150-0500-4f57-9c1e-0b1a40010001",
    "serial": "0320518014101",
    "numa_node": -1,
}
TMPFILES = "/usr/lib/tmpfiles.d/fleet.conf"
# Makes the device files by NVIDIA's numbers, as the real one does: the fleet's kernel, which makes them there, is
# simulated, and this machine's is not. Nobody opens them, as the module has no device behind them.
MODPROBE = """#!/bin/sh
[ -e /proc/driver/nvidia/version ] || { echo "nvidia-modprobe: the NVIDIA kernel module is not loaded" >&2; exit 1; }
node() { [ -e "/dev/$1" ] || mknod -m 666 "/dev/$1" c "$2" "$3"; }
case " $* " in *" -u "*) node nvidia-uvm 508 0 ;; esac
case " $* " in *" -c 0 "*) node nvidia0 195 0; node nvidiactl 195 255 ;; esac
"""


def build_repository(folder: Path) -> str:
    """The repository below `folder`, and its key at keys/RPM-GPG-KEY-nvidia; returns the key's fingerprint."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    data = yaml.safe_load(DEBIAN_REPOSITORIES_FILE.read_text())
    packages = [package for package in expand(data, os.uname().release) if package.repository == REPOSITORY]
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for package in packages:
            # The other branches' packages would be built for nothing.
            if package.words.get("BRANCH", BRANCH) == BRANCH:
                build_deb(changed(package), work / "no-twins", work, folder)
        fingerprint = export_key(work, KEY, folder)
        make_apt_repository(folder / REPOSITORY, "stand-ins for a virtual machine", work / KEY, fingerprint)
    return fingerprint


def changed(package: Package) -> Package:
    """The fleet's package, with what a machine of its own needs."""
    if package.name == "nvidia-kernel-dkms":
        source = f"/usr/src/{NAME}-{package.version}"
        files = {f"{source}/{path.name}": of_version(path.read_text(), package.version) for path in module_files()}
        return replace(package, tree="", files=files)
    if package.name == "nvidia-modprobe":
        path = "/usr/bin/nvidia-modprobe"
        return replace(package, tree="", files={path: MODPROBE}, post=f"chmod 0755 {path}\n")
    if package.name == "nvidia-driver-cuda":
        return replace(
            package,
            files={
                "/etc/fleet/hardware.json": json.dumps({"gpus": [GPU]}) + "\n",
                "/usr/libexec/fleet/fake-nvidia-smi": (FLEET_DIR / "fake-nvidia-smi").read_text(),
                TMPFILES: "d /run/fleet 0755 root root -\n",
            },
            links={"/usr/libexec/fleet/python": "/usr/bin/python3"},
            post=f"systemd-tmpfiles --create {TMPFILES}\n",
        )
    return package


def module_files() -> list[Path]:
    return sorted(path for path in (STUB / "source").iterdir() if path.is_file())


def of_version(text: str, version: str) -> str:
    """NVIDIA's own packages do not rename their modules as Debian's do."""
    return text.replace(OLD_VERSION, version).replace(OLD_NAME, NAME)
