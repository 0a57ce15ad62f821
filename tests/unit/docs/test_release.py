"""The version stands in one file, and the pages of a release say what is so."""

from __future__ import annotations

import fnmatch
import json
import re
from itertools import pairwise
from pathlib import Path

import yaml
from text_parts import part_of

REPOSITORY = Path(__file__).resolve().parents[3]
VERSION = yaml.safe_load((REPOSITORY / "galaxy.yml").read_text())["version"]
DEPLOY = REPOSITORY / "deploy"
SUPPORT = (REPOSITORY / "SUPPORT.md").read_text()


def rows(title: str) -> list[list[str]]:
    """The cells of the table below a title of SUPPORT.md, without its head."""
    table = SUPPORT.partition(f"# {title}\n")[2].split("\n#")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def versions_found() -> dict[str, list[str]]:
    """Every place that repeats the version, and what it says."""
    places = {
        REPOSITORY / "trainer/gan_trainer/__init__.py": r'__version__ = "(.+)"',
        DEPLOY / "container/Containerfile": r"(?:ARG VERSION=|gan-trainer:)([\d.]+)",
        REPOSITORY / "docs/containers.md": r"gan-trainer:([\d.]+\d)",
        REPOSITORY / "docs/air-gapped.md": r"(?:gan-trainer[:-]|gpuwright-node-)([\d.]+\d)",
        REPOSITORY / "docs/awx.md": r"gpuwright-ee:([\d.]+\d)",
        REPOSITORY / "execution-environment.yml": r"gpuwright-ee:([\d.]+\d)",
        REPOSITORY / "roles/bundle/defaults/main.yml": r"gan-trainer-([\d.]+\d)\.tar",
        REPOSITORY / "trainer/pyproject.toml": r'(?m)^version = "(.+)"',
        REPOSITORY / "docs/upgrading.md": r"--detach v([\d.]+)",
        REPOSITORY / "docs/collection.md": r"gpuwright-node-([\d.]+)\.tar",
        **{file: r"gan-trainer:([\d.]+)" for file in sorted((DEPLOY / "kubernetes").rglob("*.yml"))},
    }
    found = {str(file.relative_to(REPOSITORY)): re.findall(form, file.read_text()) for file, form in places.items()}
    return {place: versions for place, versions in found.items() if versions}


def test_every_place_has_the_version_of_the_file() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)
    found = versions_found()
    assert len(found) >= 7 and {version for versions in found.values() for version in versions} == {VERSION}, found


def test_the_changelog_is_by_release_newest_first() -> None:
    text = (REPOSITORY / "CHANGELOG.md").read_text()
    heads = re.findall(r"(?m)^## (.+)$", text)
    assert heads[0] == "Unreleased" and re.fullmatch(rf"{re.escape(VERSION)} - \d{{4}}-\d\d-\d\d", heads[1])
    numbers = [tuple(map(int, head.split(" ")[0].split("."))) for head in heads[1:]]
    assert all(newer > older for newer, older in pairwise(numbers))
    order = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    for section in re.split(r"(?m)^## ", text)[1:]:
        kinds = re.findall(r"(?m)^### (.+)$", section)
        assert kinds == [kind for kind in order if kind in kinds]
    # Before the first release there was nothing that a user could have seen changed or mended.
    assert re.findall(r"(?m)^### (.+)$", text.rpartition("\n## ")[2]) == ["Added"]


def test_what_a_plug_in_calls_its_release_is_one() -> None:
    """`version_added` of modules, filters and lookups, as ansible-doc shows it."""
    released = re.findall(r"(?m)^## (\d\S+) - ", (REPOSITORY / "CHANGELOG.md").read_text())
    files = [path for folder in ("library", "plugins") for path in (REPOSITORY / folder).rglob("*") if path.is_file()]
    texts = {path: path.read_text() for path in files if path.suffix in (".py", ".yml")}
    found = {str(path): re.findall(r'(?m)^ *version_added: *"?([^"\s]+)', text) for path, text in texts.items()}
    assert sum(map(len, found.values())) >= 40
    assert {name: versions for name, versions in found.items() if set(versions) - set(released)} == {}


def test_every_release_has_its_notes_for_upgrades() -> None:
    released = re.findall(r"(?m)^## (\d\S+) - ", (REPOSITORY / "CHANGELOG.md").read_text())
    assert re.findall(r"(?m)^## (\d\S+)$", (REPOSITORY / "docs/upgrading.md").read_text()) == released


def test_the_table_of_systems_is_that_of_the_matrix() -> None:
    matrix = yaml.safe_load((REPOSITORY / "roles/preflight/files/matrix/systems.yml").read_text())["os_releases"]
    told = [
        (name, release) for name, releases, *_ in rows("Systems of nodes (x86_64)") for release in releases.split(", ")
    ]
    assert sorted(told) == sorted((row["name"], row["version"]) for row in matrix)


OF_THE_ARCHIVE = ("debian12", "debian13")


def platforms() -> dict[str, str]:
    """System and release of each platform of the test hosts, as the host itself tells it."""
    hosts = yaml.safe_load((REPOSITORY / "tests/fleet/hosts.yml").read_text())["hosts"]
    names = {f"debian{number}{what}": f"Debian {number}" for number in ("12", "13") for what in ("", "-nvidia")}
    names |= {"ubuntu2204": "Ubuntu 22.04", "ubuntu2404": "Ubuntu 24.04", "el8-python38": "RHEL 8.8"}
    for name in ("el8", "el9", "el10"):
        identity = (REPOSITORY / f"tests/fleet/{name}/identity/os-release").read_text()
        names[name] = "RHEL " + part_of(r'VERSION_ID="(.+)"', identity)
    return {platform: names[platform] for platform in {host.get("platform", "el8") for host in hosts.values()}}


def test_a_system_has_a_run_only_where_test_hosts_are_that_system() -> None:
    ran = {
        f"{name} {releases}" for name, releases, tested, _ in rows("Systems of nodes (x86_64)") if "stand-in" in tested
    }
    # What comes from Debian's archive is for a kernel that does not run: such a host reaches no PASS.
    assert ran == {system for platform, system in platforms().items() if platform not in OF_THE_ARCHIVE}
    beyond = {
        f"{name} {releases}"
        for name, releases, tested, _ in rows("Systems of nodes (x86_64)")
        if {"real packages", "real kernel"} & set(tested.split(", "))
    }
    assert beyond == {platforms()[name] for name in OF_THE_ARCHIVE}


def test_every_word_of_the_matrix_is_explained_and_every_lane_exists() -> None:
    words = {row[0] for row in rows("What is tested how")}
    targets = set(re.findall(r"(?m)^([a-z0-9-]+):", (REPOSITORY / "Makefile").read_text()))
    for *_, tested, lanes in rows("Systems of nodes (x86_64)"):
        assert set(tested.split(", ")) <= words - {"real GPU"}
        assert {lane.removeprefix("make ") for lane in re.findall(r"`(.+?)`", lanes)} <= targets


def test_no_real_gpu_is_claimed_and_none_is_hidden() -> None:
    folder = REPOSITORY / "docs/benchmarks"
    on_a_gpu = (folder / "gpu.json").exists() or "gpu" in json.loads((folder / "trainer.json").read_text())
    assert ("no real GPU yet" in SUPPORT) is not on_a_gpu
    assert ("Not yet run on a physical GPU" in (REPOSITORY / "README.md").read_text()) is not on_a_gpu


def test_the_pages_name_the_pythons_and_the_core_that_are_pinned() -> None:
    core = part_of(r"ansible-core==(\S+)", (REPOSITORY / "requirements/controller.in").read_text())
    assert f"ansible-core {core}" in SUPPORT
    matrix = yaml.safe_load((REPOSITORY / ".github/workflows/ci.yml").read_text())["jobs"]["unit"]["strategy"]["matrix"]
    assert [", ".join(matrix["python"]) in row[1] for row in rows("Everything else")].count(True) == 1


def test_a_collection_has_none_of_the_tests_but_those_of_galaxy() -> None:
    ignored = yaml.safe_load((REPOSITORY / "galaxy.yml").read_text())["build_ignore"]
    there = {f"tests/{path.name}" for path in (REPOSITORY / "tests").iterdir() if path.name != "__pycache__"}
    passed_on = {name for name in there if not any(fnmatch.fnmatch(name, pattern) for pattern in ignored)}
    assert passed_on == {"tests/config.yml", "tests/sanity"}
