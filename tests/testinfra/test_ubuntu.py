"""System layer on Ubuntu from NVIDIA's repository: the kernel's flavour, Python, what unattended-upgrades leave."""

from __future__ import annotations

import re

import pytest
from testinfra.host import Host

pytestmark = pytest.mark.ubuntu
# By release: the metapackages of the kernel that it boots, and its Python.
FLAVOUR = {"22.04": "generic-hwe-22.04", "24.04": "aws"}
PYTHON = {"22.04": "3.10", "24.04": "3.12"}


@pytest.fixture
def release(host: Host) -> str:
    system = host.file("/etc/os-release").content_string
    assert "ID=ubuntu" in system.splitlines()
    (version,) = re.findall(r'(?m)^VERSION_ID="(.*)"$', system)
    return str(version)


def installed(host: Host) -> dict[str, str]:
    listed = host.check_output("dpkg-query --show --showformat '${Package} ${Version} ${db:Status-Status}\n'")
    return {line.split()[0]: line.split()[1] for line in listed.splitlines() if line.endswith(" installed")}


def test_headers_follow_the_flavour_of_the_kernel_and_no_other(host: Host, release: str) -> None:
    stem, packages = FLAVOUR[release], installed(host)
    assert packages[f"linux-headers-{stem}"] == packages[f"linux-image-{stem}"]
    assert f"linux-headers-{host.check_output('uname -r')}" in packages
    others = {"generic", "generic-hwe-22.04", "aws"} - {stem}
    assert not {f"linux-{kind}-{other}" for kind in ("image", "headers") for other in others} & set(packages)
    assert len(host.check_output("ls /lib/modules").split()) == 1


def test_driver_toolkit_and_cudnn_are_those_of_the_plan(host: Host, report: dict, release: str) -> None:
    plan, packages = report["expectations"]["plan"], installed(host)
    answered = host.check_output("nvidia-smi --query-gpu=driver_version --format=csv,noheader")
    assert answered.startswith(plan["driver"]["branch"] + ".") and packages["nvidia-open"] == f"{answered}-1"
    assert plan["driver"]["source"] == "nvidia" and plan["cuda"]["package"] in packages
    assert packages["libcudnn9-cuda-13"].startswith(plan["cudnn"]["version"] + ".")
    # Nothing of the archive's own driver.
    assert not [name for name in packages if re.match(r"(nvidia|linux-modules-nvidia|libnvidia)-.*-server", name)]


def test_the_repository_is_that_of_the_system(host: Host, release: str) -> None:
    name = f"cuda-ubuntu{release.replace('.', '')}-x86_64"
    sources = host.file(f"/etc/apt/sources.list.d/{name}.sources").content_string
    assert f"Signed-By: /etc/apt/keyrings/{name}.asc" in sources and "trusted" not in sources.lower()
    assert not host.file("/etc/apt/sources.list.d/gpuwright-components.sources").exists
    with host.sudo():
        update = host.run("apt-get update")
    assert update.rc == 0 and not re.search(r"(?m)^[WE]:", update.stdout + update.stderr), update.stderr


def test_unattended_upgrades_read_their_settings_and_leave_the_driver_alone(host: Host, release: str) -> None:
    with host.sudo():
        told = host.run("unattended-upgrade --dry-run --debug")
    assert told.rc == 0, told.stderr
    assert (
        f"Allowed origins are: o=Ubuntu,a={ {'22.04': 'jammy', '24.04': 'noble'}[release] }"
        in told.stdout + told.stderr
    )
    dumped = host.check_output("apt-config dump Unattended-Upgrade::Package-Blacklist")
    patterns = re.findall(r'::Package-Blacklist:: "(.+)";', dumped)
    for name in ("nvidia-open", "libcuda1", "cuda-toolkit-13-4", "libcudnn9-cuda-13"):
        assert any(re.match(pattern, name) for pattern in patterns), name
    assert not any(re.match(pattern, "linux-image-generic-hwe-22.04") for pattern in patterns)


def test_the_environment_has_the_python_of_the_system(host: Host, release: str) -> None:
    version = host.check_output("/opt/gpuwright/venvs/current/bin/python --version")
    assert version.startswith(f"Python {PYTHON[release]}.")
    assert {f"python{PYTHON[release]}-venv", f"python{PYTHON[release]}-dev"} <= set(installed(host))


def test_a_module_is_built_for_the_kernel_that_boots(host: Host, release: str) -> None:
    kernel = host.check_output("uname -r")
    status = host.check_output("dkms status")
    assert re.search(rf"(?m)^nvidia(-open)?/\S+, {re.escape(kernel)}, x86_64: installed", status), status
