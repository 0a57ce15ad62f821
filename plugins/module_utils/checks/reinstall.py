# SPDX-License-Identifier: Apache-2.0
"""The command that restores a file of an installed package; a plain install of what is installed changes nothing."""

from typing import List, Optional, Tuple

from ..verdict.evidence import Evidence

REINSTALL = {
    "rpm": "dnf reinstall -y $(rpm -qf {path})",
    # Diversions are listed like packages; if a file is an alternative, its own name has one more folder.
    "dpkg": "apt-get install -y --reinstall $(dpkg -S {name} | grep -v ^diversion | cut -d: -f1 | sort -u)",
}
FAMILIES = {"redhat": "rpm", "debian": "dpkg"}
# Packages with nvidia-smi, and with the libraries: NVIDIA's for RHEL, Debian's, Ubuntu's.
PROGRAM = ("nvidia-driver-cuda", "nvidia-smi", "nvidia-utils")
LIBRARIES = ("nvidia-driver-cuda-libs", "nvidia-driver-NVML", "libcuda1", "libnvidia-compute", "libnvidia-ml")
INSTALL = {"rpm": "dnf install -y {}", "dpkg": "apt-get install -y {}"}


def manager_of(readings: Evidence) -> str:
    """The package manager of this system; rpm if nothing shows it, since most nodes have that."""
    system = readings.value.get("probe")
    system = system.get("os") if isinstance(system, dict) else None
    if isinstance(system, dict) and system.get("family") in FAMILIES:
        return FAMILIES[system["family"]]
    known = readings.value.get("driver_packages")
    return known["manager"] if isinstance(known, dict) and known.get("manager") in REINSTALL else "rpm"


def packages_of(readings: Evidence) -> Optional[List[str]]:
    """Names of the driver's packages that are installed; None if they were not read."""
    known = readings.value.get("driver_packages")
    if not isinstance(known, dict) or "packages" not in known:
        return None
    return [package.text("name") for package in readings.each("driver_packages", "packages")]


def reinstall(readings: Evidence, path: str, tags: str, packages: Tuple[str, ...] = ()) -> str:
    """The action for a file of a package that is missing or was changed; `tags` install what no package has.

    `packages` are the beginnings of the names of the driver's packages that have the file: without any of them, nothing
    can be reinstalled.
    """
    there = packages_of(readings) if packages else None
    if there is not None and not any(name.startswith(packages) for name in there):
        return f"Run: ansible-playbook site.yml --tags {tags}"
    command = REINSTALL[manager_of(readings)].format(path=path, name=path.rsplit("/", 2)[-1])
    return f"Run: {command} ; where no package has it: ansible-playbook site.yml --tags {tags}"


def install(readings: Evidence, package: str) -> str:
    """The action for a package of the driver that is missing; a hold allows its own version."""
    return "Run: " + INSTALL[manager_of(readings)].format(package)
