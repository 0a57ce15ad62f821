"""What holds packages in place, as files of dnf say it."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpuwright.packages.locks import read_package_locks, read_version_locks
from gpuwright.readings.attempt import attempt
from host_tree import HostTree

STREAM = "[nvidia-driver]\nname=nvidia-driver\nstream=580-dkms\nprofiles=\nstate=enabled\n"


@pytest.fixture
def host(tmp_path: Path) -> HostTree:
    return HostTree(tmp_path)


def test_streams_and_locks(host):
    host.put("/etc/dnf/modules.d/nvidia-driver.module", STREAM)
    host.put("/etc/dnf/modules.d/perl.module", STREAM.replace("nvidia-driver", "perl").replace("=enabled", "="))
    host.put("/etc/dnf/plugins/versionlock.list", "# held\n\nkernel-0:4.18.0-477.10.1.el8_8.*  # by us\n")
    assert read_package_locks(host.root) == {
        "streams": {"nvidia-driver": "enabled 580-dkms"},
        "versions": ["kernel-0:4.18.0-477.10.1.el8_8.*"],
    }


def test_our_marks_are_no_locks(host):
    block = "gpuwright-BEGIN-kernel-0:0-0.*\nkernel-0:4.18.0-477.10.1.el8_8.*\ngpuwright-END-kernel-0:0-0.*\n"
    host.put("/etc/dnf/plugins/versionlock.list", block)
    assert read_version_locks(host.root) == ["kernel-0:4.18.0-477.10.1.el8_8.*"]


def test_a_node_without_dnf_has_none(host):
    assert read_package_locks(host.root) is None
    host.put("/etc/dnf/dnf.conf")
    assert read_package_locks(host.root) == {"streams": {}, "versions": []}


def test_what_nobody_understands_is_unreadable(host):
    host.put("/etc/dnf/modules.d/nvidia-driver.module", STREAM.replace("=enabled", "=odd"))
    assert "unknown state 'odd'" in attempt(read_package_locks, host.root)["unreadable"]


def test_a_list_that_is_no_file_is_unreadable(host):
    host.put("/etc/dnf/plugins/versionlock.list/x")
    assert "cannot be read" in attempt(read_package_locks, host.root)["unreadable"]
