"""What brings back a file of a package: the command of this system's package manager, where there is such a package."""

from __future__ import annotations

import healthy_node
import pytest
from gpuwright.checks.all import run_checks
from gpuwright.checks.reinstall import manager_of, reinstall
from gpuwright.verdict.check import STANDARD
from gpuwright.verdict.evidence import Evidence

PLAYBOOK = "ansible-playbook site.yml --tags system"


def action_of(check_id: str, readings: dict, **expected: object) -> str:
    records = run_checks(readings, healthy_node.expectations(**expected), healthy_node.smoke(), level=STANDARD)
    return next(record for record in records if record["id"] == check_id)["action"]


@pytest.mark.parametrize(
    ("readings", "manager"),
    [
        ({"probe": {"os": {"family": "redhat"}}, "driver_packages": {"manager": "dpkg"}}, "rpm"),
        ({"probe": {"os": {"family": "debian"}}}, "dpkg"),
        ({"probe": {"os": None}, "driver_packages": {"manager": "dpkg"}}, "dpkg"),
        ({"probe": {"unreadable": "no /proc"}, "driver_packages": {"unreadable": "rpm"}}, "rpm"),
        ({}, "rpm"),
    ],
)
def test_the_package_manager_is_that_of_the_system(readings, manager):
    assert manager_of(Evidence(readings, "readings")) == manager


@pytest.mark.parametrize(
    ("family", "words"),
    [
        (
            "redhat",
            "Run: sudo dnf reinstall -y $(rpm -qf /usr/lib64/libcuda.so.1) # Where no package has it: " + PLAYBOOK,
        ),
        ("debian", "--reinstall $(dpkg -S libcuda.so.1 | grep -v ^diversion | cut -d: -f1 | sort -u) # Where"),
    ],
)
def test_a_library_comes_back_by_its_package(family, words):
    readings = healthy_node.readings()
    readings["driver_files"]["libraries"]["libcuda.so.1"] = None
    readings["probe"]["os"] = {"family": family}
    readings["driver_packages"]["packages"][0]["name"] = "libcuda1"
    assert words in action_of("driver.libraries", readings)


def test_without_the_package_only_the_playbook_helps():
    readings = healthy_node.readings()
    readings["driver_files"]["nvidia_smi"] = None
    assert action_of("driver.nvidia_smi_file", readings).startswith(
        "Run: sudo dnf reinstall -y $(rpm -qf /usr/bin/nvidia-smi)"
    )
    for package in readings["driver_packages"]["packages"]:
        package["name"] = "kmod-nvidia-latest-dkms"
    assert action_of("driver.nvidia_smi_file", readings) == "Run: " + PLAYBOOK
    readings["driver_packages"] = {"unreadable": "rpm did not answer"}
    assert action_of("driver.nvidia_smi_file", readings).startswith("Run: sudo dnf reinstall -y ")


@pytest.mark.parametrize(
    ("rc", "words"),
    [(None, "/usr/bin/nvidia-smi"), (12, "/libnvidia-ml.so.1")],
)
def test_what_the_driver_lacks_is_named(rc, words):
    readings = healthy_node.readings()
    readings["nvidia_smi"].update(reachable=False, status="not_installed", message="missing", rc=rc, gpus=[])
    assert words in action_of("driver.reachable", readings)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["nvidia-persistenced"], "Run: sudo systemctl unmask nvidia-persistenced ; sudo systemctl enable"),
        (["nvidia-compute-utils-580-server"], "Run: sudo systemctl unmask"),
        (["kmod-nvidia-latest-dkms"], "Run: sudo dnf install -y nvidia-persistenced ; sudo systemctl enable --now"),
        ([], "Run: sudo systemctl unmask"),
    ],
)
def test_a_daemon_whose_package_was_removed_is_installed(names, words):
    readings = healthy_node.readings()
    readings["persistenced"] = "inactive"
    package = readings["driver_packages"]["packages"][0]
    readings["driver_packages"]["packages"] = [{**package, "name": name} for name in names]
    assert action_of("driver.persistence", readings).startswith(words)


def test_the_files_of_the_toolkit_and_cudnn_are_named_where_they_belong():
    readings = healthy_node.readings()
    readings["cuda"]["nvcc"] = None
    readings["cudnn"]["library"] = None
    readings["nccl"]["library"] = None
    assert "/usr/local/cuda-12.9/bin/nvcc" in action_of("cuda.version", readings)
    assert "/usr/lib64/libcudnn.so.9)" in action_of("cudnn.version", readings)
    assert reinstall(Evidence({}, "readings"), "/x/y", "system_cuda").endswith("--tags system_cuda")


def test_two_versions_are_brought_to_one_by_the_manager_that_is_there():
    readings = healthy_node.readings()
    readings["driver_packages"]["packages"][0]["version"] = "570.1"
    assert action_of("driver.packages", readings).startswith("Run: sudo dnf distro-sync -y '*nvidia*'")
    readings["driver_packages"]["manager"] = "dpkg"
    name = readings["driver_packages"]["packages"][0]["name"]
    assert f"apt-get install -y --allow-downgrades {name}=580.95.05* # Then" in action_of("driver.packages", readings)
