"""System layer on RHEL 9 and RHEL 10: whose repositories they are, and what keeps the driver to its branch."""

from __future__ import annotations

import pytest
from testinfra.host import Host

EL9 = pytest.mark.el9
EL10 = pytest.mark.el10
BOTH = [pytest.param("9", marks=EL9), pytest.param("10", marks=EL10)]


def held(host: Host) -> set[str]:
    lines = host.file("/etc/dnf/plugins/versionlock.list").content_string.splitlines()
    return {line.split("-3:")[0] for line in lines if line and not line.startswith("#")}


@pytest.mark.parametrize("number", BOTH)
def test_repositories_are_those_of_the_system(host: Host, number: str) -> None:
    folder = host.file("/etc/yum.repos.d")
    assert {f"cuda-rhel{number}-x86_64.repo", "epel.repo"} <= set(folder.listdir())
    assert not any("rhel8" in name for name in folder.listdir())
    assert f"Enterprise Linux {number}" in host.file("/etc/yum.repos.d/epel.repo").content_string
    driver = host.file(f"/etc/yum.repos.d/cuda-rhel{number}-x86_64.repo").content_string
    assert f"/cuda-rhel{number}-x86_64" in driver and "repo_gpgcheck = 1" in driver


@pytest.mark.parametrize("number", BOTH)
def test_the_driver_is_of_branch_580_and_held(host: Host, number: str) -> None:
    versions = set(host.check_output("rpm -qa '*nvidia-driver*' --qf '%{VERSION}\\n'").split())
    assert len(versions) == 1 and versions.pop().startswith("580.")
    assert held(host) == set(host.check_output("rpm -qa '*nvidia*' --qf '%{NAME}\\n'").split())
    assert host.check_output("cat /sys/module/nvidia/version").startswith("580.")


@EL9
def test_the_planned_stream_is_enabled(host: Host) -> None:
    text = host.file("/etc/dnf/modules.d/nvidia-driver.module").content_string
    assert "stream=580-dkms" in text.replace(" ", "")


@EL10
def test_a_newer_branch_is_there_and_no_update_takes_it(host: Host) -> None:
    """Without module streams every branch is a version of the same packages."""
    assert not host.file("/etc/dnf/modules.d/nvidia-driver.module").exists
    with host.sudo():
        offered = host.check_output("dnf -q --disableplugin=versionlock repoquery --qf '%{version}' nvidia-driver-cuda")
        assert any(line.startswith("590.") for line in offered.split())
        update = host.run("dnf -y update --assumeno")
    assert "590." not in update.stdout + update.stderr
