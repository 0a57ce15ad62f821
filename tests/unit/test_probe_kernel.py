"""Installed kernels, the next boot, Secure Boot and the key of DKMS on made-up hosts."""

from __future__ import annotations

import pytest
from gpuwright.probe_kernel import read_kernel, read_module_key_enrolled, read_secure_boot
from host_tree import NEWER, OLDER, RUNNING, HostTree, answers

SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
SHIM_STATE = "/sys/firmware/efi/efivars/MokSBStateRT-605dab50-e046-4300-abb6-3dd810dd8b23"
NOBODY = answers()


@pytest.fixture
def host(tmp_path):
    tree = HostTree(tmp_path)
    tree.running_kernel(RUNNING)
    tree.put("/proc/sys/kernel/random/boot_id", "1f0c\n")
    return tree


def test_installed_kernels_are_in_rpm_order_and_need_modules_and_an_image(host):
    for release in (NEWER, OLDER, RUNNING):
        host.kernel(release)
    host.put("/lib/modules/4.18.0-500.el8.x86_64/weak-updates/x.ko")  # left behind by a removed kernel
    host.put("/boot/vmlinuz-0-rescue-0123456789abcdef")
    assert read_kernel(host.root, NOBODY)["installed"] == [OLDER, RUNNING, NEWER]


def test_an_image_among_the_modules_counts(host):
    host.put(f"/lib/modules/{RUNNING}/vmlinuz")
    assert read_kernel(host.root, NOBODY)["installed"] == [RUNNING]


def test_headers_are_complete_only_with_their_makefile(host):
    host.kernel(OLDER)
    host.kernel(RUNNING, headers=True)
    host.kernel(NEWER)
    host.put(f"/usr/src/kernels/{NEWER}/Makefile")
    host.link("/lib/modules/6.1.0-9-amd64/build", "/usr/src/linux-headers-6.1.0-9-amd64")
    assert read_kernel(host.root, NOBODY)["with_headers"] == [RUNNING, NEWER]


def test_headers_of_a_debian_kernel(host):
    host.running_kernel("6.1.0-9-amd64")
    host.link("/lib/modules/6.1.0-9-amd64/build", "/usr/src/linux-headers-6.1.0-9-amd64")
    host.put("/usr/src/linux-headers-6.1.0-9-amd64/Makefile")
    host.put("/boot/vmlinuz-6.1.0-9-amd64")
    kernel = read_kernel(host.root, NOBODY)
    assert kernel["installed"] == kernel["with_headers"] == ["6.1.0-9-amd64"]


def test_the_running_kernel_may_have_headers_without_being_installed(host):
    host.put(f"/usr/src/kernels/{RUNNING}/Makefile")
    kernel = read_kernel(host.root, NOBODY)
    assert (kernel["installed"], kernel["with_headers"], kernel["next_boot"]) == ([], [RUNNING], RUNNING)


@pytest.mark.parametrize(
    ("grubby", "saved", "expected"),
    [
        (f"/boot/vmlinuz-{OLDER}\n", "e-running", OLDER),
        (f"some warning\n/boot/vmlinuz-{OLDER}\n", "e-running", OLDER),
        ("/boot/vmlinuz-0-rescue-77\n", "e-running", "0-rescue-77"),
        (None, "e-running", RUNNING),
        ("The param boot_entry is incorrect\n", "e-running", RUNNING),
        (None, "0", NEWER),
        (None, "1", RUNNING),
        (None, "9", NEWER),
        (None, "no such entry", NEWER),
        (None, None, NEWER),
    ],
)
def test_next_boot(host, grubby, saved, expected):
    for name, release in (("e-older", OLDER), ("e-running", RUNNING), ("e-newer", NEWER)):
        host.kernel(release)
        host.boot_entry(name, release)
    if saved is not None:
        host.put("/boot/efi/EFI/redhat/grubenv", f"# GRUB Environment Block\nsaved_entry={saved}\n####\n")
        host.link("/boot/grub2/grubenv", "../efi/EFI/redhat/grubenv")
    assert read_kernel(host.root, answers(grubby=grubby))["next_boot"] == expected


def test_a_host_that_tells_nothing(tmp_path):
    kernel = read_kernel(str(tmp_path), NOBODY)
    assert kernel == {
        "running": "unknown",
        "next_boot": "unknown",
        "installed": [],
        "with_headers": [],
        "boot_id": None,
    }


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, "unsupported"),
        ({"/sys/firmware/efi/systab": b""}, "unknown"),
        ({"/sys/firmware/efi/efivars/Boot0000-8be4df61": b"12345"}, "unsupported"),
        ({SECURE_BOOT: b"\x06\0\0\0\x01"}, "enabled"),
        ({SECURE_BOOT: b"\x06\0\0\0\x00"}, "disabled"),
        ({SECURE_BOOT: b"\x06\0\0\0\x02"}, "unknown"),
        ({SECURE_BOOT: b"\x06\0\0\0"}, "unknown"),
        ({SECURE_BOOT: b""}, "unknown"),
        ({SECURE_BOOT: b"\x06\0\0\0\x01", SHIM_STATE: b"\x06\0\0\0\x01"}, "disabled"),
        ({SECURE_BOOT: b"\x06\0\0\0\x01", SHIM_STATE: b"\x06\0\0\0\x00"}, "enabled"),
        ({SECURE_BOOT: b"\x06\0\0\0\x01", SHIM_STATE: b""}, "enabled"),
    ],
)
def test_secure_boot(host, files, expected):
    for path, content in files.items():
        host.put(path, content)
    assert read_secure_boot(host.root) == expected


@pytest.mark.parametrize(
    ("certificate", "words", "expected"),
    [
        (True, "/var/lib/dkms/mok.pub is already enrolled\n", True),
        (True, "/var/lib/dkms/mok.pub is not enrolled\n", False),
        (True, "/var/lib/dkms/mok.pub is already in the enrollment request\n", False),
        (True, "EFI variables are not supported on this system\n", None),
        (True, "", None),
        (True, None, None),
        (False, "/var/lib/dkms/mok.pub is already enrolled\n", None),
    ],
)
def test_module_key(host, certificate, words, expected):
    if certificate:
        host.put("/var/lib/dkms/mok.pub", b"\x30\x82")
    assert read_module_key_enrolled(host.root, answers(mokutil=words)) is expected
