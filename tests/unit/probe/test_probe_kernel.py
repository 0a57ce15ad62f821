"""Installed kernels and the next boot on made-up hosts."""

from __future__ import annotations

import pytest
from gpuwright.probe.kernel import read_kernel
from host_tree import NEWER, OLDER, RUNNING, HostTree, answers

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
        "build": None,
        "boot_entry": {"kind": "unknown", "text": "", "first": ""},
        "owners": None,
        "metapackages": [],
    }
