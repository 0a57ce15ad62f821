"""System layer on RHEL 8: dnf's repositories, signatures, module stream, version locks."""

from __future__ import annotations

import pytest
from testinfra.host import Host

EL8 = pytest.mark.el8
EL8_ALTERNATIVE = pytest.mark.el8_alternative


@EL8
@EL8_ALTERNATIVE
@pytest.mark.parametrize("name", ["epel", "cuda-rhel8-x86_64"])
def test_repositories_check_signatures(host: Host, name: str) -> None:
    lines = host.file(f"/etc/yum.repos.d/{name}.repo").content_string.replace(" ", "").splitlines()
    assert "gpgcheck=1" in lines and "sslverify=1" in lines
    assert f"gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-{name}" in lines


@EL8
@EL8_ALTERNATIVE
def test_every_installed_package_is_signed(host: Host) -> None:
    with host.sudo():
        packages = host.check_output("rpm -qa --qf '%{NAME} %{RSAHEADER:pgpsig} %{SIGPGP:pgpsig}\n'").splitlines()
    unsigned = [line.split()[0] for line in packages if "Key ID" not in line and not line.startswith("gpg-pubkey")]
    assert packages and unsigned == []


@EL8
@EL8_ALTERNATIVE
def test_only_the_planned_stream_is_enabled(host: Host, report: dict) -> None:
    text = host.file("/etc/dnf/modules.d/nvidia-driver.module").content_string
    assert f"stream={report['expectations']['plan']['driver']['stream']}" in text.replace(" ", "")


@EL8
@EL8_ALTERNATIVE
def test_no_metapackage_brought_another_driver(host: Host) -> None:
    for name in ("cuda", "cuda-drivers", "cuda-12-9", "kmod-nvidia-open-dkms"):
        assert not host.package(name).is_installed


@EL8
def test_the_driver_is_held_and_nothing_else(host: Host) -> None:
    lines = host.file("/etc/dnf/plugins/versionlock.list").content_string.splitlines()
    held = {line.split("-3:")[0] for line in lines if line and not line.startswith(("#", "gpuwright-"))}
    assert held == set(host.check_output("rpm -qa '*nvidia*' --qf '%{NAME}\\n'").split()) - {"nvidia-container-toolkit"}
    assert [line for line in lines if line.startswith("gpuwright-BEGIN")] == ["gpuwright-BEGIN-driver-0:0-0.*"]


@EL8
def test_driver_metadata_is_checked(host: Host) -> None:
    assert "repo_gpgcheck = 1" in host.file("/etc/yum.repos.d/cuda-rhel8-x86_64.repo").content_string


@EL8_ALTERNATIVE
def test_exact_driver_is_installed_and_held(host: Host, wish: dict) -> None:
    version = wish["system_driver_version"]
    assert host.check_output("nvidia-smi --query-gpu=driver_version --format=csv,noheader") == version
    locks = host.file("/etc/dnf/plugins/versionlock.list").content_string
    assert f"nvidia-driver-cuda-3:{version}-1" in locks
    assert "kernel-core-" in locks


@EL8_ALTERNATIVE
def test_pinned_cuda_cudnn_and_nccl(host: Host) -> None:
    assert host.package("libcudnn8").version.startswith("8.9.7")
    assert host.package("libnccl").version.startswith("2.16.5")
    assert host.file("/usr/local/cuda-11.8/bin/nvcc").exists
