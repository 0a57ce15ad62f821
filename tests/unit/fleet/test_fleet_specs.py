"""The fleet's list of packages becomes RPM specs and module streams."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

FLEET = Path(__file__).resolve().parents[2] / "fleet"
sys.path.insert(0, str(FLEET))

from gpuwright_fleet import specs  # noqa: E402

KERNEL = "4.18.0-477.10.1.el8_8.x86_64"


@pytest.fixture(scope="module")
def data() -> dict:
    return yaml.safe_load((FLEET / "repositories.yml").read_text())


@pytest.fixture(scope="module")
def packages(data: dict) -> list[specs.Package]:
    return specs.expand(data, KERNEL)


def test_words_are_replaced_everywhere_and_unknown_ones_stay() -> None:
    words = {"VERSION": "580.95.05"}
    assert specs.fill({"@VERSION@": ["a-@VERSION@", "@OTHER@"]}, words) == {"580.95.05": ["a-580.95.05", "@OTHER@"]}


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        (KERNEL, ("4.18.0", "477.10.1.el8_8")),
        ("6.18.44-fc-v657", ("6.18.44", "fc_v657")),
        ("6.1.0-18-amd64", ("6.1.0", "18_amd64")),
        ("5.4.0", ("5.4.0", "1")),
    ],
)
def test_kernel_release_becomes_a_legal_rpm_version(release: str, expected: tuple[str, str]) -> None:
    assert specs.rpm_version_of_kernel(release) == expected


@pytest.mark.parametrize(
    ("release", "expected"),
    [(KERNEL, "4.18.1-477.10.1.el8_8.x86_64"), ("6.18.44-fc-v657", "6.18.45-fc-v657"), ("5.4.9", "5.4.10")],
)
def test_newer_kernel_is_one_patch_level_above(release: str, expected: str) -> None:
    assert specs.newer_kernel(release) == expected


def test_kernel_devel_is_installable_by_the_name_of_the_running_kernel(packages: list[specs.Package]) -> None:
    devel = [package for package in packages if package.name == "kernel-devel"]
    assert len(devel) == 2
    assert f"kernel-devel-{KERNEL}" in devel[0].provides
    assert "kernel-devel-uname-r" in devel[0].provides


def test_only_the_running_kernel_is_installed(packages: list[specs.Package]) -> None:
    installed = {package.words["ROLE"] for package in packages if package.name == "kernel-core" and package.installed}
    assert installed == {"running"}
    assert not any(package.installed for package in packages if package.name in ("kernel-devel", "gcc", "dkms"))


def test_nevra_is_unique(packages: list[specs.Package]) -> None:
    names = [package.nevra for package in packages]
    assert len(names) == len(set(names))


def test_no_word_is_left_unreplaced(packages: list[specs.Package]) -> None:
    for package in packages:
        text = specs.spec_text(package, "/payload", ["/x"])
        assert specs.re.search(r"@[A-Z_0-9]+@", text) is None, package.name


def test_required_stand_ins_exist(packages: list[specs.Package]) -> None:
    provided = {package.name for package in packages}
    provided |= {word.split()[0] for package in packages for word in package.provides}
    for package in packages:
        for requirement in package.requires:
            assert requirement.split()[0] in provided, f"{package.name} requires {requirement}"


def test_spec_of_a_driver_package(packages: list[specs.Package]) -> None:
    package = next(p for p in packages if p.name == "kmod-nvidia-latest-dkms" and p.version == "580.95.05")
    text = specs.spec_text(package, "/payload", ['"/usr/src/x"'])
    assert "Epoch: 3\nVersion: 580.95.05\nRelease: 1.el8\n" in text
    assert "Conflicts: kmod-nvidia-open-dkms" in text
    assert "dkms install -m nvidia -v 580.95.05 -q --force || :" in text
    assert "AutoReqProv: no" in text


def test_module_streams(data: dict, packages: list[specs.Package]) -> None:
    documents = specs.module_documents(data["modules"][0], packages)
    streams = {d["data"]["stream"]: d["data"] for d in documents if d["document"] == "modulemd"}
    defaults = documents[-1]["data"]
    assert defaults["stream"] == "open-dkms"
    names = {rpm.rsplit("-", 2)[0] for rpm in streams["580-dkms"]["artifacts"]["rpms"]}
    assert "kmod-nvidia-latest-dkms" in names
    assert "kmod-nvidia-open-dkms" not in names
    assert "cuda-toolkit-12-9" not in names
    assert "nvidia-driver-3:580.82.07-1.el8.x86_64" in streams["580-dkms"]["artifacts"]["rpms"]
    assert "nvidia-driver-3:580.95.05-1.el8.x86_64" in streams["580-dkms"]["artifacts"]["rpms"]
    assert "kmod-nvidia-open-dkms" in streams["open-dkms"]["profiles"]["default"]["rpms"]
    assert "cuda-drivers" not in streams["580-dkms"]["profiles"]["ks"]["rpms"]
    old = {rpm.rsplit("-", 2)[0] for rpm in streams["535-dkms"]["artifacts"]["rpms"]}
    assert "nvidia-driver-NVML" in old
    assert "libnvidia-ml" not in old
