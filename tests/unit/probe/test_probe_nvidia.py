"""The driver loaded, built and installed, on made-up hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpuwright.probe import nvidia as nvidia_module
from gpuwright.probe.nvidia import (
    parse_dkms_status,
    read_device_nodes,
    read_loaded,
    read_module_file,
    read_nvidia,
    read_user_space,
)
from host_tree import RUNNING, HostTree, answers

DEBIAN = "/usr/lib/x86_64-linux-gnu"
PROPRIETARY = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Tue Jul  1 10:00:00 UTC 2025\nGCC version:  8.5\n"
)
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (builder@host)  Tue Sep 23\n"
    "GCC version:  gcc version 8.5.0 20210514 (Red Hat 8.5.0-18)\n"
)


@pytest.fixture
def host(tmp_path):
    return HostTree(tmp_path)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"/proc/driver/nvidia/version": PROPRIETARY}, {"version": "535.261.03", "flavour": "proprietary"}),
        ({"/proc/driver/nvidia/version": OPEN}, {"version": "580.95.05", "flavour": "open"}),
        (
            {"/sys/module/nvidia/version": "470.256.02\n", "/sys/module/nvidia/taint": "POE\n"},
            {"version": "470.256.02", "flavour": "proprietary"},
        ),
        (
            {"/sys/module/nvidia/version": "580.95.05\n", "/sys/module/nvidia/taint": "OE\n"},
            {"version": "580.95.05", "flavour": "open"},
        ),
        ({"/sys/module/nvidia/refcnt": "0\n"}, {"version": "unknown", "flavour": "unknown"}),
        ({"/proc/driver/nvidia/version": "garbage"}, {"version": "unknown", "flavour": "unknown"}),
        ({"/proc/driver/nvidia/version": ""}, {"version": "unknown", "flavour": "unknown"}),
    ],
)
def test_loaded(host, files, expected):
    for path, content in files.items():
        host.put(path, content)
    assert read_loaded(host.root) == expected


MODINFO = (
    "filename:       /lib/modules/k/extra/nvidia.ko.xz\nlicense:        {}\nversion:        {}\nalias: pci:v10DE*\n"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            MODINFO.format("NVIDIA", "580.95.05"),
            {"version": "580.95.05", "flavour": "proprietary", "licence": "NVIDIA"},
        ),
        (
            MODINFO.format("Dual MIT/GPL", "580.95.05"),
            {"version": "580.95.05", "flavour": "open", "licence": "Dual MIT/GPL"},
        ),
        (MODINFO.format("Apache", "1.2"), {"version": "1.2", "flavour": "unknown", "licence": "Apache"}),
        (MODINFO.format("NVIDIA", ""), None),
        ("modinfo: ERROR: Module nvidia not found.\n", None),
        ("", None),
        (None, None),
    ],
)
def test_module_file(text, expected):
    assert read_module_file(answers(modinfo=text), RUNNING) == expected


def row(version, kernel, state, module="nvidia"):
    return {"module": module, "version": version, "kernel": kernel, "state": state}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"nvidia/580.95.05, {RUNNING}, x86_64: installed", [row("580.95.05", RUNNING, "installed")]),
        (f"nvidia, 510.47.03, {RUNNING}, x86_64: installed", [row("510.47.03", RUNNING, "installed")]),
        (
            f"nvidia/580.95.05, {RUNNING}, x86_64: installed (original_module exists)",
            [row("580.95.05", RUNNING, "installed")],
        ),
        (
            f"nvidia-open/580.95.05, {RUNNING}, x86_64: built (WARNING! Diff between built and installed module!)",
            [row("580.95.05", RUNNING, "built", "nvidia-open")],
        ),
        ("nvidia/580.95.05: added", [row("580.95.05", None, "added")]),
        ("nvidia, 470.256.02: added", [row("470.256.02", None, "added")]),
        ("nvidia/580.95.05: broken", [row("580.95.05", None, "broken")]),
        ("nvidia-current/535.261.03, 6.1.0-9-amd64, x86_64: installed", [
            row("535.261.03", "6.1.0-9-amd64", "installed", "nvidia-current")
        ]),
        (f"zfs/2.1.5, {RUNNING}, x86_64: installed", []),
        (
            f"nvidia/580.95.05, {RUNNING}, x86_64: installed-weak from 4.18.0-372.9.1.el8.x86_64",
            [row("580.95.05", RUNNING, "installed-weak")],
        ),
        (
            f"nvidia, 510.47.03, {RUNNING}, x86_64: installed-weak from 4.18.0-372.9.1.el8.x86_64",
            [row("510.47.03", RUNNING, "installed-weak")],
        ),
        ("Error! nvidia/470.1: Missing the module source directory or the symbolic link pointing to it.", []),
        ("Manual intervention is required!", []),
        ("", []),
        ("nvidia", []),
        ("nvidia/, , : ", []),
    ],
)  # fmt: skip
def test_dkms_status(line, expected):
    assert parse_dkms_status(line + "\n") == expected


def test_dkms_that_cannot_be_asked():
    assert parse_dkms_status(None) == []


@pytest.mark.parametrize(
    ("links", "files", "expected"),
    [
        ({}, (), None),
        (
            {"/usr/lib64/libnvidia-ml.so.1": "libnvidia-ml.so.580.95.05"},
            ("/usr/lib64/libnvidia-ml.so.580.95.05",),
            "580.95.05",
        ),
        (
            {
                f"{DEBIAN}/libnvidia-ml.so.1": "/etc/alternatives/nvidia--libnvidia-ml.so.1",
                "/etc/alternatives/nvidia--libnvidia-ml.so.1": f"{DEBIAN}/nvidia/current/libnvidia-ml.so.1",
                f"{DEBIAN}/nvidia/current/libnvidia-ml.so.1": "libnvidia-ml.so.535.261.03",
            },
            (f"{DEBIAN}/nvidia/current/libnvidia-ml.so.535.261.03",),
            "535.261.03",
        ),
        # What an older package left behind does not count, only what the loader will take.
        (
            {"/usr/lib64/libnvidia-ml.so.1": "libnvidia-ml.so.580.95.05"},
            ("/usr/lib64/libnvidia-ml.so.580.95.05", "/usr/lib64/libnvidia-ml.so.470.256.02"),
            "580.95.05",
        ),
        ({}, ("/usr/lib64/libnvidia-ml.so.470.256.02",), None),
        ({"/usr/lib64/libnvidia-ml.so.1": "libnvidia-ml.so.580.95.05"}, (), None),
        ({"/usr/lib64/libnvidia-ml.so.1": "elsewhere.so"}, ("/usr/lib64/elsewhere.so",), None),
    ],
)
def test_user_space(host, links, files, expected):
    for path in files:
        host.put(path, "elf")
    for path, target in links.items():
        host.link(path, target)
    assert read_user_space(host.root) == expected


def test_device_nodes(host):
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-caps/nvidia-cap1", "null"):
        host.put("/dev/" + name)
    assert read_device_nodes(host.root) == ["/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl"]


def test_every_kernel_is_looked_up(host):
    host.put("/sys/module/nvidia_uvm/refcnt", "0")
    nvidia = read_nvidia(host.root, answers(), ["a", "b"])
    assert nvidia["modules"] == {"a": None, "b": None}
    assert nvidia["uvm_loaded"] is True and nvidia["dkms"] == [] and nvidia["loaded"] is None


@pytest.mark.parametrize(
    ("name", "belongs"),
    [
        ("kmod-nvidia-latest-dkms", True),
        ("libnvidia-ml", True),
        ("cuda-drivers", True),
        ("nvlsm", True),
        # A container toolkit is no part of a driver, and neither is CUDA.
        ("nvidia-container-toolkit", False),
        ("libnvidia-container1", False),
        ("cuda-toolkit-12-9", False),
    ],
)
def test_only_packages_of_the_driver_are_half_replaced(
    host: Any, monkeypatch: pytest.MonkeyPatch, name: str, belongs: bool
) -> None:
    monkeypatch.setattr(nvidia_module, "half_replaced", lambda ask, root: [name])
    assert read_nvidia(host.root, answers(), [])["half_replaced"] == ([name] if belongs else [])


@pytest.mark.parametrize(
    ("options", "unblocked"),
    [
        ("root=/dev/mapper/rhel-root ro rd.driver.blacklist=nouveau", False),
        ("root=/dev/mapper/rhel-root ro rd.driver.blacklist=floppy,nouveau quiet", False),
        ("root=/dev/mapper/rhel-root ro quiet", True),
        ("root=/dev/mapper/rhel-root rd.driver.blacklist=floppy", True),
        ("root=/dev/mapper/rhel-root xrd.driver.blacklist=nouveau", True),
        # As EL 8 writes it.
        ("$kernelopts $tuned_params", False),
        ("$other_opts $tuned_params", True),
    ],
)
def test_a_boot_entry_that_does_not_block_nouveau(host: HostTree, options: str, unblocked: bool) -> None:
    host.kernel(RUNNING)
    host.boot_entry("running", RUNNING)
    path = Path(host.root, "boot/loader/entries/running.conf")
    path.write_text(f"{path.read_text()}options {options}\n")
    host.put("/boot/grub2/grubenv", "kernelopts=root=/dev/sda1 rd.driver.blacklist=nouveau \n")
    asked = answers(rpm="nvidia-kmod-common-570.195.03-1.el8.noarch\n")
    assert read_nvidia(host.root, asked, [])["nouveau_unblocked"] == ([RUNNING] if unblocked else [])


@pytest.mark.parametrize("rpm", [{}, {"rpm": "package nvidia-kmod-common is not installed\n"}], ids=["no rpm", "rpm"])
def test_another_installer_blocks_nouveau_in_its_own_way(host: HostTree, rpm: dict[str, str]) -> None:
    host.kernel(RUNNING)
    host.boot_entry("running", RUNNING)
    path = Path(host.root, "boot/loader/entries/running.conf")
    path.write_text(f"{path.read_text()}options ro quiet\n")
    assert read_nvidia(host.root, answers(**rpm), [])["nouveau_unblocked"] == []


def test_an_entry_without_modules_or_without_options_is_not_looked_at(host: HostTree) -> None:
    host.kernel(RUNNING)
    host.boot_entry("running", RUNNING)
    host.boot_entry("rescue", "0-rescue-77")
    path = Path(host.root, "boot/loader/entries/rescue.conf")
    path.write_text(f"{path.read_text()}options ro quiet\n")
    asked = answers(rpm="nvidia-kmod-common-570.195.03-1.el8.noarch\n")
    assert read_nvidia(host.root, asked, [])["nouveau_unblocked"] == []
