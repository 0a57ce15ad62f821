"""System layer on RHEL 9 and RHEL 10: whose repositories they are, and what keeps the driver to its branch.

Beside RHEL 9 stands a host of RHEL 8, in one inventory and one run: what holds for both is asked of both.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from testinfra.host import Host

pytestmark = [pytest.mark.el9, pytest.mark.el10]
REPOSITORY = Path(__file__).resolve().parents[2]


def number_of(host: Host) -> str:
    """The host's major release, as its own os-release says: "8", "9" or "10"."""
    found = re.search(r'(?m)^VERSION_ID="(\d+)\.', host.file("/etc/os-release").content_string)
    assert found is not None
    return found.group(1)


def without_streams(host: Host) -> bool:
    return number_of(host) == "10"


def held(host: Host) -> set[str]:
    lines = host.file("/etc/dnf/plugins/versionlock.list").content_string.splitlines()
    return {line.split("-3:")[0] for line in lines if line and not line.startswith(("#", "gpuwright-"))}


def test_repositories_are_those_of_the_system(host: Host) -> None:
    number = number_of(host)
    names = set(host.file("/etc/yum.repos.d").listdir())
    assert {f"cuda-rhel{number}-x86_64.repo", "epel.repo"} <= names
    assert {name for name in names if name.startswith("cuda-rhel")} == {f"cuda-rhel{number}-x86_64.repo"}
    assert f"Enterprise Linux {number}" in host.file("/etc/yum.repos.d/epel.repo").content_string
    driver = host.file(f"/etc/yum.repos.d/cuda-rhel{number}-x86_64.repo").content_string
    assert f"/cuda-rhel{number}-x86_64" in driver and "repo_gpgcheck = 1" in driver


def test_the_driver_is_of_branch_580_and_held(host: Host) -> None:
    versions = set(host.check_output("rpm -qa '*nvidia-driver*' --qf '%{VERSION}\\n'").split())
    assert len(versions) == 1 and versions.pop().startswith("580.")
    assert held(host) == set(host.check_output("rpm -qa '*nvidia*' --qf '%{NAME}\\n'").split())
    assert host.check_output("cat /sys/module/nvidia/version").startswith("580.")


def test_the_planned_stream_is_enabled_where_there_are_streams(host: Host) -> None:
    file = host.file("/etc/dnf/modules.d/nvidia-driver.module")
    if without_streams(host):
        assert not file.exists
    else:
        assert "stream=580-dkms" in file.content_string.replace(" ", "")


def test_no_update_takes_a_newer_branch_that_is_there(host: Host) -> None:
    """Without module streams every branch is a version of the same packages, and the version lock alone holds."""
    with host.sudo():
        offered = host.check_output("dnf -q --disableplugin=versionlock repoquery --qf '%{version}' nvidia-driver-cuda")
        assert any(line.startswith("590.") for line in offered.split()) == without_streams(host)
        update = host.run("dnf -y update --assumeno")
    assert "590." not in update.stdout + update.stderr


def test_the_environment_has_the_python_that_the_system_offers(host: Host) -> None:
    wanted = {"8": "3.11", "9": "3.11", "10": "3.12"}[number_of(host)]
    version = host.check_output("/opt/gpuwright/venvs/current/bin/python --version")
    assert version.startswith(f"Python {wanted}.")


@pytest.mark.one_node
def test_one_run_took_every_host_of_the_inventory_to_pass(host: Host) -> None:
    """Rows of the summary of the run that made them: RHEL 8 and RHEL 9 in one, RHEL 10 alone."""
    names = sorted(host.ansible.get_variables()["groups"]["gpu_nodes"])
    reports = [json.loads((REPOSITORY / f"reports/{name}.json").read_text()) for name in names]
    assert {report["verdict"] for report in reports} == {"PASS"}
    releases = {report["readings"]["probe"]["os"]["version"].partition(".")[0] for report in reports}
    assert releases == ({"8", "9"} if len(names) == 2 else {"10"})
