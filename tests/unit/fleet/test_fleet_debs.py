"""The fleet's stand-ins for apt: control files, an index that apt reads, names that a real kernel's release allows."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

FLEET = Path(__file__).resolve().parents[2] / "fleet"
sys.path.insert(0, str(FLEET))

from gpuwright_fleet import debs, repositories, specs  # noqa: E402
from test_plan_questions import ask  # noqa: E402

KERNEL = "6.1.0-50-amd64"


@pytest.fixture(scope="module")
def data() -> dict:
    return yaml.safe_load((FLEET / "debian12/repositories.yml").read_text())


@pytest.fixture(scope="module")
def packages(data: dict) -> list[specs.Package]:
    return specs.expand(data, KERNEL)


def control(text: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in text.splitlines())


def test_control_file_says_what_the_list_says(packages: list[specs.Package]) -> None:
    found = {(package.name, package.version): control(debs.control_text(package)) for package in packages}
    driver = found["cuda-drivers", "580.95.05"]
    assert driver["Depends"] == "nvidia-driver-cuda (= 580.95.05-1), nvidia-kernel-dkms (= 580.95.05-1)"
    assert (driver["Version"], driver["Architecture"]) == ("580.95.05-1", "amd64")
    assert found["datacenter-gpu-manager-4-core", "4.4.1"]["Version"] == "1:4.4.1-1"
    assert found["nvidia-kernel-common", "580.95.05"]["Architecture"] == "all"
    assert found["nvidia-kernel-dkms", "580.95.05"]["Conflicts"] == "nvidia-kernel-open-dkms"
    assert "Provides" not in driver


def test_every_relation_is_to_a_package_of_the_list_or_of_debian(packages: list[specs.Package]) -> None:
    known = {package.name for package in packages} | {"kmod", "dkms"}
    words = [word for package in packages for kind in debs.RELATIONS for word in getattr(package, kind)]
    assert words and {word.split()[0] for word in words} <= known


def test_a_bare_server_has_a_kernel_and_not_its_headers(packages: list[specs.Package]) -> None:
    installed = {package.name for package in packages if package.installed}
    assert installed == {f"linux-image-{KERNEL}", "linux-image-amd64"}
    assert f"linux-headers-{KERNEL}" in {package.name for package in packages}


def test_a_kernel_whose_name_debian_does_not_allow_is_left_out(data: dict) -> None:
    """So that the other platforms can be built on such a machine."""
    kept = [package for package in specs.expand(data, "4.18.0-477.10.1.el8_8.x86_64") if debs.can_be_built(package)]
    names = {package.name for package in kept}
    assert not any(name.startswith(("linux-image-4", "linux-headers-4")) for name in names)
    assert {"linux-image-amd64", "cuda-drivers", "nvidia-kernel-dkms"} <= names


@pytest.mark.parametrize("pins", [{}, {"driver_branch": "570"}, {"driver_version": "580.82.07", "nccl": "2.27.5"}])
def test_whatever_is_planned_from_nvidias_repository_is_there(packages: list[specs.Package], pins: dict) -> None:
    plan = ask("V100", "debian 12", driver_source="nvidia", **pins)
    wanted = [*plan["driver"]["packages"], plan["cuda"]["package"]]
    wanted += plan["cudnn"]["packages"] + plan["nccl"]["packages"] + plan["dcgm"]["packages"] + plan["dcgm"]["exporter"]
    versions: dict[str, set[str]] = {}
    for package in packages:
        versions.setdefault(package.name, set()).add(debs.deb_version(package))
    for name, _, version in (word.partition("=") for word in wanted):
        assert any(found.startswith(version.rstrip("*")) for found in versions[name]), (name, version)


def names_of(data: dict, repository: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    """Names and versions of a repository that is made from another one."""
    monkeypatch.setattr(repositories, "expand", lambda data, release: specs.expand(data, KERNEL))
    entry = data["repositories"][repository]
    whole = [package for package in specs.expand(data, KERNEL) if package.repository == entry["same_as"]]
    (tmp_path / entry["same_as"]).mkdir()
    for package in whole:
        (tmp_path / entry["same_as"] / debs.deb_file(package)).touch()
    repositories.copy_packages(data, entry, tmp_path, tmp_path / repository, debs.deb_file)
    files = {path.name for path in (tmp_path / repository).iterdir()}
    return {(package.name, debs.deb_version(package)) for package in whole if debs.deb_file(package) in files}


def test_debian_13_begins_with_590_and_cuda_13_and_has_no_dcgm(
    data: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = names_of(data, "cuda-debian13-x86_64", tmp_path, monkeypatch)
    assert {version[:3] for name, version in found if name == "nvidia-open"} == {"590", "595", "620"}
    toolkits = {name for name, _ in found if name.startswith("cuda-toolkit-")}
    assert toolkits == {"cuda-toolkit-13-1", "cuda-toolkit-13-2", "cuda-toolkit-13-4"}
    assert not any("gpu-manager" in name or name.endswith("cuda-12") for name, _ in found)


def test_what_debian_13_is_planned_to_get_is_there(data: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a pin: the plan's own choice for the card of the stand-in."""
    plan = ask("T4", "debian 13", driver_source="nvidia")
    wanted = [*plan["driver"]["packages"], plan["cuda"]["package"], *plan["cudnn"]["packages"]]
    assert wanted and not plan["dcgm"]["packages"]
    found = names_of(data, "cuda-debian13-x86_64", tmp_path, monkeypatch)
    for name, _, version in (word.partition("=") for word in wanted):
        assert any(there == name and is_.startswith(version.rstrip("*")) for there, is_ in found), (name, version)


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="this controller builds no packages for Debian")
@pytest.mark.usefixtures("open_umask")
def test_the_index_describes_the_files(tmp_path: Path, packages: list[specs.Package]) -> None:
    wanted = [package for package in packages if package.name in ("libnccl2", "nvidia-kernel-dkms")]
    (tmp_path / "work").mkdir()
    for package in wanted:
        debs.build_deb(package, tmp_path, tmp_path / "work", tmp_path / "out")
    folder = tmp_path / "out/cuda-debian12-x86_64"
    entries = [control(entry) for entry in debs.write_index(folder).read_text().split("\n\n")]
    assert {entry["Package"] for entry in entries} == {"libnccl2", "nvidia-kernel-dkms"}
    for entry in entries:
        content = (folder / entry["Filename"]).read_bytes()
        assert (int(entry["Size"]), entry["SHA256"]) == (len(content), hashlib.sha256(content).hexdigest())
    module = next(folder.glob("nvidia-kernel-dkms_580.95*"))
    listing = subprocess.run(["dpkg-deb", "--contents", module], capture_output=True, text=True, check=True).stdout
    assert "./usr/src/nvidia-580.95.05/dkms.conf" in listing and " root/root " in listing
    script = subprocess.run(["dpkg-deb", "--info", module, "postinst"], capture_output=True, text=True, check=True)
    assert "common.postinst nvidia 580.95.05" in script.stdout


def test_the_signed_file_names_the_index(tmp_path: Path) -> None:
    index = tmp_path / "Packages"
    index.write_text("Package: x\n")
    lines = debs.release_text(index, "label").splitlines()
    assert f" {hashlib.sha256(index.read_bytes()).hexdigest()} 11 Packages" in lines
    assert "Architectures: amd64" in lines and any(line.startswith("Date: ") for line in lines)
