"""The stand-ins of EL 9 and EL 10: what of NVIDIA's repositories they are offered, and what they call themselves."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import yaml

FLEET = Path(__file__).resolve().parents[2] / "fleet"
sys.path[:0] = [str(FLEET), str(FLEET.parent)]

from gpuwright_fleet import containers, image, interpreter, inventory, repositories, specs  # noqa: E402
from gpuwright_fleet.shell import FleetError  # noqa: E402
from test_plan_questions import ask  # noqa: E402

DATA = yaml.safe_load((FLEET / "repositories.yml").read_text())
HOSTS = yaml.safe_load((FLEET / "hosts.yml").read_text())["hosts"]
KERNEL = "4.18.0-477.10.1.el8_8.x86_64"


def offered(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files of a repository that is made from another one."""
    monkeypatch.setattr(repositories, "expand", lambda data, release: specs.expand(data, KERNEL))
    entry = DATA["repositories"][name]
    folder = tmp_path / entry["same_as"] / "Packages"
    folder.mkdir(parents=True)
    for package in specs.expand(DATA, KERNEL):
        if package.repository == entry["same_as"]:
            (folder / repositories.rpm_file(package)).touch()
    repositories.copy_packages(DATA, entry, tmp_path, tmp_path / name, repositories.rpm_place)
    return sorted(path.name for path in (tmp_path / name / "Packages").iterdir())


def branches(files: list[str]) -> set[str]:
    return {name.split("-")[3][:3] for name in files if name.startswith("nvidia-driver-cuda-5")}


def test_el9_has_all_branches_in_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = offered("cuda-rhel9-x86_64", tmp_path, monkeypatch)
    assert {"570", "580", "590"} <= branches(files)
    streams = {entry["data"].get("stream") for entry in repositories.documents_of(DATA, "cuda-rhel9-x86_64")}
    assert {"580-dkms", "580-open"} <= streams


def test_el10_has_no_streams_and_begins_with_580_and_cuda_13(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = offered("cuda-rhel10-x86_64", tmp_path, monkeypatch)
    assert branches(files) == {"580", "590"}
    assert [name for name in files if name.startswith("cuda-toolkit-")] == ["cuda-toolkit-13-0-13.0.2-1.x86_64.rpm"]
    assert repositories.documents_of(DATA, "cuda-rhel10-x86_64") == []
    assert repositories.documents_of(DATA, "cuda-rhel8-x86_64")
    # What a plan for the stand-in installs is there.
    plan = ask("T4", "rhel 10.0", driver_branch="580")
    wanted = [name.removesuffix("*") for name in plan["driver"]["packages"]] + plan["cudnn"]["packages"]
    assert [name for name in wanted if not any(file.startswith(name) for file in files)] == []


@pytest.mark.parametrize(("name", "number"), [("el9-01", "9"), ("el10-01", "10")])
def test_a_host_is_called_and_served_as_its_system(name: str, number: str) -> None:
    host = containers.Host(name, "10.9.8.10", HOSTS[name])
    fingerprints = dict.fromkeys(("epel", "nvidia", "redhat"), "1" * 40)
    group = inventory.inventory([host], Path("/state"), fingerprints, {})["gpu_nodes"]
    assert group["hosts"][name]["system_driver_repository_url"].endswith(f"/cuda-rhel{number}-x86_64")
    folder = FLEET / f"el{number}"
    assert f'VERSION_ID="{number}.' in (folder / "identity/os-release").read_text()
    assert f"platform:el{number}" in (folder / "overlay/etc/dnf/dnf.conf").read_text()
    assert f"rhel-{number}-for-x86_64-baseos-rpms" in (folder / "overlay/etc/yum.repos.d/redhat.repo").read_text()


def test_a_python_of_this_machine_is_brought_whole_to_where_a_distribution_has_it(tmp_path: Path) -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    found = interpreter.find_python(version)
    assert found.version.startswith(f"{version}.")
    interpreter.copy_python(found, version, tmp_path)
    program, library = tmp_path / f"usr/bin/python{version}", tmp_path / f"usr/lib/python{version}"
    assert program.stat().st_mode & 0o111 and (library / "os.py").exists()
    wheels = tmp_path / found.wheels.strip("/") if found.wheels else library / "ensurepip/_bundled"
    assert list(wheels.glob("pip-*.whl"))
    assert list((library / "site-packages").iterdir()) == [] and not (library / "test").exists()
    assert (tmp_path / "usr/lib64").exists() == bool(found.shared)


@pytest.mark.parametrize("system", ["el8", "debian12"])
def test_an_image_trusts_the_keys_of_the_repositories_at_hand(
    system: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Packages are signed anew where the cache was emptied; an image from before would refuse them."""
    monkeypatch.setattr(image, "build_image", lambda name, *_: name)

    def name(keys: str) -> str:
        served = tmp_path / keys / "repositories-0123"
        (served / "keys").mkdir(parents=True, exist_ok=True)
        (served / "keys/vendor.asc").write_text(keys)
        (served / "installed-debs.txt").write_text(f"debian-kernel/linux-image-{os.uname().release}.deb")
        if system == "el8":
            return image.build_el_image(tmp_path / "base", served)
        return image.build_debian_image(tmp_path / "base", served, system)

    assert name("first") == name("first") != name("second")


def test_debian_gets_its_own_kernel_and_none_of_ubuntu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    served, context = tmp_path / "repositories-0123", tmp_path / "context"
    own = f"debian-kernel/linux-image-{os.uname().release}.deb"
    for line in (own, "ubuntu2404/linux-image-6.8.0-1040-aws.deb"):
        (served / line).parent.mkdir(parents=True)
        (served / line).write_text("")
    (served / "installed-debs.txt").write_text(f"{own}\nubuntu2404/linux-image-6.8.0-1040-aws.deb\n")
    (served / "keys").mkdir()
    context.mkdir()
    monkeypatch.setattr(image, "build_image", lambda name, parent, fill: fill(context))
    image.build_debian_image(tmp_path / "base", served, "debian12")
    assert [file.name for file in (context / "installed").iterdir()] == [Path(own).name]


def test_a_machine_without_the_python_of_el10_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setattr(interpreter, "candidates", lambda version: [str(shim)])
    with pytest.raises(FleetError, match=r"Python 3\.12, and none was found.*Install Python 3\.12 with its venv"):
        interpreter.find_python("3.12")
