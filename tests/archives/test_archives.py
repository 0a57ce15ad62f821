"""Everything that is planned for Debian can be installed from its archives as they are today, without installing it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.matrix import SHIPPED, read_matrix
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.question import imagined_host
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from archive import SUITES, Archive, NotAsked, sources_of

MATRIX = read_matrix(SHIPPED)
RELEASES = [row["version"] for row in MATRIX["os_releases"] if row["id"] == "debian"]
# One card for each compute capability.
CARDS = sorted(
    card["ids"][0]
    for chip in MATRIX["devices"].values()
    for card in chip["cards"].values()
    if card.get("example") and not card.get("machine")
)
ArchiveOf = Callable[[str], Archive]


class Question(NamedTuple):
    """One set of packages: for which release and cards it is planned, and from where."""

    release: str
    source: str
    flavour: str
    packages: tuple[str, ...]
    plan: Any


def planned(plan: Any) -> tuple[str, ...]:
    """What the plan has installed by apt, whichever role does it; headers of a running kernel are that host's own.

    DCGM is NVIDIA's repository's alone, and refused beside a driver from elsewhere (monitor.dcgm).
    """
    parts = [plan["driver"]["packages"], plan["kernel"]["packages"], plan["kernel"]["image"], plan["cuda"]["compiler"]]
    parts += [[plan["cuda"]["package"]], plan["cudnn"]["packages"], plan["nccl"]["packages"]]
    parts += [plan["dcgm"]["packages"] if plan["driver"]["source"] == "nvidia" else []]
    parts += [plan["python"]["packages"], plan["runtime"]["packages"], plan["containers"]["packages"]]
    return tuple(dict.fromkeys(name for part in parts for name in part if name))


def plan_of(release: str, card: str, **pins: str) -> Any:
    return solve(MATRIX, imagined_host(f"10de:{card}", f"debian {release}", releases=MATRIX["os_releases"]), pins)


def questions() -> Iterator[Question]:
    """Every set of packages once, of all cards, both kernel modules and both sources."""
    found: dict[tuple[Any, ...], Any] = {}
    for release in RELEASES:
        for card in CARDS:
            for source in ("distribution", "nvidia"):
                for flavour in ("open", "proprietary"):
                    plan = plan_of(release, card, driver_source=source, driver_flavour=flavour)
                    if "conflicts" not in plan:
                        found.setdefault((release, source, flavour, planned(plan)), plan)
    for (release, source, flavour, packages), plan in found.items():
        yield Question(release, source, flavour, packages, plan)


QUESTIONS = list(questions())


def name_of(question: Question) -> str:
    driver, cuda = question.plan["driver"], question.plan["cuda"]
    return f"debian{question.release}-{question.source}-{driver['branch']}-{question.flavour}-cuda{cuda['version']}"


def ask(archive: Archive, plan: Any) -> str:
    try:
        return archive.refusal(planned(plan), plan["driver"]["preference"])
    except NotAsked as silent:
        pytest.skip(f"not asked: {silent} did not answer")


def test_every_release_that_is_planned_is_asked() -> None:
    assert set(RELEASES) == set(SUITES)
    for release in RELEASES:
        assert {"distribution", "nvidia"} == {one.source for one in QUESTIONS if one.release == release}


@pytest.mark.parametrize("question", QUESTIONS, ids=name_of)
def test_what_is_planned_can_be_installed(archive_of: ArchiveOf, question: Question) -> None:
    if question.source == "nvidia":
        pytest.skip("not asked: NVIDIA's repository, which is no source of this machine's apt")
    assert ask(archive_of(question.release), question.plan) == ""


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("flavour", ["open", "proprietary"])
def test_each_driver_that_the_archive_has_can_be_pinned(archive_of: ArchiveOf, release: str, flavour: str) -> None:
    """Packages of one source at one version, with what counts versions of its own."""
    own = MATRIX["os_families"]["debian" + release]["distribution"]
    if flavour not in own["flavours"]:
        assert "conflicts" in plan_of(release, "20b5", driver_source="distribution", driver_flavour=flavour)
        return
    archive = archive_of(release)
    versions = archive.versions(own["flavours"][flavour]["package"])
    branches = {branch for branch, row in own["drivers"].items() if "flavours" not in row}
    asked = [version for version in versions if version.split(".")[0] in branches]
    for version in asked:
        pins = {"driver_source": "distribution", "driver_flavour": flavour, "driver_version": version}
        assert ask(archive, plan_of(release, "20b5", **pins)) == "", version
    if not asked:
        assert archive.silent, versions
        pytest.skip(f"not asked: {', '.join(archive.silent)} did not answer")


@pytest.mark.skipif(not shutil.which("apt-get"), reason="not asked: this machine has no apt")
def test_a_source_that_does_not_answer_is_not_asked(tmp_path: Path) -> None:
    lines = ["deb http://127.0.0.1:1/debian bookworm main", "deb http://127.0.0.1:1/security bookworm-security main"]
    archive = Archive("bookworm", tmp_path, sources_of(lines, "bookworm"))
    archive.fetch()
    assert archive.reached == [] and "bookworm-updates" in archive.silent
    with pytest.raises(NotAsked, match="bookworm, bookworm-security"):
        archive.refusal(["gcc"])


def test_what_apt_cannot_install_is_said_in_its_words(archive_of: ArchiveOf) -> None:
    archive = archive_of("12")
    try:
        assert "no-such-package" in archive.refusal(["gcc", "no-such-package"])
        # Two source packages of one branch that have drifted apart.
        assert "firmware-nvidia-gsp" in archive.refusal(["nvidia-open-kernel-dkms", "nvidia-smi", "libcuda1"])
    except NotAsked as silent:
        pytest.skip(f"not asked: {silent} did not answer")
