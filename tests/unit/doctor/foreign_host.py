"""Machines that the toolkit has not set up: the made-up node without what the toolkit left, and worse ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import healthy_files
from host_tree import HostTree

TOOLKIT = (
    "etc/gpuwright",
    "var/lib/gpuwright",
    "opt/gpuwright",
    "usr/local/lib/gpuwright",
    "usr/local/bin",
    "etc/systemd/system",
    "srv/gan",
)
# /etc/os-release of systems that the toolkit installs nothing on, by their own distributors.
RELEASES = {
    "arch": 'NAME="Arch Linux"\nPRETTY_NAME="Arch Linux"\nID=arch\nBUILD_ID=rolling\n',
    "sles": 'NAME="SLES"\nVERSION="15-SP6"\nVERSION_ID="15.6"\nPRETTY_NAME="SUSE Linux Enterprise Server 15 SP6"\n'
    'ID="sles"\nID_LIKE="suse"\n',
    "ubuntu": 'PRETTY_NAME="Ubuntu 24.04.2 LTS"\nNAME="Ubuntu"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n',
    "el9": 'NAME="Rocky Linux"\nVERSION="9.5 (Blue Onyx)"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.5"\n'
    'PRETTY_NAME="Rocky Linux 9.5 (Blue Onyx)"\n',
    "el10": 'NAME="AlmaLinux"\nID="almalinux"\nID_LIKE="rhel centos fedora"\nVERSION_ID="10.0"\n'
    'PRETTY_NAME="AlmaLinux 10.0 (Purple Lion)"\n',
    "none": "",
}


def put_foreign(host: HostTree, release: str = "arch") -> None:
    """The healthy node's hardware and driver on a system that nobody but its administrator has touched."""
    healthy_files.put_node(host)
    for path in TOOLKIT:
        shutil.rmtree(host.folder / path, ignore_errors=True)
    if RELEASES[release]:
        host.put("/etc/os-release", RELEASES[release])


def no_driver(host: HostTree) -> None:
    """The card is there; nobody has installed a driver, and the kernel took nouveau."""
    shutil.rmtree(host.folder / "proc/driver")
    shutil.rmtree(host.folder / "sys/module/nvidia_uvm")
    for file in (*(host.folder / "usr/lib64").glob("*nvidia*"), *(host.folder / "usr/lib64").glob("libcuda*")):
        file.unlink()
    for file in (host.folder / "dev").glob("nvidia*"):
        file.unlink()
    (host.folder / "usr/bin/nvidia-smi").unlink()
    host.put("/sys/module/nouveau/refcnt", "1\n")
    for link in (host.folder / "sys/bus/pci/devices").glob("*/driver"):
        link.unlink()
        link.symlink_to("../../../../bus/pci/drivers/nouveau")


def off_the_bus(host: HostTree) -> None:
    for vendor in (host.folder / "sys/bus/pci/devices").glob("*/vendor"):
        device = vendor.parent
        if vendor.read_text().strip() == "0x10de" and device.is_symlink():
            device.unlink()
        elif vendor.exists() and vendor.read_text().strip() == "0x10de":
            shutil.rmtree(device)


def no_card(host: HostTree) -> None:
    """A server without any GPU."""
    no_driver(host)
    shutil.rmtree(host.folder / "sys/module/nouveau")
    off_the_bus(host)


def lost_card(host: HostTree) -> None:
    """The only card has fallen off the bus; module and device file are still there."""
    off_the_bus(host)


def bare_container(host: HostTree) -> None:
    """A container that was given neither /sys nor most of /proc, and no device."""
    for path in ("sys", "boot", "lib", "proc/driver", "dev"):
        shutil.rmtree(host.folder / path, ignore_errors=True)
    for path in ("cpuinfo", "meminfo", "uptime", "cmdline", "keys", "self/mountinfo"):
        (host.folder / "proc" / path).unlink()
    host.put("/run/.containerenv", 'engine="podman-5.4.0"\n')


def empty(host: HostTree) -> None:
    """Nothing at all can be read."""
    shutil.rmtree(host.folder)
    host.folder.mkdir()


BROKEN: dict[str, Callable[[HostTree], None]] = {
    "no driver": no_driver,
    "no card": no_card,
    "lost card": lost_card,
    "bare container": bare_container,
    "empty": empty,
}
# Programs that are gone with the driver, or that such a machine never had.
WITHOUT = {
    "no driver": ("nvidia-smi", "nv-fabricmanager", "dkms", "modinfo"),
    "no card": ("nvidia-smi", "nv-fabricmanager", "dkms", "modinfo"),
    "lost card": (),
    "bare container": ("nvidia-smi", "nv-fabricmanager", "dkms", "systemctl", "rpm", "mokutil", "journalctl"),
    "empty": ("nvidia-smi", "nv-fabricmanager", "dkms", "systemctl", "rpm", "mokutil", "journalctl", "grubby"),
}


def put_programs(folder: Path, without: tuple[str, ...] = ()) -> None:
    """The programs of that machine as files of `folder`, for PATH; everybody can read nvidia-smi's answer."""
    shutil.copy(healthy_files.DATA / "nvidia_smi/580-v100.xml", folder)

    def write(name: str, script: str) -> None:
        if name not in without:
            (folder / name).write_text(script)
            (folder / name).chmod(0o755)

    healthy_files.put_commands(write)
    write("nvidia-smi", f"#!/bin/sh\ncat {folder}/580-v100.xml\n")
