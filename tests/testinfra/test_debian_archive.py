"""Debian 12 and 13 with NVIDIA's own bits: the module that DKMS built, compiler, nvidia-smi, and our own verdict."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from testinfra.host import Host

pytestmark = [pytest.mark.debian12, pytest.mark.debian13]
REPOSITORY = Path(__file__).resolve().parents[2]
KERNEL_SOURCE = """
#include <cstdio>
__global__ void twice(float *x) { x[threadIdx.x] *= 2; }
int main() { int count = 0; std::printf("%d\\n", static_cast<int>(cudaGetDeviceCount(&count))); }
"""
# By release of Debian: the compiler of its archive.
COMPILER = {"12": "V11.8.89", "13": "V12.4.131"}
CUDNN_SOURCE = """
#include <cudnn_version.h>
#include <cstdio>
int main() { std::printf("%d.%d.%d\\n", CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL); }
"""


@pytest.fixture
def kernel(wish: dict) -> str:
    """The kernel that the image will boot; another one runs here."""
    return wish["system_kernel_target"]


@pytest.fixture
def version(host: Host, wish: dict) -> str:
    """The driver's version: the pinned one, else what the archive has."""
    return wish.get("system_driver_version") or host.package("nvidia-kernel-dkms").version.rpartition("-")[0]


def test_dkms_built_the_real_module_for_the_asked_kernel(host: Host, version: str, kernel: str) -> None:
    with host.sudo():
        assert f"nvidia-current/{version}, {kernel}, x86_64: installed" in host.check_output("dkms status")
        fields = host.check_output("modinfo -k %s nvidia-current", kernel)
    found = dict(line.split(":", 1) for line in fields.splitlines() if ":" in line and not line.startswith("alias"))
    assert found["version"].strip() == version and found["license"].strip() == "NVIDIA"
    assert found["vermagic"].split()[0] == kernel
    # The stand-in of the other hosts has a few kB.
    # Debian 13 compresses modules.
    (file,) = host.check_output("find /lib/modules/%s/updates/dkms -name 'nvidia-current.ko*'", kernel).split()
    assert host.file(file).size > 10_000_000


def test_packages_of_the_driver_have_one_version_and_keep_it(host: Host, version: str) -> None:
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
    assert COMPILER[host.system_info.release.partition(".")[0]] in host.check_output("nvcc --version")
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


def test_one_run_judges_all_systems_of_the_inventory(host: Host, wish: dict) -> None:
    """The node without a GPU fails for just that reason, said on its page; the RHEL stand-in beside it passes."""
    names, name = wish["groups"]["gpu_nodes"], wish["inventory_hostname"]
    inventory = os.environ["MOLECULE_EPHEMERAL_DIRECTORY"] + "/inventory"
    command = ["ansible-playbook", "-i", inventory, "playbooks/verify.yml"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=900)
    assert done.returncode != 0, done.stdout[-2000:]
    reports = {other: json.loads((REPOSITORY / f"reports/{other}.json").read_text()) for other in names}
    verdicts = {other: report["verdict"] for other, report in reports.items()}
    assert verdicts == {other: "FAIL" if other == name else "PASS" for other in names}
    checks = {check["id"]: check for check in reports[name]["checks"]}
    reachable = checks["driver.reachable"]
    assert (reachable["status"], "exit status 9" in reachable["message"]) == ("FAIL", True) and reachable["action"]
    for good in ("cuda.version", "cudnn.version", "framework.lock", "model.trainer_installed", "smoke.amp"):
        assert checks[good]["status"] == "PASS", checks[good]
    page = (REPOSITORY / "reports/index.html").read_text()
    rows = page.partition("<tbody>")[2]
    assert "exit status 9" in page and all(rows.index(name) <= rows.index(other) for other in names)
    assert page.count("<i>simulated</i>") >= len(names) and "Simulated on this page" in page


def test_dcgm_is_not_there_where_no_repository_has_it(host: Host, wish: dict) -> None:
    inventory = os.environ["MOLECULE_EPHEMERAL_DIRECTORY"] + "/inventory"
    command = ["ansible-playbook", "-i", inventory, "-l", wish["inventory_hostname"], "-e", "system_monitor_dcgm=true"]
    command += ["playbooks/system.yml", "--tags", "system_monitor"]
    plain = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0"}
    done = subprocess.run(command, cwd=REPOSITORY, env=plain, capture_output=True, text=True, timeout=300)
    assert "changed=0 " in done.stdout and not host.package("datacenter-gpu-manager").is_installed
    # NVIDIA's repository for Debian 13 has none either: there the plan has no DCGM that could be refused.
    none_planned = host.system_info.release.startswith("13")
    assert (done.returncode == 0) is none_planned, done.stdout[-2000:]
    refusal = "Set system_driver_source: nvidia, or system_monitor_dcgm: false"
    assert (refusal in " ".join(done.stdout.split())) is not none_planned
