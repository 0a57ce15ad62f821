"""The stand-ins of EL 9 and EL 10: what of NVIDIA's repositories they are offered, and what they call themselves."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

FLEET = Path(__file__).resolve().parents[2] / "fleet"
sys.path[:0] = [str(FLEET), str(FLEET.parent)]

import run  # noqa: E402
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
        (served / "installed-debs.txt").write_text(f"linux-image-{os.uname().release}.deb")
        if system == "el8":
            return image.build_el_image(tmp_path / "base", served)
        return image.build_debian_image(tmp_path / "base", served, system)

    assert name("first") == name("first") != name("second")


def test_a_machine_without_the_python_of_el10_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setattr(interpreter, "candidates", lambda version: [str(shim)])
    with pytest.raises(FleetError, match=r"Python 3\.12, and none was found.*Install Python 3\.12 with its venv"):
        interpreter.find_python("3.12")


SHORT = list(run.ONE_OF_THREE.values())


@pytest.mark.parametrize("system", SHORT, ids=[system.scenario for system in SHORT])
def test_the_short_scenario_has_a_host_of_the_long_one(system: run.ShortSystem) -> None:
    """From bare to verified, and a second run that changes nothing: Molecule's step idempotence."""
    fleets = yaml.safe_load((FLEET / "hosts.yml").read_text())["fleets"]
    settings = yaml.safe_load((FLEET.parent / "molecule" / system.scenario / "molecule.yml").read_text())
    (host,) = fleets[system.scenario]
    assert [platform["name"] for platform in settings["platforms"]] == [host]
    assert any(host in fleets[whole] for whole in run.SYSTEM_SCENARIOS)
    assert settings["scenario"]["test_sequence"] == ["destroy", "create", "converge", "idempotence", "destroy"]


def test_its_host_has_the_variables_of_the_long_scenario() -> None:
    def links(scenario: str) -> dict[str, Path]:
        folder = FLEET.parent / "molecule" / scenario
        settings = yaml.safe_load((folder / "molecule.yml").read_text())
        return {key: (folder / path).resolve() for key, path in settings["provisioner"]["inventory"]["links"].items()}

    wholes = dict(zip(SHORT, run.SYSTEM_SCENARIOS, strict=True))
    assert all(links(short.scenario) == links(whole) for short, whole in wholes.items())


def test_make_test_runs_its_kinds_once_and_this_one_beside_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path
) -> None:
    """First lint, then unit; of the others, those of one chain in its order."""
    begun: list[str] = []

    def kind(name: str) -> Callable[[run.Suite], None]:
        def note(suite: run.Suite) -> None:
            begun.append(name)
            suite.add(name, True)

        return note

    umask, zone = os.umask(0o022), os.environ.get("TZ", "UTC")
    monkeypatch.setenv("TZ", zone)
    monkeypatch.setattr(run, "SUITES", {name: kind(name) for name in run.SUITES})
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    monkeypatch.setattr(run, "UMASK", umask)
    monkeypatch.setattr(run, "ZONE", zone)
    monkeypatch.delenv("FLEET", raising=False)
    assert run.main("all") == 0
    told = capsys.readouterr().out
    expected = ["lint", "unit", "trainer", "molecule", "collection", "system", "interruptions"]
    assert begun[:2] == expected[:2] and sorted(begun) == sorted(expected)
    for chain in (chain for chains in run.ROUNDS for chain in chains):
        assert [name for name in begun if name in chain] == list(chain)
    assert any("system" in chain and len(chains) > 1 for chains in run.ROUNDS for chain in chains)
    assert all(f"\n{name} " in told for name in expected) and "7 passed, 0 failed, 0 skipped" in told


# A commit's id, of SHA-1 or SHA-256, and the system that it chooses: the remainder by three of the id as a number.
CHOICES = {
    "0000000000000000000000000000000000000000": "el9",
    "0000000000000000000000000000000000000001": "el10",
    "fffffffffffffffffffffffffffffffffffffffe": "debian13",
    "ffffffffffffffffffffffffffffffffffffffff": "el9",
    "16016c4c06c8d7ffef09341b7832f8d09cf73791": "el9",
    "3610408e1d55684854065440e6b16d2b6348e896": "debian13",
    "0000000000000000000000000000000000000000000000000000000000000004": "el10",
}


@pytest.mark.parametrize(("commit", "chosen"), CHOICES.items())
def test_the_commit_chooses_one_of_three(commit: str, chosen: str) -> None:
    assert run.one_of_three("", commit)[0] == chosen


def test_commits_are_shared_out_evenly() -> None:
    ids = (hashlib.sha1(str(number).encode()).hexdigest() for number in range(3000))
    chosen = Counter(run.one_of_three("", commit)[0] for commit in ids)
    assert set(chosen) == {"el9", "el10", "debian13"} and min(chosen.values()) > 900


def test_a_choice_says_why_and_how_it_is_repeated() -> None:
    name, why = run.one_of_three("", "fffffffffffffffffffffffffffffffffffffffe")
    told = run.choice_line(name, why)
    assert "commit ffffffffffff chooses it" in told and "SYSTEM=debian13 make system" in told
    system = run.ONE_OF_THREE["debian13"]
    assert "Debian 13" in told and f"about {system.seconds} s and, at first, {system.megabytes} MB" in told


def test_somebody_may_choose_it_and_a_tree_without_commits_has_the_first() -> None:
    assert run.one_of_three("el10", "0" * 40) == ("el10", "SYSTEM=el10 asks for it")
    name, why = run.one_of_three("", "")
    assert name == "el9" and "no commit" in why


def test_a_choice_that_there_is_not_is_an_error() -> None:
    with pytest.raises(SystemExit, match="SYSTEM=el11 is none of el9, el10, debian13"):
        run.one_of_three("el11", "0" * 40)


@pytest.mark.parametrize("wanted", ["all", "system"])
def test_such_a_choice_ends_make_test_before_anything_runs(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    monkeypatch.setattr(run, "run_kind", lambda kind: pytest.fail(f"{kind} ran"))
    monkeypatch.setattr(run.os, "umask", lambda mask: 0)
    monkeypatch.setenv("TZ", run.ZONE)
    monkeypatch.setenv("SYSTEM", "el11")
    with pytest.raises(SystemExit, match="SYSTEM=el11 is none of"):
        run.main(wanted)


def test_the_commit_is_that_of_the_tree(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.invalid"]
    assert run.commit_of(tmp_path) == ""
    subprocess.run([*git, "init", "--quiet"], check=True)
    assert run.commit_of(tmp_path) == ""
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message=one"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert run.commit_of(tmp_path) == head and len(head) == 40


def test_the_suite_runs_the_chosen_scenario_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(run, "run_scenarios", lambda suite, scenarios: ran.append(scenarios))
    monkeypatch.setenv("SYSTEM", "debian13")
    suite = run.Suite("system")
    run.system(suite)
    assert ran == [("debian13-alone",)]
    assert "SYSTEM=debian13 asks for it" in capsys.readouterr().out
    # Beside the counts at the end of `make test`, far below the line above.
    assert len(suite.notes) == 1 and "SYSTEM=debian13 make system" in suite.notes[0]


def test_el_10_gives_way_where_its_python_is_missing(tmp_path: Path) -> None:
    chosen = "el10", "commit 0123456789ab chooses it"
    assert run.at_hand(*chosen, pyenv=tmp_path, path="") == (
        "el9",
        "commit 0123456789ab chooses EL 10, and this machine has no Python 3.12 to make it with",
    )
    asked = "el10", "SYSTEM=el10 asks for it"
    assert run.at_hand(*asked, pyenv=tmp_path, path="") == asked
    assert run.at_hand("debian13", chosen[1], pyenv=tmp_path, path="")[0] == "debian13"
    (tmp_path / "versions/3.12.1").mkdir(parents=True)
    assert run.at_hand(*chosen, pyenv=tmp_path, path="") == chosen
