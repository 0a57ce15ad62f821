"""Parameters and modules of the kernel: what was asked for, what is there, and what cannot be read."""

from __future__ import annotations

import pytest
from gpuwright.checks.driver import modules_reading as readings_modules
from gpuwright.checks.driver.modules_reading import read_asked, read_kernel_modules, read_parameters
from host_tree import RUNNING, HostTree


@pytest.fixture
def host(tmp_path):
    tree = HostTree(tmp_path)
    tree.put("/proc/cmdline", "root=/dev/sda1 quiet")
    return tree


def asked(host: HostTree) -> list[tuple]:
    return [(row["name"], row["value"], row["source"]) for row in read_asked(host.root)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("options nvidia NVreg_EnableMSI=1", [("EnableMSI", "1")]),
        ("  options\tnvidia  NVreg_A=0x1 NVreg_B=2", [("A", "0x1"), ("B", "2")]),
        ("options nvidia \\\n  NVreg_A=1", [("A", "1")]),
        ("# options nvidia NVreg_A=1", []),
        ("options nvidia-drm modeset=1 NVreg_A=1", []),
        ("options nvidia-current NVreg_A=1", [("A", "1")]),
        ("options nvidia rm_firmware_active=all", []),
        ("options", []),
        ("options nvidia", []),
        ("install nvidia NVreg_A=1", []),
        ('options nvidia NVreg_RegistryDwords="A=1; B=2" NVreg_C=3', [("RegistryDwords", "A=1; B=2"), ("C", "3")]),
        ("options nvidia NVreg_A", [("A", "")]),
        ("options nvidia NVreg_RestrictProfilingToAdminUsers=0", [("RmProfilingAdminOnly", "0")]),
    ],
)
def test_lines_of_modprobe(host, text, expected):
    host.put("/etc/modprobe.d/nvidia.conf", text + "\n")
    assert asked(host) == [(*pair, "/etc/modprobe.d/nvidia.conf") for pair in expected]


def test_of_two_files_of_one_name_the_first_counts(host):
    host.put("/usr/lib/modprobe.d/nvidia.conf", "options nvidia NVreg_A=1")
    host.put("/usr/lib/modprobe.d/masked.conf", "options nvidia NVreg_B=1")
    host.put("/usr/lib/modprobe.d/notes.txt", "options nvidia NVreg_C=1")
    assert {name for name, _value, _source in asked(host)} == {"A", "B"}
    host.put("/etc/modprobe.d/nvidia.conf", "options nvidia NVreg_A=2")
    host.link("/etc/modprobe.d/masked.conf", "/dev/null")
    assert asked(host) == [("A", "2", "/etc/modprobe.d/nvidia.conf")]


def test_the_kernels_command_line_asks_too(host):
    (host.folder / "proc/cmdline").write_text(
        "ro nvidia.NVreg_A=1 nouveau.NVreg_B=2 nvidia.debug=1 nvidia-drm.modeset=1"
    )
    assert asked(host) == [("A", "1", "/proc/cmdline")]


def test_what_cannot_be_read_is_no_absence(host, monkeypatch):
    (host.folder / "etc/modprobe.d/nvidia.conf").mkdir(parents=True)
    with pytest.raises(OSError, match="nvidia.conf cannot be read"):
        read_asked(host.root)

    def shut(folder):
        raise PermissionError(13, "Permission denied", folder)

    monkeypatch.setattr(readings_modules.os, "listdir", shut)
    with pytest.raises(PermissionError):
        read_asked(host.root)


def test_without_a_command_line_nothing_is_known(tmp_path):
    with pytest.raises(OSError, match="/proc/cmdline cannot be read"):
        read_asked(str(tmp_path))


def test_parameters_of_the_loaded_module(host):
    assert read_parameters(host.root) is None
    host.put("/proc/driver/nvidia/version", "NVRM version: 580.95.05")
    with pytest.raises(OSError, match="params cannot be read"):
        read_parameters(host.root)
    host.put("/proc/driver/nvidia/params", 'EnableMSI: 1\nRegistryDwords: ""\n')
    assert read_parameters(host.root) == {"EnableMSI": "1", "RegistryDwords": '""'}


def test_modules_of_the_kernel(host):
    with pytest.raises(OSError, match="lists no module"):
        read_kernel_modules(host.root, [])
    host.running_kernel(RUNNING)
    host.put("/sys/module/nvidia_peermem/initstate", "live\n")
    host.put("/sys/module/gdrdrv/initstate", "coming\n")
    host.put("/sys/module/printk/parameters/time", "Y\n")
    host.put(f"/lib/modules/{RUNNING}/modules.builtin", "kernel/fs/xfs-ish.ko\nkernel/fs/ext4.ko.xz\n")
    assert read_kernel_modules(host.root, ["nvidia-peermem", "gdrdrv", "printk", "xfs_ish", "ext4", "nvidia_fs"]) == {
        "nvidia-peermem": "live",
        "gdrdrv": "coming",
        "printk": "built in",
        "xfs_ish": "built in",
        "ext4": "built in",
        "nvidia_fs": None,
    }


@pytest.mark.parametrize("name", ["../nvidia", "a b", "", "x" * 65])
def test_a_name_that_no_module_has(host, name):
    host.put("/sys/module/nvidia/initstate", "live\n")
    with pytest.raises(ValueError, match="is not the name of a module"):
        read_kernel_modules(host.root, [name])


def test_a_state_that_cannot_be_read_is_not_built_in(host):
    (host.folder / "sys/module/gdrdrv/initstate").mkdir(parents=True)
    assert read_kernel_modules(host.root, ["gdrdrv"]) == {"gdrdrv": None}
