"""Debian 12 with NVIDIA's own bits: the module that DKMS built, the compiler, nvidia-smi, and the toolkit's verdict."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from testinfra.host import Host

pytestmark = pytest.mark.debian12
REPOSITORY = Path(__file__).resolve().parents[2]
KERNEL_SOURCE = """
#include <cstdio>
__global__ void twice(float *x) { x[threadIdx.x] *= 2; }
int main() { int count = 0; std::printf("%d\\n", static_cast<int>(cudaGetDeviceCount(&count))); }
"""
CUDNN_SOURCE = """
#include <cudnn_version.h>
#include <cstdio>
int main() { std::printf("%d.%d.%d\\n", CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL); }
"""


@pytest.fixture
def kernel(wish: dict) -> str:
    """The kernel that the image will boot; another one runs here."""
    return wish["system_kernel_target"]


def test_dkms_built_the_real_module_for_the_asked_kernel(host: Host, wish: dict, kernel: str) -> None:
    version = wish["system_driver_version"]
    with host.sudo():
        assert f"nvidia-current/{version}, {kernel}, x86_64: installed" in host.check_output("dkms status")
        fields = host.check_output("modinfo -k %s nvidia-current", kernel)
    found = dict(line.split(":", 1) for line in fields.splitlines() if ":" in line and not line.startswith("alias"))
    assert found["version"].strip() == version and found["license"].strip() == "NVIDIA"
    assert found["vermagic"].split()[0] == kernel
    # The stand-in of the other hosts has a few kB.
    assert host.file(f"/lib/modules/{kernel}/updates/dkms/nvidia-current.ko").size > 10_000_000


def test_packages_of_the_driver_have_one_version_and_keep_it(host: Host, wish: dict) -> None:
    version = wish["system_driver_version"]
    for name in ("nvidia-kernel-dkms", "nvidia-smi", "libcuda1", "libnvidia-ml1", "firmware-nvidia-gsp"):
        assert host.package(name).version.startswith(version + "-"), name
    policy = host.check_output("apt-cache policy nvidia-smi")
    assert f"Candidate: {version}-" in policy
    blacklist = host.check_output("apt-config dump Unattended-Upgrade::Package-Blacklist")
    assert '"^(lib)?nvidia-"' in blacklist


def test_components_come_from_the_hosts_own_mirror(host: Host) -> None:
    sources = host.file("/etc/apt/sources.list.d/gpuwright-components.sources").content_string
    own = host.check_output("cat /etc/apt/sources.list")
    addresses = [line.split()[1] for line in sources.splitlines() if line.startswith("URIs:")]
    assert addresses and all(address in own for address in addresses)
    assert "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg" in sources
    assert "nvidia-kernel-dkms" in host.check_output("apt-cache policy nvidia-kernel-dkms")


def test_nouveau_is_blacklisted(host: Host) -> None:
    with host.sudo():
        assert "blacklist nouveau" in host.check_output("modprobe --showconfig")


def test_nvcc_compiles_for_volta(host: Host) -> None:
    assert "V11.8.89" in host.check_output("nvcc --version")
    assert not host.file("/usr/local/cuda").exists
    host.check_output("printf '%%s' %s > /tmp/twice.cu", KERNEL_SOURCE)
    host.check_output("nvcc -gencode arch=compute_70,code=sm_70 -o /tmp/twice /tmp/twice.cu")
    assert "sm_70" in host.check_output("cuobjdump --list-elf /tmp/twice")
    # 35: the driver that is installed is not the one that runs, which is none; 100: no device.
    assert host.check_output("/tmp/twice") in ("35", "100")


def test_cudnn_of_the_wheel_compiles_and_is_the_planned_one(host: Host) -> None:
    (prefix,) = host.check_output("find /opt/gpuwright/cudnn -maxdepth 1 -type l").split()
    version = prefix.rpartition("/")[2]
    host.check_output("printf '%%s' %s > /tmp/cudnn.cpp", CUDNN_SOURCE)
    host.check_output("g++ -I%s/include -o /tmp/cudnn /tmp/cudnn.cpp", prefix)
    assert host.check_output("/tmp/cudnn") == version
    assert host.file(f"{prefix}/lib/libcudnn.so.{version.split('.')[0]}").exists
    assert host.file(prefix).user == "root"


def test_nvidia_smi_says_that_no_driver_is_loaded(host: Host) -> None:
    answer = host.run("nvidia-smi")
    assert answer.rc == 9 and "couldn't communicate with the NVIDIA driver" in answer.stdout


def test_environment_and_trainer_are_there(host: Host, as_trainer) -> None:
    assert as_trainer("/opt/gpuwright/venvs/current/bin/python -c 'import torch, gan_trainer'").rc == 0
    assert (
        as_trainer(
            "/opt/gpuwright/venvs/current/bin/train-gan --config /etc/gpuwright/train-gan/default.yml --dry-run"
        ).rc
        == 0
    )


def test_one_run_judges_both_systems_of_the_inventory(host: Host) -> None:
    """The node without a GPU fails for just that reason, said on its page; the RHEL stand-in beside it passes."""
    inventory = os.environ["MOLECULE_EPHEMERAL_DIRECTORY"] + "/inventory"
    command = ["ansible-playbook", "-i", inventory, "playbooks/verify.yml"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=900)
    assert done.returncode != 0, done.stdout[-2000:]
    reports = {name: json.loads((REPOSITORY / f"reports/{name}.json").read_text()) for name in ("deb12-01", "a5-51")}
    assert {name: report["verdict"] for name, report in reports.items()} == {"deb12-01": "FAIL", "a5-51": "PASS"}
    checks = {check["id"]: check for check in reports["deb12-01"]["checks"]}
    reachable = checks["driver.reachable"]
    assert (reachable["status"], "exit status 9" in reachable["message"]) == ("FAIL", True) and reachable["action"]
    for name in ("cuda.version", "cudnn.version", "framework.lock", "model.trainer_installed", "smoke.amp"):
        assert checks[name]["status"] == "PASS", checks[name]
    page = (REPOSITORY / "reports/index.html").read_text()
    rows = page.partition("<tbody>")[2]
    assert "exit status 9" in page and rows.index("deb12-01") < rows.index("a5-51")
    assert page.count("<i>simulated</i>") >= 2 and "Simulated on this page" in page


def test_dcgm_is_refused_where_no_repository_has_it(host: Host) -> None:
    inventory = os.environ["MOLECULE_EPHEMERAL_DIRECTORY"] + "/inventory"
    command = ["ansible-playbook", "-i", inventory, "-l", "deb12-01", "-e", "system_monitor_dcgm=true"]
    command += ["playbooks/system.yml", "--tags", "system_monitor"]
    plain = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0"}
    done = subprocess.run(command, cwd=REPOSITORY, env=plain, capture_output=True, text=True, timeout=300)
    assert done.returncode != 0
    assert "Set system_driver_source: nvidia, or system_monitor_dcgm: false" in " ".join(done.stdout.split())
    assert "changed=0 " in done.stdout
