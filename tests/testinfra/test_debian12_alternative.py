"""System layer on Debian 12 from NVIDIA's repository: its one suite has every branch, and apt keeps to the plan's."""

from __future__ import annotations

import re

import pytest
from testinfra.host import Host

pytestmark = pytest.mark.debian12_alternative
REPOSITORIES = ("cuda-debian12-x86_64", "nvidia-container-toolkit")


def candidate(host: Host, package: str) -> str:
    """The version that apt would install."""
    candidate = re.search(r"Candidate: (\S+)", host.check_output("apt-cache policy %s", package))
    assert candidate is not None, package
    return candidate[1]


@pytest.mark.parametrize("name", REPOSITORIES)
def test_repositories_trust_the_pinned_key_alone(host: Host, name: str) -> None:
    sources = host.file(f"/etc/apt/sources.list.d/{name}.sources").content_string
    assert f"Signed-By: /etc/apt/keyrings/{name}.asc" in sources
    assert "trusted" not in sources.lower()
    assert not host.file("/etc/apt/trusted.gpg").exists
    with host.sudo():
        update = host.run("apt-get update")
    assert update.rc == 0 and not re.search(r"(?m)^[WE]:", update.stdout + update.stderr), update.stderr


def test_the_branch_and_the_version_are_those_asked_for(host: Host, wish: dict) -> None:
    version = wish["system_driver_version"]
    assert host.check_output("nvidia-smi --query-gpu=driver_version --format=csv,noheader") == version
    installed = host.check_output("dpkg-query --show --showformat '${source:Package} ${Package} ${Version}\n'")
    driver = [line.split()[1:] for line in installed.splitlines() if "nvidia-" in line or "cuda-drivers" in line]
    found = {name: installed for name, installed in driver if "container" not in name}
    assert {"cuda-drivers", "nvidia-driver-cuda", "nvidia-kernel-dkms"} <= set(found)
    assert set(found.values()) == {f"{version}-1"}


def test_every_package_of_the_driver_is_held(host: Host, wish: dict) -> None:
    held = host.file("/etc/apt/preferences.d/gpuwright-driver.pref").content_string
    names = set(re.findall(r"(?m)^Package: (.*)$", held))
    assert {"cuda-drivers", "nvidia-kernel-dkms", "libcuda1"} <= names and "nvidia-container-toolkit-base" not in names
    assert set(re.findall(r"(?m)^Pin: version (.*)$", held)) == {f"{wish['system_driver_version']}-1"}


def test_an_upgrade_of_everything_leaves_the_driver_alone(host: Host, wish: dict) -> None:
    offered = host.check_output("apt-cache madison cuda-drivers").splitlines()
    versions = [line.split("|")[1].strip() for line in offered]
    assert versions[0] != f"{wish['system_driver_version']}-1", "the repository has nothing newer to be kept from"
    assert candidate(host, "cuda-drivers") == f"{wish['system_driver_version']}-1"
    with host.sudo():
        plan = host.check_output("apt-get --simulate dist-upgrade")
    assert not re.search(r"(?m)^(Inst|Remv) \S*(nvidia|cuda|linux-(image|headers))", plan), plan


def test_no_metapackage_brought_another_module(host: Host) -> None:
    for name in ("nvidia-open", "nvidia-kernel-open-dkms", "cuda-12-8", "cuda-12-9"):
        assert not host.package(name).is_installed


def test_headers_follow_the_kernel_of_the_node(host: Host) -> None:
    """Debian's archive has others, which would bring their kernels with them."""
    kernel, headers = (host.package(f"linux-{part}-amd64").version for part in ("image", "headers"))
    assert kernel == headers
    assert host.package(f"linux-headers-{host.check_output('uname -r')}").is_installed
    assert len(host.check_output("ls /lib/modules").split()) == 1


def test_toolkit_cudnn_and_nccl_are_the_pinned_ones(host: Host, wish: dict) -> None:
    for name in ("libcudnn9-cuda-12", "libcudnn9-dev-cuda-12"):
        assert host.package(name).version.startswith(wish["system_cuda_cudnn_version"] + ".")
    assert "| 9.13." in host.check_output("apt-cache madison libcudnn9-cuda-12"), "there is nothing newer"
    assert candidate(host, "libcudnn9-cuda-12") == host.package("libcudnn9-cuda-12").version
    for name in ("libnccl2", "libnccl-dev"):
        assert host.package(name).version.startswith(wish["system_cuda_nccl_version"] + "-")
    assert "#define CUDNN_MAJOR 9" in host.file("/usr/include/cudnn_version.h").content_string
    assert host.file(f"/usr/local/cuda-{wish['system_cuda_version']}/bin/nvcc").exists


def test_podman_is_debians_own_and_runs(host: Host, as_trainer) -> None:
    assert host.check_output("podman --version").startswith("podman version 4.")
    assert as_trainer("cd / && podman --version").rc == 0
