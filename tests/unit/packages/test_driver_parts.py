"""Which packages belong to a driver: one list, and every reader of it knows all of them."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from gpuwright.checks.driver.packages_reading import read_driver_packages
from gpuwright.driver_change import kept_packages
from gpuwright.gpu.driver_parts import of_driver
from gpuwright.host.bounded import Finished
from host_tree import HostTree, answers
from test_apt_files import unattended_of
from test_plan_questions import MATRIX, REPOSITORY

# Of NVIDIA's repositories, RPM Fusion, Debian's and Ubuntu's archives, some branch of each.
VERSIONED = [
    "nvidia-driver-cuda",
    "kmod-nvidia-open-dkms",
    "akmod-nvidia",
    "xorg-x11-drv-nvidia-cuda",
    "cuda-drivers-580",
    "libnvidia-ml1",
    "libcuda1",
    "libcudadebugger1",
    "libnvcuvid1",
    "libnvfbc1",
    "libnvoptix1",
    "linux-modules-nvidia-580-server-generic",
    "linux-modules-nvidia-580-server-open-nvidia-hwe-22.04",
    "linux-modules-nvidia-580-server-6.8.0-1020-nvidia",
    "linux-objects-nvidia-580-server-open-6.8.0-1020-nvidia",
    "linux-signatures-nvidia-6.8.0-1020-nvidia",
    "firmware-nvidia-gsp",
    "libnvsdm",
    "libnvsdm-580",
    "libnvidia-nscq-580",
    "nvidia-fabricmanager",
    "nvidia-fabric-manager",
    "nvidia-imex-570",
    "libXNVCtrl",
    "libxnvctrl0",
]
APART = ["nvlsm"]
# Ubuntu's flavour of kernels for NVIDIA's platforms, with what is built of the same source; nouveau's firmware.
KERNELS = [
    *("linux-nvidia", "linux-nvidia-hwe-22.04", "linux-nvidia-64k-6.8", "linux-nvidia-6.8-headers-6.8.0-1020"),
    *("linux-image-nvidia", "linux-image-nvidia-hwe-22.04", "linux-image-6.8.0-1020-nvidia"),
    *("linux-image-unsigned-6.8.0-1020-nvidia-64k", "linux-image-nvidia-lowlatency", "linux-image-nvidia-tegra"),
    *("linux-headers-nvidia", "linux-headers-6.8.0-1020-nvidia", "linux-headers-nvidia-64k-hwe-24.04"),
    *("linux-modules-6.8.0-1020-nvidia", "linux-modules-extra-6.8.0-1020-nvidia", "linux-modules-extra-nvidia"),
    *("linux-tools-nvidia", "linux-tools-6.8.0-1020-nvidia", "linux-cloud-tools-6.8.0-1020-nvidia"),
    *("linux-buildinfo-6.8.0-1020-nvidia", "linux-modules-iwlwifi-nvidia", "linux-lib-rust-6.8.0-1020-nvidia"),
    *("linux-modules-nvidia-fs-6.8.0-1020-nvidia", "linux-modules-nvidia-fs-nvidia-hwe-24.04"),
]
FIRMWARE = ["firmware-nvidia-graphics", "linux-firmware-nvidia-graphics", "nvidia-gpu-firmware"]
FOREIGN = ["nvidia-container-toolkit", "libnvidia-container1", "libnvidia-container-tools", *KERNELS, *FIRMWARE]
TOOLKIT = ["cuda-toolkit-12-9", "libcudnn9-cuda-12", "libnccl2"]
OTHERS = ["openssl", "linux-image-generic", "infiniband-diags", "libcurl4"]
PLAN: dict[str, Any] = {"driver_parts": MATRIX["driver_parts"], "driver": {}, "kernel": {"updated": []}}


def of_role(role: str, name: str, **variables: Any) -> Any:
    """A private variable of a role, for a node with that plan."""
    known = yaml.safe_load((REPOSITORY / f"roles/{role}/vars/main.yml").read_text())
    templar = Templar(loader=DataLoader(), variables={**known, "ansible_facts": {"gpu_node_plan": PLAN}, **variables})
    return templar.template(known[name])


def taken(patterns: list[str], names: list[str]) -> list[str]:
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def test_the_hold_and_the_way_back_of_a_role_know_every_package() -> None:
    names = VERSIONED + APART
    assert taken(of_role("system_driver", "__system_driver_patterns"), names + TOOLKIT + OTHERS) == names


def test_an_upgrade_keeps_what_counts_versions_of_its_own() -> None:
    """A fabric manager that went back would stand beside the subnet manager of the newer one."""
    steps = yaml.safe_load((REPOSITORY / "roles/upgrade/tasks/keep.yml").read_text())
    asked = steps[0]["gpuwright.node.kept_driver"]["patterns"]
    patterns = Templar(loader=DataLoader(), variables={"ansible_facts": {"gpu_node_plan": PLAN}}).template(asked)
    assert taken(patterns, VERSIONED) == VERSIONED
    also = of_role("upgrade", "__upgrade_also", upgrade_difference={"libraries": []})
    assert taken(also, VERSIONED + APART + TOOLKIT) == APART
    also = of_role("upgrade", "__upgrade_also", upgrade_difference={"libraries": ["cuDNN", "NCCL"]})
    assert taken(also, APART + TOOLKIT) == [*APART, *TOOLKIT[1:]]


def test_other_updates_leave_the_driver_to_an_upgrade() -> None:
    names = VERSIONED + APART + TOOLKIT
    excluded = of_role("patch", "__patch_dnf_excludes", __patch_kernel_waits=False)
    assert taken(excluded, names + OTHERS) == names
    lines = [f"Inst {name} [1] (2 Debian-Security:12 [amd64])" for name in names + FOREIGN + OTHERS]
    asked = {"__patch_apt": {"stdout_lines": lines}, "__patch_kernel_names": [], "patch_updates": "all"}
    assert of_role("patch", "__patch_apt_names", **asked) == FOREIGN + OTHERS


def test_unattended_upgrades_leave_it_alone() -> None:
    plan = {**PLAN, "driver": {"preference": {"package": "", "version": ""}, "signed": False}}
    patterns = re.findall(r'"(\^.*)";', unattended_of(plan))
    names = VERSIONED + APART + TOOLKIT
    known = names + FOREIGN + OTHERS
    left_alone = [name for name in known if any(re.match(pattern, name) for pattern in patterns)]
    # A kernel for NVIDIA's platforms would come without its prebuilt module, which stays where the driver stays.
    assert sorted(left_alone) == sorted(names + KERNELS)


@pytest.mark.parametrize("family", ["debian12", "debian13", "ubuntu2204", "ubuntu2404"])
def test_apts_preference_keeps_all_of_it_to_the_branch(family: str) -> None:
    patterns = MATRIX["os_families"][family]["driver_names"].split()
    # Names of other systems' packagers are in no Debian repository.
    names = [name for name in VERSIONED if not re.match("akmod|kmod|xorg|linux-|libXNVCtrl|firmware", name)]
    # One is Fedora's.
    others = [name for name in FOREIGN if name != "nvidia-gpu-firmware"] + OTHERS
    assert taken(patterns, names + others) == names


@pytest.mark.parametrize("name", VERSIONED + APART)
def test_the_node_knows_a_package_of_the_driver(name: str) -> None:
    assert of_driver(name)


@pytest.mark.parametrize("name", FOREIGN + TOOLKIT + OTHERS)
def test_the_node_knows_what_belongs_to_no_driver(name: str) -> None:
    assert not of_driver(name)


@pytest.mark.parametrize(("family", "form"), [("redhat", "{} 1-1 x86_64"), ("debian", "installed {} 1-1 amd64")])
def test_a_way_back_leaves_what_belongs_to_no_driver(monkeypatch: Any, family: str, form: str) -> None:
    """A kernel or container toolkit that came since the upgrade began would be removed with the newer driver."""
    rows = "\n".join(form.format(name) for name in VERSIONED + FOREIGN)
    monkeypatch.setattr(kept_packages, "run_bounded", lambda *_, **__: Finished(0, rows, "", False, False, False, ""))
    assert [package.name for package in kept_packages.installed(family, ["*nvidia*"])] == sorted(VERSIONED)


@pytest.mark.parametrize("manager", ["rpm", "dpkg"])
def test_the_reading_asks_for_every_package_of_the_drivers_version(tmp_path: Any, manager: str) -> None:
    tree = HostTree(tmp_path)
    tree.put("/var/lib/rpm/rpmdb.sqlite" if manager == "rpm" else "/var/lib/dpkg/status")
    asked: list[str] = []

    def run(command: Any, seconds: float) -> Finished:
        asked.extend(command[4:])
        return Finished(0, "", "", False, False, False, "")

    read_driver_packages(tree.root, None, answers(), [], [], run)
    assert taken(asked, VERSIONED) == VERSIONED
