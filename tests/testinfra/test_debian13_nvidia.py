"""System layer on Debian 13 from NVIDIA's repository, without a pin: what the plan chose, and what keeps it so."""

from __future__ import annotations

import re

import pytest
from testinfra.host import Host

pytestmark = pytest.mark.debian13_nvidia
REPOSITORY = "cuda-debian13-x86_64"


def versions(host: Host, package: str) -> list[str]:
    """The versions of a package that apt could install, newest first."""
    return [line.split("|")[1].strip() for line in host.check_output("apt-cache madison %s", package).splitlines()]


def test_the_repository_is_that_of_the_system_and_trusts_its_key_alone(host: Host) -> None:
    names = host.file("/etc/apt/sources.list.d").listdir()
    assert [name for name in names if name.startswith("cuda-")] == [f"{REPOSITORY}.sources"]
    sources = host.file(f"/etc/apt/sources.list.d/{REPOSITORY}.sources").content_string
    assert f"Signed-By: /etc/apt/keyrings/{REPOSITORY}.asc" in sources and "trusted" not in sources.lower()
    with host.sudo():
        update = host.run("apt-get update")
    assert update.rc == 0 and not re.search(r"(?m)^[WE]:", update.stdout + update.stderr), update.stderr


def test_driver_toolkit_and_cudnn_are_those_of_the_plan(host: Host, report: dict) -> None:
    plan = report["expectations"]["plan"]
    answered = host.check_output("nvidia-smi --query-gpu=driver_version --format=csv,noheader")
    assert answered.startswith(plan["driver"]["branch"] + ".") and plan["driver"]["branch"] == "595"
    assert host.package("nvidia-open").version == f"{answered}-1"
    assert host.package(plan["cuda"]["package"]).is_installed
    assert host.package("libcudnn9-cuda-13").version.startswith(plan["cudnn"]["version"] + ".")


def test_nothing_of_debians_own_driver_is_there(host: Host) -> None:
    """The archive has 550 under some of the same names, and its components are not switched on."""
    installed = host.check_output("dpkg-query --show --showformat '${Package} ${Version}\n'").splitlines()
    found = dict(line.split() for line in installed if "nvidia" in line or line.startswith(("libcuda1 ", "cuda-")))
    assert {"nvidia-open", "nvidia-kernel-open-dkms", "libcuda1"} <= set(found)
    assert not any(version.startswith("550.") for version in found.values()), found
    assert not host.file("/etc/apt/sources.list.d/gpuwright-components.sources").exists


def test_apt_is_told_to_stay_with_the_branch(host: Host) -> None:
    """Above 1000 apt would even go back to it; the other branch of the repository keeps the priority of any package."""
    assert {version.partition(".")[0] for version in versions(host, "nvidia-open")} == {"590", "595"}
    policy = host.check_output("apt-cache policy nvidia-open")
    table = re.findall(r"(?m)^ (?:\*\*\*|   ) (\d+)\.\S+ (\d+)$", policy)
    priorities = {branch: int(priority) for branch, priority in table}
    assert priorities["595"] > 1000 > priorities["590"], policy
    planned = host.file("/etc/apt/preferences.d/gpuwright-planned-driver.pref").content_string
    assert "Pin: version 595.*" in planned.splitlines(), planned


def test_headers_follow_the_kernel_of_the_node(host: Host) -> None:
    """Debian's archive has others, which would bring their kernels with them."""
    kernel, headers = (host.package(f"linux-{part}-amd64").version for part in ("image", "headers"))
    assert kernel == headers
    assert host.package(f"linux-headers-{host.check_output('uname -r')}").is_installed
    assert len(host.check_output("ls /lib/modules").split()) == 1


def test_the_environment_has_the_python_of_the_system(host: Host) -> None:
    version = host.check_output("/opt/gpuwright/venvs/current/bin/python --version")
    assert version.startswith("Python 3.13.") and host.file("/etc/debian_version").content_string.startswith("13.")
